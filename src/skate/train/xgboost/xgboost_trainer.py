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
    """Trains with XGBoost, whose workers build one model of all their data together.

    def loop(config):
        frame = train.get_dataset_shard("train").materialize().to_pandas()
        table = xgboost.DMatrix(frame.drop(columns="y"), label=frame["y"])
        xgboost.train(config, table, evals=[(table, "train")], callbacks=[TrainReportCallback()])

    XGBoostTrainer(loop, datasets={"train": ds}, scaling_config=ScalingConfig(num_workers=2)).fit()

    or, without a loop:

    XGBoostTrainer(params={"eta": 0.1}, label_column="y", datasets={"train": ds}).fit()
    """

    __doc__ = f"{__doc__}\n{BoostingTrainer.__doc__}"
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
        """Load the model in a checkpoint of this trainer."""
        return XGBoostCheckpoint.from_checkpoint(checkpoint).get_model()
