"""What Ray renamed or dropped, version by version: each spelling works, or says what to write.

The table is that of docs/coming-from-ray.md. Programs are run as they were written, with `ray`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
from skate.compat import ray as compat

WORKS = {
    "num_return_vals (1.0)": """
        two = ray.remote(num_return_vals=2)(lambda: (1, 2))
        assert ray.get(two.remote()) == [1, 2]
    """,
    "max_reconstructions (0.8.6)": """
        @ray.remote(max_reconstructions=1)
        class Actor:
            def value(self):
                return 1
        assert ray.get(Actor.remote().value.remote()) == 1
    """,
    "Trainable._setup, _train, _save, _restore (1.0)": """
        class Counts(ray.tune.Trainable):
            def _setup(self, config):
                self.state = {"steps": 0}
            def _train(self):
                self.state["steps"] += 1
                return {"done": True}
            def _save(self, path):
                return self.state
            def _restore(self, state):
                self.state = state
        counts = Counts()
        saved = counts.save()
        counts.train()
        counts.restore(saved)
        assert counts.state == {"steps": 0}
    """,
    "_remote(args, kwargs, **options)": """
        @ray.remote
        class Actor:
            def value(self, x=1):
                return x
        actor = Actor._remote([], {}, num_cpus=0)
        assert ray.get(actor.value._remote(args=[2])) == 2
        assert ray.get(ray.remote(lambda x: x)._remote([3], num_cpus=0.5)) == 3
    """,
    "experimental.queue (1.0)": """
        from ray.experimental.queue import Queue
        assert Queue is ray.util.queue.Queue
    """,
    "redirect_output, use_raylet (0.8)": """
        ray.shutdown()
        ray.init(num_cpus=1, redirect_output=True, use_raylet=True, num_workers=2)
        assert ray.global_state.cluster_resources()["CPU"] == 1
    """,
    "start_ray_local (0.2)": """
        ray.shutdown()
        ray.init(start_ray_local=True, num_workers=10)
        assert ray.is_initialized()
    """,
    "register_custom_serializer (1.5)": """
        class Point:
            x = 1
            def __reduce__(self):
                raise TypeError("not by pickle")
        def made(x):
            point = Point()
            point.x = x
            return point
        ray.register_custom_serializer(Point, use_pickle=True)
        ray.register_custom_serializer(
            Point, serializer=lambda point: point.x + 1, deserializer=made
        )
        assert ray.get(ray.put(Point())).x == 2
    """,
    "experimental.async_api (1.0)": """
        import asyncio
        from ray.experimental.async_api import as_future, init
        async def main():
            return await asyncio.gather(as_future(ray.put(1)), as_future(ray.put(2)))
        init()
        assert asyncio.run(main()) == [1, 2]
    """,
    "experimental.multiprocessing, util.sklearn (1.0)": """
        from ray.experimental.multiprocessing import Pool
        from ray.util.sklearn import register_ray
        with Pool(1) as pool:
            assert pool.map(abs, [-1, 2]) == [1, 2]
        register_ray()
    """,
    "util.named_actors (1.2)": """
        from ray.util.named_actors import get_actor
        @ray.remote
        class Actor:
            def value(self):
                return 1
        actor = Actor.options(name="here").remote()
        assert ray.get(get_actor("here").value.remote()) == 1
    """,
    "fully_executed, lazy (2.8)": """
        dataset = ray.data.range(3).lazy().map(lambda row: row).fully_executed()
        assert isinstance(dataset, ray.data.MaterializedDataset) and dataset.count() == 3
    """,
    "ActorPoolStrategy(2, 8) (2.3)": """
        pool = ray.data.ActorPoolStrategy(2, 8)
        assert (pool.min_size, pool.max_size) == (2, 8)
        assert pool == ray.data.ActorPoolStrategy(min_size=2, max_size=8)
    """,
    "ObjectID (1.0)": "assert isinstance(ray.put(1), ray.ObjectID)",
    "local_mode (2.55)": "assert ray.get(ray.put(1)) == 1",
    "ray.worker (2.0)": "import ray.worker; assert ray.worker.get is ray.get",
    "ray.profiling (2.0)": """
        with ray.profiling.profile("part of the work"):
            pass
    """,
    "experimental.TensorFlowVariables (0.8.2)": """
        from ray.experimental import TensorFlowVariables as exported
        from ray.experimental.tf_utils import TensorFlowVariables
        assert exported is TensorFlowVariables
    """,
    "Checkpoint.from_dict (2.7)": """
        from ray.air import Checkpoint
        assert Checkpoint.from_dict({"a": 1}).to_dict() == {"a": 1}
    """,
    "one Checkpoint, everywhere": """
        import ray.air.checkpoint, ray.train, ray.tune
        assert ray.air.checkpoint.Checkpoint is ray.train.Checkpoint is ray.tune.Checkpoint
    """,
    "DatasetPipeline (2.8)": """
        from ray.data import DatasetPipeline
        import ray.data.dataset_pipeline
        assert ray.data.dataset_pipeline.DatasetPipeline is DatasetPipeline
        pipeline = ray.data.range(4).window(blocks_per_window=1).repeat(2)
        assert isinstance(pipeline, DatasetPipeline)
        assert [epoch.count() for epoch in pipeline.iter_epochs()] == [4, 4]
    """,
    "BatchPredictor (2.7)": """
        from ray.air.batch_predictor import BatchPredictor as older
        from ray.train.batch_predictor import BatchPredictor
        assert older is BatchPredictor
    """,
    "Predictor (2.56)": """
        from ray.train.predictor import Predictor
        from ray.train.torch import TorchPredictor
        from ray.train.sklearn import SklearnPredictor
        assert issubclass(TorchPredictor, Predictor) and issubclass(SklearnPredictor, Predictor)
    """,
    "train.save_checkpoint, report(**metrics), world_rank (2.2)": """
        from ray import train
        from ray.train.data_parallel_trainer import DataParallelTrainer
        def loop(config):
            state = train.load_checkpoint()
            assert train.world_rank() == 0 and train.world_size() == 1
            train.save_checkpoint(epoch=config["epochs"])
            train.report(loss=0.5)
        trainer = DataParallelTrainer(
            loop, train_loop_config={"epochs": 2}, scaling_config={"num_workers": 1},
            run_config=train.RunConfig(storage_path=folder),
        )
        result = trainer.fit()
        assert result.metrics["loss"] == 0.5
        assert result.checkpoint.to_dict()["epoch"] == 2
    """,
    "air.session.report": """
        from ray.air import session
        from ray.train import report
        assert callable(session.report) and callable(report)
        from ray.air.config import RunConfig, ScalingConfig
        import ray.train
        assert ScalingConfig is ray.train.ScalingConfig
    """,
    "tune.checkpoint_dir, func(config, checkpoint_dir), report(**metrics) (2.7)": """
        import os
        from ray import tune
        def trial(config, checkpoint_dir=None):
            with tune.checkpoint_dir(step=1) as place:
                with open(os.path.join(place, "state"), "w") as file:
                    file.write(str(config["x"]))
            tune.report(score=config["x"])
        analysis = tune.run(
            trial, config={"x": tune.grid_search([1, 2])}, metric="score", mode="max",
            local_dir=folder, verbose=0,
        )
        assert analysis.best_config == {"x": 2}
    """,
    "tune.suggest (2.6)": """
        from ray.tune.suggest import ConcurrencyLimiter
        from ray.tune.suggest.optuna import OptunaSearch
        import ray.tune.search, ray.tune.search.optuna
        assert ConcurrencyLimiter is ray.tune.search.ConcurrencyLimiter
        assert OptunaSearch is ray.tune.search.optuna.OptunaSearch
    """,
    "tune.integration.* (2.7)": """
        from importlib.util import find_spec
        for part in ("keras", "lightgbm", "mlflow", "pytorch_lightning", "wandb", "xgboost"):
            assert find_spec(f"ray.tune.integration.{part}") is not None
    """,
    "SyncConfig(upload_dir) (2.43)": """
        from ray import tune
        tune.SyncConfig(upload_dir=folder)
    """,
    "data.range_table (2.5)": """
        assert ray.data.range_table(2).take() == [{"value": 0}, {"value": 1}]
    """,
    "ray.ml (1.13)": """
        from ray.ml import Checkpoint, RunConfig
        from ray.ml.config import ScalingConfigDataClass
        from ray.ml.preprocessors import StandardScaler
        from ray.ml.preprocessors.encoder import OneHotEncoder
        from ray.ml.predictors.integrations.torch import TorchPredictor
        from ray.ml.train.integrations.torch import TorchTrainer
        from ray.ml.trainer import Trainer
        import ray.train.torch
        assert TorchTrainer is ray.train.torch.TorchTrainer and issubclass(TorchTrainer, Trainer)
        assert Checkpoint is ray.train.Checkpoint
    """,
    "mlflow_mixin, wandb_mixin (2.7)": """
        from ray.tune.integration.mlflow import MLflowTrainableMixin, mlflow_mixin
        from ray.tune.integration.wandb import WandbTrainableMixin, wandb_mixin
    """,
    "rows that are no dictionaries (2.5)": """
        assert [row["item"] if isinstance(row, dict) else row
                for row in ray.data.from_items([1, 2]).take()] == [1, 2]
    """,
    "Dataset.to_torch (2.50)": """
        features, label = next(iter(ray.data.from_items(
            [{"x": 1.0, "y": 2.0}]).to_torch(label_column="y")))
        assert features.item() == 1.0 and label.item() == 2.0
    """,
    "BatchMapper (2.30)": """
        from ray.data.preprocessors import BatchMapper
        double = BatchMapper(lambda batch: {"id": batch["id"] * 2}, batch_format="numpy")
        assert [row["id"] for row in double.transform(ray.data.range(2)).take()] == [0, 2]
    """,
    "HuggingFaceTrainer (2.9)": """
        from ray.train.huggingface import HuggingFaceTrainer, TransformersTrainer
    """,
    "XGBoostTrainer, LightGBMTrainer of their own, SklearnTrainer (2.10)": """
        from ray.train.lightgbm import LightGBMTrainer
        from ray.train.sklearn import SklearnTrainer
        from ray.train.xgboost import XGBoostTrainer
    """,
    "what Train V2 refuses (2.51)": """
        from ray.train import RunConfig, ScalingConfig, SyncConfig
        from ray.train.torch import TorchTrainer, backward, prepare_optimizer
        TorchTrainer(
            lambda: None,
            scaling_config=ScalingConfig(num_workers=1, trainer_resources={"CPU": 0}),
            run_config=RunConfig(verbose=1, stop={"a": 1}, callbacks=[], sync_config=SyncConfig()),
            resume_from_checkpoint=None,
            metadata={"a": 1},
        )
        assert TorchTrainer.can_restore(folder) is False
    """,
}

SAYS = {
    "redis_address (2.0)": ("ray.shutdown(); ray.init(redis_address='a:1')", "address="),
    "register_actor (1.2)": (
        "from ray.util.named_actors import register_actor as f; f('a', None)", r"name='a'"
    ),
    "util.sgd (1.13)": ("from ray.util.sgd import TorchTrainer", "train.torch.TorchTrainer"),
    "util.data (2.0)": ("from ray.util.data import MLDataset", "data.Dataset"),
    "train.world_rank outside": ("ray.train.world_rank()", "inside a training loop"),
    "flaml (2.9)": ("from ray.tune.search.flaml import CFO; CFO()", "OptunaSearch"),
    "dragonfly (2.9)": ("from ray.tune.suggest.dragonfly import X; X()", "OptunaSearch"),
    "sigopt (2.9)": ("from ray.tune.search.sigopt import X; X()", "OptunaSearch"),
    "skopt (2.11)": ("from ray.tune.search.skopt import SkOptSearch as X; X()", "OptunaSearch"),
    "DurableTrainable (2.0)": ("from ray.tune import DurableTrainable", "storage_path"),
    "DistributedTrainableCreator (2.1)": ("import ray.tune.integration.torch", "tune.Tuner"),
    "tune.automl (2.6)": ("import ray.tune.automl", "OptunaSearch"),
    "WandbLogger (2.0)": (
        "from ray.tune.integration.wandb import WandbLogger", "WandbLoggerCallback"
    ),
    "range_arrow (1.13)": ("ray.data.range_arrow(3)", r"data\.range_table\(\)"),
    "GBDTTrainer (2.10)": ("from ray.train.gbdt_trainer import GBDTTrainer", "XGBoostTrainer"),
    "HorovodTrainer (2.51)": ("from ray.train.horovod import HorovodTrainer", "TorchTrainer"),
    "AccelerateTrainer (2.7)": (
        "from ray.train.huggingface import AccelerateTrainer", "TorchTrainer"
    ),
    "accelerate (2.9)": ("import ray.train.huggingface.accelerate", "Accelerator"),
    "HuggingFacePredictor (2.7)": (
        "from ray.train.huggingface import HuggingFacePredictor", "map_batches"
    ),
    "TransformersCheckpoint (2.9)": (
        "from ray.train.huggingface.transformers import TransformersCheckpoint", "from_pretrained"
    ),
    "LightningConfigBuilder (2.9)": (
        "from ray.train.lightning import LightningConfigBuilder", "prepare_trainer"
    ),
    "workflow (2.48)": ("from ray import workflow", "2.48"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def as_ray(leaves_nothing: None) -> Iterator[None]:
    compat.install()
    skate.init(num_cpus=2, local_mode=True)
    yield
    skate.shutdown()
    compat.uninstall()


def run(code: str, folder: Path) -> None:
    import textwrap

    import ray

    exec(textwrap.dedent(code), {"ray": ray, "folder": str(folder), "__name__": "program"})


@pytest.mark.leaves("modules of libraries keep threads and files of their own")
@pytest.mark.parametrize("code", WORKS.values(), ids=WORKS.keys())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_works(code: str, tmp_path: Path) -> None:
    run(code, tmp_path)


@pytest.mark.parametrize(("code", "words"), SAYS.values(), ids=SAYS.keys())
def test_it_says_what_to_write(code: str, words: str, tmp_path: Path) -> None:
    with pytest.raises((ImportError, AttributeError, TypeError, RuntimeError), match=words):
        run(code, tmp_path)
