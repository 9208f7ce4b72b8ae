"""Training a LightGBM model on several workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train._boosting import BoostingLoop, BoostingSettings, BoostingTrainer, Table
from skate.train.lightgbm._callback import TrainReportCallback
from skate.train.lightgbm._config import LightGBMConfig, get_network_params
from skate.train.lightgbm._frames import normalize_pandas_for_lightgbm
from skate.train.lightgbm.lightgbm_checkpoint import LightGBMCheckpoint

if TYPE_CHECKING:
    import pandas as pd

    from skate.data.preprocessor import Preprocessor
    from skate.train._data import DataConfig


class LightGBMLoop(BoostingLoop[lightgbm.Booster]):
    def model_in(self, checkpoint: Checkpoint) -> lightgbm.Booster:
        return LightGBMTrainer.get_model(checkpoint)

    def rounds_of(self, model: lightgbm.Booster) -> int:
        return int(model.current_iteration())

    def train(
        self,
        params: Config,
        tables: dict[str, Table],
        rounds: int,
        before: lightgbm.Booster | None,
    ) -> None:
        sets = {name: self._set(name, *table) for name, table in tables.items()}
        together = {"tree_learner": "data_parallel", "pre_partition": True}
        params = {"verbosity": -1, **together, **params}
        _set_verbosity(params["verbosity"])
        options = self.train_options(TrainReportCallback)
        model = lightgbm.train(
            {**params, **get_network_params()},
            next(iter(sets.values())),
            num_boost_round=rounds,
            valid_sets=list(sets.values()),
            valid_names=list(sets),
            init_model=before,
            **options,
        )
        for callback in options["callbacks"]:
            if isinstance(callback, TrainReportCallback):
                callback.end(model)

    def _set(self, name: str, features: object, labels: pd.Series) -> lightgbm.Dataset:
        frame = normalize_pandas_for_lightgbm(features)
        return lightgbm.Dataset(frame, label=labels, **self.table_options(name))


def _set_verbosity(verbosity: int) -> None:
    """Set LightGBM's verbosity, which it reads when it makes a table, before it connects."""
    lightgbm.Dataset(np.zeros((1, 1)), params={"verbosity": verbosity}).construct()


class LightGBMTrainer(BoostingTrainer):
    """Train with LightGBM, whose workers build one model of all their data together.

    With `train_loop_per_worker` it runs that loop in each worker, as a DataParallelTrainer does.
    Without it, `datasets["train"]` is shared out between the workers and boosted with `params`;
    the other datasets are evaluated after each round.

    Args:
        train_loop_per_worker: The loop: a function without arguments, or of its configuration.
        train_loop_config: That configuration.
        lightgbm_config: How the workers find each other.
        scaling_config: How many workers, and what each gets.
        run_config: Where the run goes, what happens when it fails, and which checkpoints are kept.
        datasets: The data by names; workers share out the one called "train".
        dataset_config: Which datasets are shared out, and how.
        preprocessor: What the datasets go through first; checkpoints bring it along.
        resume_from_checkpoint: A checkpoint of this trainer to go on from.
        metadata: What each checkpoint says about itself.
        validation_config: What validates checkpoints while the loop goes on.
        label_column: Without a loop: the column that is to be predicted.
        params: Without a loop: the parameters of the library's `train`.
        num_boost_round: Without a loop: how many rounds there are in all; by default 10.
        dmatrix_params: Without a loop: options of the library's tables, by dataset.
        train_kwargs: Without a loop: what else goes to the library's `train`.

    Example:
        >>> import skate.data
        >>> from skate.train import RunConfig, ScalingConfig
        >>> from skate.train.lightgbm import LightGBMTrainer
        >>> rows = skate.data.from_items([{"x": x, "y": 2.0 * x} for x in range(100)])
        >>> trainer = LightGBMTrainer(
        ...     params={"objective": "l2", "verbosity": -1},
        ...     label_column="y",
        ...     datasets={"train": rows},
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(verbose=0),
        ... )
        >>> LightGBMTrainer.get_model(trainer.fit().checkpoint).current_iteration()
        10

    Or with a loop, which boosts as it likes and reports by a callback:

    Example:
        >>> def loop(config):
        ...     import lightgbm
        ...     from skate import train
        ...     from skate.train.lightgbm import TrainReportCallback, get_network_params
        ...
        ...     frame = train.get_dataset_shard("train").materialize().to_pandas()
        ...     table = lightgbm.Dataset(frame[["x"]], label=frame["y"])
        ...     params = {
        ...         **config,
        ...         "tree_learner": "data_parallel",
        ...         "pre_partition": True,
        ...         **get_network_params(),
        ...     }
        ...     reporting = [TrainReportCallback()]
        ...     lightgbm.train(params, table, valid_sets=[table], callbacks=reporting)
        >>> trainer = LightGBMTrainer(
        ...     loop,
        ...     train_loop_config={"objective": "l2", "verbosity": -1},
        ...     datasets={"train": rows},
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(verbose=0),
        ... )
        >>> trainer.fit().checkpoint is None
        False
    """

    _loop_class = LightGBMLoop

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object] | None = None,
        *,
        train_loop_config: Config | None = None,
        lightgbm_config: LightGBMConfig | None = None,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        datasets: Mapping[str, object] | None = None,
        dataset_config: DataConfig | Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
        metadata: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
        label_column: str | None = None,
        params: Config | None = None,
        num_boost_round: int | None = None,
        dmatrix_params: dict[str, dict[str, Any]] | None = None,
        **train_kwargs: object,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            BoostingSettings(label_column, params, num_boost_round, dmatrix_params, train_kwargs),
            train_loop_config=train_loop_config,
            backend_config=lightgbm_config or LightGBMConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
            metadata=metadata,
            validation_config=validation_config,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> lightgbm.Booster:
        """Return the model in a checkpoint of this trainer.

        Args:
            checkpoint: The checkpoint, as `fit()` returns it in its result.
        """
        return LightGBMCheckpoint.from_checkpoint(checkpoint).get_model()
