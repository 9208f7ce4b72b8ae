"""A searcher as a source of trials."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skate._run.pickles import signed_pickle, unpickle
from skate._run.types import Config, ResultRow
from skate.tune.search._files import newest, write_atomically
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.searcher import Searcher
from skate.tune.search.variant_generator import format_vars, generate_variants, walk
from skate.tune.utils.util import flatten_dict

if TYPE_CHECKING:
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.trial import Trial
    from skate.tune.search._files import State


class SearchGenerator(SearchAlgorithm):
    """Ask a searcher for configurations until there are `num_samples` trials.

    Args:
        searcher: The searcher.

    Raises:
        TypeError: If it is no searcher.
    """

    CKPT_FILE_TMPL = "search_gen_state-{}.pkl"

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise TypeError(f"SearchGenerator takes a Searcher; got {searcher!r}")
        self.searcher = searcher
        self._experiment: Experiment | None = None
        self._counter = 0
        self._total_samples = 0

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    @property
    def total_samples(self) -> int:
        return self._total_samples

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        return self.searcher._tell(metric, mode, config, spec)

    def set_seed(self, seed: int) -> None:
        for layer in self._layers():
            layer.set_seed(seed)

    def add_configurations(self, experiments: object) -> None:
        from skate.tune.experiment.experiment import as_experiments

        found = as_experiments(experiments)
        if len(found) != 1:
            raise ValueError(f"a searcher works on one experiment; got {len(found)}")
        self._experiment = found[0]
        self._total_samples = self._experiment.spec.get("num_samples", 1)

    def next_trial(self) -> Trial | None:
        if self.is_finished() or self._experiment is None:
            return None
        return self.create_trial_if_possible(self._experiment.spec)

    def create_trial_if_possible(self, experiment_spec: dict[str, Any]) -> Trial | None:
        """Make a trial of the searcher's next suggestion; return None if it has none now.

        Args:
            experiment_spec: What describes the experiment.
        """
        from skate.tune.experiment.trial import Trial

        trial_id = Trial.generate_id()
        suggestion = self.searcher.suggest(trial_id)
        if suggestion == Searcher.FINISHED:
            self._finished = True
        if not isinstance(suggestion, dict):
            return None
        config = _placed(copy.deepcopy(experiment_spec.get("config") or {}), suggestion)
        _, spec = next(generate_variants({"config": config}))
        self._counter += 1
        chosen = dict(walk(spec["config"]))
        assert self._experiment is not None
        return self._experiment.make_trial(
            spec["config"],
            evaluated_params=flatten_dict(suggestion),
            trial_id=trial_id,
            experiment_tag=f"{self._counter}_{format_vars(chosen)}",
        )

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        self.searcher.on_trial_complete(trial_id=trial_id, result=result, error=error)

    def is_finished(self) -> bool:
        return self._finished or self._counter >= self._total_samples > -1

    # -- going on ----------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return how far it is; the searchers keep their own state."""
        return {"counter": self._counter, "finished": self._finished}

    def set_state(self, state: State) -> None:
        """Go on from a state.

        Args:
            state: What `get_state` has returned.
        """
        self._counter = state["counter"]
        self._finished = state["finished"]

    def has_checkpoint(self, dirpath: str) -> bool:
        return newest(dirpath, self.CKPT_FILE_TMPL.format("*")) is not None

    def save_to_dir(self, dirpath: str, session_str: str = "default", **kwargs: object) -> None:
        """Write this and the wrappers to one file, the innermost searcher to one of its own.

        Args:
            dirpath: The folder of the files.
            session_str: What their names end with.
            **kwargs: None.
        """
        *wrappers, searcher = self._layers()
        searcher.save_to_dir(dirpath, session_str)
        state = {"self": self.get_state(), "wrappers": [layer.get_state() for layer in wrappers]}
        path = os.path.join(dirpath, self.CKPT_FILE_TMPL.format(session_str))
        write_atomically(path, signed_pickle(state))

    def restore_from_dir(self, dirpath: str) -> None:
        path = newest(dirpath, self.CKPT_FILE_TMPL.format("*"))
        if path is None:
            raise RuntimeError(f"there is no state of a search in {dirpath}")
        state = unpickle(path.read_bytes(), str(path))
        *wrappers, searcher = self._layers()
        searcher.restore_from_dir(dirpath)
        for layer, saved in zip(wrappers, state["wrappers"], strict=True):
            layer.set_state(saved)
        self.set_state(state["self"])

    def _layers(self) -> list[Searcher]:
        """List the searcher, and those inside of it."""
        layers = [self.searcher]
        while isinstance(inner := getattr(layers[-1], "searcher", None), Searcher):
            layers.append(inner)
        return layers


def _placed(space: object, chosen: object) -> Any:
    """Put what was chosen into the space at its place; items of lists are named by number."""
    if not isinstance(chosen, Mapping):
        return chosen
    if isinstance(space, Mapping):
        return {**space, **{name: _placed(space.get(name), v) for name, v in chosen.items()}}
    if isinstance(space, (list, tuple)) and all(str(name).isdigit() for name in chosen):
        items = list(space)
        for name, value in chosen.items():
            items[int(name)] = _placed(items[int(name)], value)
        return type(space)(items)
    return chosen
