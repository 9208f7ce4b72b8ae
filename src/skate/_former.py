"""Names that Ray has or had and skate does not have, with what to write today.

One table for all who are asked for such a name: the libraries, and `import ray` on skate.
"""

from __future__ import annotations

_DISTRIBUTED = "give a trainer to tune.Tuner, as train.torch.TorchTrainer"
_LIGHTNING = "use train.torch.TorchTrainer with train.lightning.prepare_trainer"
_PIPELINE = "a Dataset streams by itself: iterate over it, once per epoch"
SEARCHERS = "use tune.search.optuna.OptunaSearch, or another searcher of tune.search"

FORMER: dict[str, str] = {
    "data.Dataset.fully_executed": "write materialize()",
    "data.Dataset.repeat": _PIPELINE,
    "data.Dataset.window": _PIPELINE,
    "data.DatasetPipeline": _PIPELINE,
    "data.dataset_pipeline": _PIPELINE,
    "data.range_arrow": "write data.range_table()",
    "train.Trainer": "write train.torch.TorchTrainer(function, scaling_config=...).fit()",
    "train.gbdt_trainer": "use train.xgboost.XGBoostTrainer or train.lightgbm.LightGBMTrainer",
    "train.horovod": "Ray dropped Horovod; use train.torch.TorchTrainer",
    "train.lightning.LightningTrainer": _LIGHTNING,
    "tune.DurableTrainable": "derive from tune.Trainable; storage_path keeps what it saves",
    "tune.automl": SEARCHERS,
    "tune.durable": "give the trainable itself; storage_path keeps what it saves",
    "tune.integration.horovod": _DISTRIBUTED,
    "tune.integration.tensorflow": _DISTRIBUTED,
    "tune.integration.torch": _DISTRIBUTED,
    "tune.integration.wandb.WandbLogger": "use callbacks=[WandbLoggerCallback(project=...)]",
    "tune.logger.MLFLowLogger": "use callbacks=[MLflowLoggerCallback(experiment_name=...)]",
    "tune.search.ax": SEARCHERS,
    "tune.search.dragonfly": SEARCHERS,
    "tune.search.flaml": SEARCHERS,
    "tune.search.hebo": SEARCHERS,
    "tune.search.nevergrad": SEARCHERS,
    "tune.search.sigopt": SEARCHERS,
    "tune.search.skopt": SEARCHERS,
    "tune.search.zoopt": SEARCHERS,
    "tune.suggest.ax": SEARCHERS,
    "tune.suggest.dragonfly": SEARCHERS,
    "tune.suggest.flaml": SEARCHERS,
    "tune.suggest.hebo": SEARCHERS,
    "tune.suggest.nevergrad": SEARCHERS,
    "tune.suggest.sigopt": SEARCHERS,
    "tune.suggest.skopt": SEARCHERS,
    "tune.suggest.zoopt": SEARCHERS,
    "tune.track": "write tune.report()",
    "util.data": "Ray dropped MLDataset in 2.0; use data.Dataset",
    "util.horovod": "Ray dropped Horovod; use train.torch.TorchTrainer",
    "util.iter": "use data.Dataset",
    "util.sgd": "Ray dropped it in 1.13; use train.torch.TorchTrainer",
    "workflow": "Ray dropped it in 2.48; call tasks with the results of others",
}


def hint(name: str) -> str | None:
    """What to write today for a name (without `skate.`) or for what it is a part of."""
    while name:
        if name in FORMER:
            return FORMER[name]
        name = name.rpartition(".")[0]
    return None


def no_such_name(owner: str, name: str) -> str:
    """The text of the AttributeError for `skate.<owner>.<name>`."""
    today = hint(f"{owner}.{name}")
    return f"skate.{owner} has no attribute {name!r}" + (f": {today}" if today else "")
