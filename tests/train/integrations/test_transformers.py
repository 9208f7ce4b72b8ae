"""`transformers.Trainer` on the workers of a trainer, with the real thing."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import skate.data
from skate import train
from skate.train import FailureConfig, ScalingConfig
from skate.train.huggingface import HuggingFaceTrainer, TransformersTrainer
from skate.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from skate.train.torch import TorchTrainer

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the libraries about each other
]


def tiny_model() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def texts(count: int) -> list[dict[str, Any]]:
    ids = np.random.default_rng(0).integers(0, 16, (count, 8))
    return [{"input_ids": row, "labels": row} for row in ids]


def arguments(folder: Any, **settings: Any) -> Any:
    return transformers.TrainingArguments(
        str(folder),
        **{
            "per_device_train_batch_size": 4,
            "num_train_epochs": 3,
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "logging_strategy": "epoch",
            "use_cpu": True,
            "report_to": "none",
            "disable_tqdm": True,
            **settings,
        },
    )


def fit(loop: Any, run_config: Any, workers: int = 2, **settings: Any) -> Any:
    return TorchTrainer(
        loop, scaling_config=ScalingConfig(num_workers=workers), run_config=run_config, **settings
    ).fit()


def test_two_workers_train_one_model_and_go_on_after_one_was_killed(run_config, tally, tmp_path):
    class Killer(transformers.TrainerCallback):
        def on_epoch_begin(self, args, state, control, **kwargs):
            if state.epoch == 2 and train.world_rank() == 1 and len(tally) == 0:
                tally.add()
                os.kill(os.getpid(), signal.SIGKILL)

    def loop():
        model = tiny_model()
        trainer = transformers.Trainer(
            model, arguments(tmp_path / "out"), train_dataset=texts(16), eval_dataset=texts(8),
            callbacks=[Killer(), RayTrainReportCallback()],
        )  # fmt: skip
        assert trainer.args.world_size == 2
        checkpoint = train.get_checkpoint()
        path = checkpoint and os.path.join(checkpoint.path, "checkpoint")
        prepare_trainer(trainer).train(resume_from_checkpoint=path)
        mine = model.lm_head.weight.detach()
        parts = [torch.empty_like(mine) for _ in range(2)]
        torch.distributed.all_gather(parts, mine)
        return torch.equal(*parts), mine

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    same, weights = result.return_value
    assert same
    assert len(tally) == 1
    history = result.metrics_dataframe
    assert list(history["epoch"]) == [1, 2, 3]
    assert list(history["step"]) == [2, 4, 6]  # 16 rows, 2 workers, batches of 4
    assert list(history["training_iteration"]) == [1, 2, 3]
    assert {"loss", "eval_loss"} <= set(result.metrics)
    folder = os.path.join(result.checkpoint.path, RayTrainReportCallback.CHECKPOINT_NAME)
    assert {"rng_state_0.pth", "rng_state_1.pth", "trainer_state.json"} <= set(os.listdir(folder))
    saved = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert torch.equal(saved.lm_head.weight, weights)


def test_batches_of_shards(run_config, tmp_path):
    def loop():
        batches = [
            train.get_dataset_shard(name).iter_torch_batches(batch_size=4)
            for name in ("train", "evaluation")
        ]
        by_steps = {
            "max_steps": 4, "eval_strategy": "steps", "save_strategy": "steps",
            "logging_strategy": "steps", "eval_steps": 2, "save_steps": 2, "logging_steps": 1,
        }  # fmt: skip
        trainer = transformers.Trainer(
            tiny_model(), arguments(tmp_path / "out", **by_steps),
            train_dataset=batches[0], eval_dataset=batches[1],
            callbacks=[RayTrainReportCallback()],
        )  # fmt: skip
        prepare_trainer(trainer).train()

    datasets = {
        "train": skate.data.from_items(texts(16)),
        "evaluation": skate.data.from_items(texts(8)),
    }
    result = fit(loop, run_config(), datasets=datasets)
    assert list(result.metrics_dataframe["step"]) == [2, 4]
    assert len(result.best_checkpoints) == 2
    assert "eval_loss" in result.metrics


def make_trainer(train_dataset: Any, eval_dataset: Any = None, **config: Any) -> Any:
    assert len(train_dataset) == 16
    return transformers.Trainer(
        tiny_model(), arguments(**config), train_dataset=train_dataset, eval_dataset=eval_dataset
    )


@pytest.mark.parametrize("save_strategy", ["no", "epoch"])
def test_without_a_loop(run_config, tmp_path, save_strategy):
    datasets = {
        "train": skate.data.from_items(texts(16)),
        "evaluation": skate.data.from_items(texts(8)),
    }
    config = {"folder": tmp_path / "out", "num_train_epochs": 2, "save_strategy": save_strategy}
    settings = {"datasets": datasets, "scaling_config": ScalingConfig(num_workers=2)}
    result = HuggingFaceTrainer(
        make_trainer, trainer_init_config=config, run_config=run_config(), **settings
    ).fit()
    assert result.metrics["epoch"] == 2
    assert result.metrics["training_iteration"] == 2
    assert "eval_loss" in result.metrics
    more = TransformersTrainer(
        make_trainer, trainer_init_config={**config, "num_train_epochs": 3},
        resume_from_checkpoint=result.checkpoint, run_config=run_config(name="more"), **settings,
    ).fit()  # fmt: skip
    assert more.metrics["epoch"] == 3
    assert more.metrics["training_iteration"] == 1


def test_what_a_trainer_without_a_loop_needs():
    with pytest.raises(ValueError, match="train_dataset, eval_dataset"):
        TransformersTrainer(lambda train_dataset: None)
    with pytest.raises(KeyError, match="valid"):
        TransformersTrainer(make_trainer, datasets={"valid": None})
