"""Training a LightGBM model on several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

from skate._run.checkpoint import Checkpoint
from skate.train._boosting import BoostingLoop, BoostingTrainer, Table
from skate.train.lightgbm._callback import TrainReportCallback
from skate.train.lightgbm._config import LightGBMConfig, get_network_params
from skate.train.lightgbm._frames import normalize_pandas_for_lightgbm
from skate.train.lightgbm.lightgbm_checkpoint import LightGBMCheckpoint


class LightGBMLoop(BoostingLoop):
    def model_in(self, checkpoint: Checkpoint) -> Any:
        return LightGBMTrainer.get_model(checkpoint)

    def rounds_of(self, model: Any) -> int:
        return int(model.current_iteration())

    def train(
        self, params: dict[str, Any], tables: dict[str, Table], rounds: int, before: Any
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

    def _set(self, name: str, features: Any, labels: Any) -> lightgbm.Dataset:
        frame = normalize_pandas_for_lightgbm(features)
        return lightgbm.Dataset(frame, label=labels, **self.table_options(name))


def _set_verbosity(verbosity: int) -> None:
    """LightGBM looks at it when it makes a table, but speaks of its connections before that."""
    lightgbm.Dataset(np.zeros((1, 1)), params={"verbosity": verbosity}).construct()


class LightGBMTrainer(BoostingTrainer):
    """Trains with LightGBM, whose workers build one model of all their data together.

    def loop(config):
        frame = train.get_dataset_shard("train").materialize().to_pandas()
        table = lightgbm.Dataset(frame.drop(columns="y"), label=frame["y"])
        params = {**config, "tree_learner": "data_parallel", "pre_partition": True,
                  **train.lightgbm.get_network_params()}
        lightgbm.train(params, table, valid_sets=[table], callbacks=[TrainReportCallback()])

    LightGBMTrainer(loop, datasets={"train": ds},
                    scaling_config=ScalingConfig(num_workers=2)).fit()

    or, without a loop:

    LightGBMTrainer(params={"objective": "l2"}, label_column="y", datasets={"train": ds}).fit()
    """

    __doc__ = f"{__doc__}\n{BoostingTrainer.__doc__}"
    _loop_class = LightGBMLoop

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any] | None = None,
        *,
        lightgbm_config: LightGBMConfig | None = None,
        **settings: Any,
    ) -> None:
        backend = lightgbm_config or LightGBMConfig()
        super().__init__(train_loop_per_worker, backend_config=backend, **settings)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> lightgbm.Booster:
        """The model in a checkpoint of this trainer."""
        return LightGBMCheckpoint.from_checkpoint(checkpoint).get_model()
