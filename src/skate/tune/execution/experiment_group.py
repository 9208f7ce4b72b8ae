"""One experiment, or several whose trials run side by side: one search, one scheduler, a folder
each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from skate._run.types import ResultRow
from skate.tune.execution.programs import is_class
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.trial import Trial

_OF_VARIANTS = ("random", "variant_generator")  # names of what makes no use of results


def takes_groups(search_alg: object) -> bool:
    """Return whether a source of trials takes several experiments; a searcher has one space."""
    if search_alg is None or isinstance(search_alg, str):
        return search_alg is None or search_alg in _OF_VARIANTS
    return isinstance(search_alg, SearchAlgorithm) and not isinstance(search_alg, SearchGenerator)


class ExperimentGroup:
    """Experiments that run together.

    Args:
        experiments: At least one; those in one folder share its files.
    """

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.experiments: list[Experiment] = list(experiments)
        # Callbacks and reporters hear of the settings of this one.
        self.first: Experiment = self.experiments[0]
        folders: dict[str, list[Experiment]] = {}
        for experiment in self.experiments:
            folders.setdefault(experiment.path, []).append(experiment)
        self.folders: list[list[Experiment]] = list(folders.values())
        for folder in self.folders:
            _join(folder)

    @property
    def name(self) -> str:
        """The names of all."""
        return ", ".join(first.name for first, *_ in self.folders)

    @property
    def path(self) -> str:
        """The folders of all."""
        return ", ".join(first.path for first, *_ in self.folders)

    def of(self, trial: Trial) -> Experiment:
        """Return the experiment that a trial is of."""
        return self.of_id(trial.trial_id)

    def of_id(self, trial_id: str) -> Experiment:
        """Return the experiment that the trial with this id is of."""
        if len(self.experiments) == 1:
            return self.first
        return next(one for one in self.experiments if trial_id in one.trial_ids)

    def counts(self, trials: Sequence[Trial]) -> list[int]:
        """Return how many of these trials are of each experiment."""
        found = Counter(map(self.of, trials))
        return [found[experiment] for experiment in self.experiments]

    def trainable_of(self, trial: Trial) -> object:
        """Return what a trial runs."""
        return self.of(trial).trainable

    def has_steps(self, trial: Trial) -> bool:
        """Return whether a trial is of a class, which saves when it is told to."""
        return is_class(self.of(trial).trainable)

    @property
    def has_classes(self) -> bool:
        """Whether some of the trials have steps."""
        return any(is_class(experiment.trainable) for experiment in self.experiments)

    @property
    def stopper(self) -> Stopper | None:
        """The stop conditions, each for the trials of its experiment."""
        if len(self.experiments) == 1:
            return self.first.stopper
        return StopperOfEach(self) if any(self.stoppers()) else None

    def stoppers(self) -> Iterator[Stopper | None]:
        """Yield the stop conditions of all."""
        return (experiment.stopper for experiment in self.experiments)


def _join(folder: Sequence[Experiment]) -> None:
    """Have the experiments of a folder share it, and number those that only differ in settings."""
    alike: Counter[str] = Counter()
    for experiment in folder:
        experiment.share_dirnames(folder[0])
        experiment.number = alike[experiment.run_identifier]
        alike[experiment.run_identifier] += 1


class StopperOfEach(Stopper):
    """End trials as their experiments say, and all when each of these is over.

    Args:
        group: The experiments.
    """

    def __init__(self, group: ExperimentGroup) -> None:
        self._group = group

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        stopper = self._group.of_id(trial_id).stopper
        return stopper is not None and (stopper(trial_id, result) or stopper.stop_all())

    def stop_all(self) -> bool:
        return all(one is not None and one.stop_all() for one in self._group.stoppers())
