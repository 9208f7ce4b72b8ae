"""`Tuner`: a search as an object, which can be taken up again."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from skate._core.nearest import SpelledOut
from skate._core.plain_errors import failing_plainly
from skate._core.serialization import dumps
from skate._core.signature import showing_keywords
from skate._run.config import RunConfig
from skate._run.config_checks import as_config, default_storage_path
from skate._run.errors import NothingToRestoreError
from skate._run.ledger import claimed
from skate._run.pickles import allowing, signed_pickle, unpickle
from skate._run.scaling_config import ScalingConfig
from skate._run.storage import Storage
from skate._run.stored_references import LostReference
from skate._run.types import Config
from skate.exceptions import UnreadablePickleError
from skate.tune._experiments import make_experiment
from skate.tune._older_spellings import trainable_of
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import LostDataError, TuneError
from skate.tune.execution.launch import execute
from skate.tune.execution.programs import is_class
from skate.tune.execution.resume import check_trainable
from skate.tune.execution.warm_start import checked_folders
from skate.tune.experiment.experiment import Experiment, as_space
from skate.tune.experiment.state_file import STATE_FILE
from skate.tune.result_grid import ResultGrid
from skate.tune.search.renewal import check_same_keys
from skate.tune.trainable.function_trainable import FunctionTrainable
from skate.tune.trainable.trainable import Trainable
from skate.tune.tune_config import ResumeConfig, TuneConfig

logger: logging.Logger = logging.getLogger(__name__)

TUNER_FILE = "tuner.pkl"
TRAINABLE_FILE = "trainable.pkl"


class Tuner(SpelledOut):
    """Search a space of configurations with trials of a function, a Trainable or a trainer.

    Args:
        trainable: What a trial runs: a function of its configuration, a `Trainable`, a trainer, or
            the name of a registered one.
        param_space: The space: values, and domains as `tune.uniform(0, 1)`; with a trainer, by the
            names of its parameters, as `{"train_loop_config": {"lr": …}}`.
        tune_config: What is optimised, by whom, and with how many trials.
        run_config: Where it goes, when it stops, and who is told.
        warm_start: Folders of earlier searches, storage_path/name, whose trials the searcher
            learns from before it begins. They are read as data: nothing is unpickled.

    Names that begin with an underscore are for Ray's own use and change nothing.

    Raises:
        TuneError: If there is no trainable.
        TypeError: If it cannot be sent to other processes.
        FileNotFoundError: If a folder of `warm_start` has no search.

    Example:
        >>> from skate import tune
        >>> def objective(config):
        ...     tune.report({"score": config["x"] ** 2})
        >>> space = {"x": tune.grid_search([1, 2])}
        >>> tuner = tune.Tuner(objective, param_space=space, run_config={"verbose": 0})
        >>> tuner.fit().get_best_result("score", "max").config
        {'x': 2}
    """

    _warm_start: Sequence[str] = ()

    def __init__(
        self,
        trainable: object = None,
        *,
        param_space: Config | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        warm_start: Sequence[str | os.PathLike[str]] | None = None,
        _tuner_kwargs: dict[str, Any] | None = None,
        _tuner_internal: object = None,
        _entrypoint: object = None,
    ) -> None:
        known = callable(trainable) or hasattr(trainable, "as_trainable")
        if not known and not isinstance(trainable, str):
            raise TuneError(
                "Tuner needs a trainable: a function, a Trainable, a trainer, or the name of one "
                f"that is registered; got {trainable!r}"
            )
        pickled = _pickle_of(trainable)
        self._configure(trainable, param_space, tune_config, run_config)
        self._warm_start = checked_folders(warm_start)
        self._announce(pickled)

    def _configure(
        self,
        trainable: object,
        param_space: Config | None,
        tune_config: TuneConfig | None,
        run_config: RunConfig | None,
    ) -> None:
        self._trainable = trainable
        self._param_space = _as_space(param_space)
        if not isinstance(trainable, type) and hasattr(trainable, "_check_space"):  # a trainer
            trainable._check_space(self._param_space)
        self._tune_config = as_config(TuneConfig, tune_config)
        self._run_config = as_config(RunConfig, run_config or _run_config_of(trainable))
        self._previous_space: dict[str, Any] | None = None  # where another was given to `restore`
        self._resume: ResumeConfig | None = None
        self._storage: Storage | None = None
        self._results: ResultGrid | None = None
        self._allow_pickle = False

    def __getattribute__(self, name: str) -> Any:
        if name == "restore":
            raise AttributeError(
                "restore makes another Tuner, and changes nothing of this one: call it on the "
                "class, tuner = Tuner.restore(path, trainable=…)"
            )
        return super().__getattribute__(name)

    @property
    def _local_tuner(self) -> Tuner:
        """Itself: programs for Ray look inside for its configurations."""
        return self

    # -- running -----------------------------------------------------------------------------

    @failing_plainly
    def fit(self) -> ResultGrid:
        """Run all trials.

        Returns:
            What they came to. The failure of a trial is in its result.

        Raises:
            TuneError: If trials can never run, for want of resources.
            RuntimeError: If another program writes to the same folder.

        Example:
            >>> from skate import tune
            >>> tuner = tune.Tuner(
            ...     lambda config: {"loss": (config["x"] - 2) ** 2},
            ...     param_space={"x": tune.grid_search([0, 1, 2, 3])},
            ...     tune_config=tune.TuneConfig(metric="loss", mode="min"),
            ...     run_config={"verbose": 0},
            ... )
            >>> tuner.fit().get_best_result().config
            {'x': 2}
        """
        experiment = make_experiment(
            self._trainable, self._param_space, self._tune_config, self._run_config
        )
        experiment.previous_space = self._previous_space
        _save_at_end(experiment)
        self._storage = experiment.storage
        with allowing(self._allow_pickle), claimed(experiment.storage):
            if self._resume is None or self._previous_space is not None:
                self._save(experiment.storage, _pickle_of(self._trainable))
            analysis = execute(
                [experiment], self._tune_config, self._run_config, self._resume, self._warm_start
            )
            self._results = ResultGrid(analysis)
        return self._results

    def get_results(self) -> ResultGrid:
        """Return what the trials came to, also of a tuner that was restored but not run.

        Raises:
            RuntimeError: If there are no results yet.
        """
        if self._results is None:
            if self._resume is None or self._storage is None:
                raise RuntimeError("there are no results yet: call fit() first")
            config = self._tune_config
            self._results = ResultGrid(
                ExperimentAnalysis(
                    self._storage,
                    default_metric=config.metric,
                    default_mode=config.mode,
                    allow_pickle=self._allow_pickle,
                )
            )
        return self._results

    # -- taking up ---------------------------------------------------------------------------

    def _announce(self, pickled: bytes | None) -> None:
        """Save a search that has a name, so that it can be restored before it has begun."""
        config = self._run_config
        if config.name is None:
            return
        place = config.storage_path or default_storage_path()
        storage = Storage(place, config.name, config.storage_filesystem, config.durability)
        if storage.is_local and not storage.exists(TUNER_FILE) and not storage.exists(STATE_FILE):
            self._save(storage, pickled)

    def _save(self, storage: Storage, pickled: bytes | None) -> None:
        """Write what `restore` needs, with the trainable as `_pickle_of` made it."""
        content = {
            "param_space": self._param_space,
            "tune_config": self._tune_config,
            "run_config": self._run_config,
            "trainable_name": Experiment.get_trainable_name(self._trainable),
            "warm_start": self._warm_start,
        }
        try:
            storage.write(TUNER_FILE, signed_pickle(content))
        except Exception as error:
            logger.info("%s is not written, so not restored: %r", TUNER_FILE, error)
        if pickled is not None:
            try:
                storage.write(TRAINABLE_FILE, pickled)
            except Exception as error:
                logger.info("%s is not written, so not restored: %r", TRAINABLE_FILE, error)

    @classmethod
    @failing_plainly
    @showing_keywords(())  # older names are not for new programs
    def restore(
        cls,
        path: object,
        trainable: object = None,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Config | None = None,
        storage_filesystem: object = None,
        _resume_config: ResumeConfig | None = None,
        *,
        allow_pickle: bool = False,
        **older: object,
    ) -> Tuner:
        """Make the tuner of an experiment's folder; `fit` goes on with it.

        Finished trials stay; unfinished ones go on from their checkpoint, or from the start if
        there is none.

        Args:
            path: The folder, storage_path/name, or its URI. It may have been moved.
            trainable: What the trials run; by default what was saved, as it was then.
            resume_unfinished: Whether trials that have not ended go on.
            resume_errored: Whether failed trials go on from their checkpoints.
            restart_errored: Whether failed trials begin anew.
            param_space: The same space once more, whose objects (datasets, references) take the
                place of those that the trials had.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
            allow_pickle: Whether to go on with a search that this user has not begun on this
                machine, which runs whatever code its pickles contain. To look at its results
                without that, use `ExperimentAnalysis(path)`.
            older: `overwrite_trainable`, an earlier name of `trainable`.

        Raises:
            FileNotFoundError: If there is nothing to restore; also a ValueError.
            UntrustedPickleError: If it is the search of somebody else, and that is not allowed.
            LostDataError: If it used objects that are gone, which must be given again.
        """
        trainable = trainable_of(trainable, older, signature(cls.restore).parameters)
        storage = Storage.at(path, storage_filesystem)
        if not storage.exists(TUNER_FILE):
            raise NothingToRestoreError(
                f"there is no tuner to restore at {storage.path!r}, which has no {TUNER_FILE}; "
                "give the folder of a search, which is storage_path/name"
            )
        lost: list[LostReference] = []
        place = f"{storage.path}/{TUNER_FILE}"
        content = unpickle(storage.read(TUNER_FILE), place, allow_pickle, lost)
        if lost and param_space is None:
            raise LostDataError(storage.path, "param_space")
        if trainable is not None:
            name = Experiment.get_trainable_name(trainable)
            check_trainable(name, content.get("trainable_name"))
        config = content["run_config"]
        parent, _, config.name = storage.path.rstrip("/").rpartition("/")
        config.storage_path = parent or "/"
        config.storage_filesystem = None if storage.is_local else storage.filesystem
        if trainable is not None:
            _pickle_of(trainable)
        else:
            trainable = _saved_trainable(storage, allow_pickle)
        space = param_space if param_space is not None else content["param_space"]
        tuner = cls.__new__(cls)
        tuner._configure(trainable, space, content["tune_config"], config)
        tuner._warm_start = content.get("warm_start", [])
        if param_space is not None:
            tuner._previous_space = _as_space(content["param_space"])
            check_same_keys(tuner._previous_space, tuner._param_space)
        tuner._storage = storage
        tuner._allow_pickle = allow_pickle
        resume = _resume_config or _resume_of(resume_unfinished, resume_errored, restart_errored)
        tuner._resume = resume if storage.exists(STATE_FILE) else None  # it has not begun
        return tuner

    @classmethod
    def can_restore(cls, path: object, storage_filesystem: object = None) -> bool:
        """Return whether there is an experiment to restore; also one that has not begun.

        Args:
            path: The experiment's folder, or its URI.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
        """
        return Storage.at(path, storage_filesystem).exists(TUNER_FILE)


def _save_at_end(experiment: Experiment) -> None:
    """Let classes that can save do so at the end of a trial, unless it is said whether they do."""
    keep, trainable = experiment.checkpoint_config, experiment.trainable
    if keep.checkpoint_at_end is not None or not is_class(trainable):
        return
    steps_a_function = issubclass(trainable, FunctionTrainable)
    if trainable.save_checkpoint is not Trainable.save_checkpoint and not steps_a_function:
        experiment.checkpoint_config = replace(keep, checkpoint_at_end=True)


def _pickle_of(trainable: object) -> bytes | None:
    """Return the trainable as it is written; None if it can go to workers, but not into a file.

    Raises:
        TypeError: If it cannot be pickled at all, with the part of it that cannot.
    """
    try:
        return signed_pickle(trainable)
    except Exception as problem:
        try:
            dumps(trainable, "trainable")
        except TypeError as error:
            raise TypeError(f"the trainable was found to be non-serializable: {error}") from error
        logger.info("%s is not written, so not restored: %r", TRAINABLE_FILE, problem)
        return None


def _saved_trainable(storage: Storage, allow_pickle: bool) -> Any:
    lost: list[LostReference] = []
    place = f"{storage.path}/{TRAINABLE_FILE}"
    try:
        trainable = unpickle(storage.read(TRAINABLE_FILE), place, allow_pickle, lost)
    except (FileNotFoundError, UnreadablePickleError) as error:
        raise ValueError(
            f"the trainable was not saved, or can be read in its own program only ({error}): "
            f"give it to Tuner.restore(path, trainable=…)"
        ) from error
    if lost:
        raise LostDataError(storage.path, "trainable")
    return trainable


def _resume_of(unfinished: bool, errored: bool, restart: bool) -> ResumeConfig:
    if errored and restart:
        raise ValueError("resume_errored and restart_errored exclude each other")
    return ResumeConfig(
        unfinished="resume" if unfinished else "skip",
        errored="resume" if errored else "restart" if restart else "skip",
    )


def _as_space(given: object) -> dict[str, Any]:
    space = as_space(given)
    scaling = space.get("scaling_config")
    if isinstance(scaling, ScalingConfig):  # its values may be domains
        return {**space, "scaling_config": vars(scaling)}
    return space


def _run_config_of(trainable: object) -> Any:
    """Return the RunConfig that a trainer may bring along; None if it has none."""
    return None if isinstance(trainable, type) else getattr(trainable, "run_config", None)
