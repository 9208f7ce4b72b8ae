"""Training an XGBoost model on several workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import xgboost

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train._boosting import BoostingLoop, BoostingSettings, BoostingTrainer, Table
from skate.train.xgboost._callback import TrainReportCallback
from skate.train.xgboost._config import XGBoostConfig
from skate.train.xgboost.xgboost_checkpoint import XGBoostCheckpoint

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor
    from skate.train._data import DataConfig


class XGBoostLoop(BoostingLoop[xgboost.Booster]):
    def model_in(self, checkpoint: Checkpoint) -> xgboost.Booster:
        return XGBoostTrainer.get_model(checkpoint)

    def rounds_of(self, model: xgboost.Booster) -> int:
        return int(model.num_boosted_rounds())

    def train(
        self, params: Config, tables: dict[str, Table], rounds: int, before: xgboost.Booster | None
    ) -> None:
        matrices = {
            name: xgboost.DMatrix(features, label=labels, **self.table_options(name))
            for name, (features, labels) in tables.items()
        }
        xgboost.train(
            params,
            next(iter(matrices.values())),
            num_boost_round=rounds,
            evals=[(matrix, name) for name, matrix in matrices.items()],
            xgb_model=before,
            **{"verbose_eval": False, **self.train_options(TrainReportCallback)},
        )


class XGBoostTrainer(BoostingTrainer):
    """Train with XGBoost, whose workers build one model of all their data together.

    With `train_loop_per_worker` it runs that loop in each worker, as a DataParallelTrainer does.
    Without it, `datasets["train"]` is shared out between the workers and boosted with `params`;
    the other datasets are evaluated after each round.

    Args:
        train_loop_per_worker: The loop: a function without arguments, or of its configuration.
        train_loop_config: That configuration.
        xgboost_config: How the workers find each other.
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
        >>> from skate.train.xgboost import XGBoostTrainer
        >>> rows = skate.data.from_items([{"x": x, "y": 2.0 * x} for x in range(100)])
        >>> trainer = XGBoostTrainer(
        ...     params={"eta": 0.5},
        ...     label_column="y",
        ...     datasets={"train": rows},
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(verbose=0),
        ... )
        >>> XGBoostTrainer.get_model(trainer.fit().checkpoint).num_boosted_rounds()
        10

    Or with a loop, which boosts as it likes and reports by a callback:

    Example:
        >>> def loop():
        ...     import xgboost
        ...     from skate import train
        ...     from skate.train.xgboost import TrainReportCallback
        ...
        ...     frame = train.get_dataset_shard("train").materialize().to_pandas()
        ...     table = xgboost.DMatrix(frame[["x"]], label=frame["y"])
        ...     reporting = [TrainReportCallback()]
        ...     xgboost.train({}, table, evals=[(table, "train")], callbacks=reporting)
        >>> trainer = XGBoostTrainer(
        ...     loop,
        ...     datasets={"train": rows},
        ...     scaling_config=ScalingConfig(num_workers=2),
        ...     run_config=RunConfig(verbose=0),
        ... )
        >>> "train-rmse" in trainer.fit().metrics
        True
    """

    _loop_class = XGBoostLoop

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object] | None = None,
        *,
        train_loop_config: Config | None = None,
        xgboost_config: XGBoostConfig | None = None,
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
        dmatrix_params: dict[str, dict[str, object]] | None = None,
        **train_kwargs: object,
    ) -> None:
        super().__init__(
            train_loop_per_worker,
            BoostingSettings(label_column, params, num_boost_round, dmatrix_params, train_kwargs),
            train_loop_config=train_loop_config,
            backend_config=xgboost_config or XGBoostConfig(),
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
    def get_model(cls, checkpoint: Checkpoint) -> xgboost.Booster:
        """Return the model in a checkpoint of this trainer.

        Args:
            checkpoint: The checkpoint, as `fit()` returns it in its result.
        """
        return XGBoostCheckpoint.from_checkpoint(checkpoint).get_model()
