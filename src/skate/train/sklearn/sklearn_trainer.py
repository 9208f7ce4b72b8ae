"""Fitting an estimator of scikit-learn in a worker."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from sklearn.base import clone

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig
from skate._run.folders import scratch_dir
from skate._run.scaling_config import ScalingConfig
from skate._run.session import report
from skate._run.types import Config
from skate.predict.sklearn import set_threads, thread_parameters
from skate.train._data import TRAIN_DATASET_KEY
from skate.train._workers.threads import own_threads
from skate.train.base_trainer import BaseTrainer
from skate.train.sklearn._scores import scores
from skate.train.sklearn.sklearn_checkpoint import SklearnCheckpoint

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from skate.data.preprocessor import Preprocessor


CV_KEY = "cv"
GROUPS_COLUMN = "cv_groups"

Table = tuple[Any, Any]  # features and labels


class SklearnTrainer(BaseTrainer):
    """Fit an estimator of scikit-learn, in a worker process.

    Fits `estimator`, with `params` set, to `datasets["train"]`, and reports once: its scores on
    each other dataset, and those of cross-validation if `cv` says how, under "cv".

    `label_column` names what is to be predicted; `scoring`, `cv` and `return_train_score_cv` mean
    what they mean to `sklearn.model_selection.cross_validate`, for which a column "cv_groups" has
    the groups. The CPUs of `ScalingConfig(trainer_resources={"CPU": n})` are used by the estimator
    (its `n_jobs`, unless `set_estimator_cpus` is False) or, with `parallelize_cv`, by as many
    threads that each take a fold; None chooses that for estimators that have no `n_jobs`.
    `fit_params` go to `estimator.fit`. `scaling_config`, `run_config`, `preprocessor` and
    `metadata` are those of all trainers.
    """

    def __init__(
        self,
        *,
        estimator: object,
        datasets: dict[str, object],
        label_column: str | None = None,
        params: Config | None = None,
        scoring: object = None,
        cv: object = None,
        return_train_score_cv: bool = False,
        parallelize_cv: bool | None = None,
        set_estimator_cpus: bool = True,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        metadata: dict[str, Any] | None = None,
        **fit_params: object,
    ) -> None:
        super().__init__(
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            preprocessor=preprocessor,
            metadata=metadata,
        )
        self.estimator: Any = clone(estimator)
        self.label_column = label_column
        self.params: dict[str, Any] = params or {}
        self.scoring = scoring
        self.cv = cv
        self.return_train_score_cv = return_train_score_cv
        self.parallelize_cv = parallelize_cv
        self.set_estimator_cpus = set_estimator_cpus
        self.fit_params = fit_params
        self._resources = self.scaling_config._trainer_resources_not_none
        self._check()

    def _check(self) -> None:
        if "resume_from_checkpoint" in self.fit_params:
            raise ValueError("fitting cannot go on from a checkpoint: resume_from_checkpoint")
        if TRAIN_DATASET_KEY not in self.datasets:
            raise KeyError(f"datasets needs {TRAIN_DATASET_KEY!r}; it has {sorted(self.datasets)}")
        if CV_KEY in self.datasets:
            raise KeyError(
                f"{CV_KEY!r} is the name of the scores of cross-validation; "
                f"name the dataset differently: {sorted(self.datasets)}"
            )
        if self.scaling_config.num_workers not in (0, 1):
            raise ValueError(
                "an estimator is fitted in one process, so `num_workers` and the like are not "
                f"allowed to be updated; got {self.scaling_config!r}. "
                'Give it CPUs with ScalingConfig(trainer_resources={"CPU": n})'
            )
        if self.cv and self.parallelize_cv and self._resources.get("GPU"):
            raise ValueError("parallelize_cv cannot be True where the trainer has GPUs")

    def training_loop(self) -> None:
        tables = {name: self._table(dataset) for name, dataset in self.datasets.items()}
        features, labels = tables.pop(TRAIN_DATASET_KEY)
        groups = features.pop(GROUPS_COLUMN) if GROUPS_COLUMN in features else None
        estimator = clone(self.estimator).set_params(**self.params)
        cpus = int(self._resources.get("CPU", 1))
        folds_at_once = cpus if self._folds_in_parallel(estimator) else 1
        if self.set_estimator_cpus:
            set_threads(estimator, cpus if folds_at_once == 1 else 1)
        with own_threads(), joblib.parallel_config("threading"), warnings.catch_warnings():
            # The user has not set it; estimators say so that have it for old times' sake.
            warnings.filterwarnings("ignore", "'n_jobs' has no effect", FutureWarning)
            results = self._cross_validated(estimator, (features, labels), groups, folds_at_once)
            estimator.fit(features, labels, **self.fit_params)
        if self.label_column is not None:
            for name, (x, y) in tables.items():
                results[name] = scores(estimator, x, y, self.scoring)
        self._report(results, estimator)

    def _table(self, dataset: Any) -> Table:
        frame = dataset.to_pandas()
        if self.label_column is None:
            return frame, None
        return frame.drop(columns=self.label_column), frame[self.label_column]

    def _folds_in_parallel(self, estimator: object) -> bool:
        if self.parallelize_cv is not None:
            return self.parallelize_cv
        return not self._resources.get("GPU") and not thread_parameters(estimator)

    def _cross_validated(
        self, estimator: object, table: Table, groups: object, at_once: int
    ) -> dict[str, object]:
        if not self.cv:
            return {}
        from sklearn.model_selection import cross_validate

        found = cross_validate(
            estimator, *table, groups=groups, scoring=self.scoring, cv=self.cv,
            n_jobs=at_once, params=self.fit_params or None,
            return_train_score=self.return_train_score_cv,
        )  # fmt: skip
        results = dict(found)
        for name, values in found.items():
            results[f"{name}_mean"] = float(np.nanmean(values))
            results[f"{name}_std"] = float(np.nanstd(values))
        return {CV_KEY: results}

    def _report(self, results: dict[str, object], estimator: object) -> None:
        with tempfile.TemporaryDirectory(prefix="checkpoint_", dir=scratch_dir()) as folder:
            checkpoint = SklearnCheckpoint.from_estimator(
                estimator, path=folder, preprocessor=self.preprocessor
            )
            report(results, checkpoint=checkpoint)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> BaseEstimator:
        """Load the estimator in a checkpoint of this trainer.

        Args:
            checkpoint: The checkpoint, as `fit()` returns it in its result.

        Returns:
            The estimator.
        """
        return SklearnCheckpoint.from_checkpoint(checkpoint).get_estimator()
