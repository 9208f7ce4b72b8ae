"""Fine-tune a small transformer to tell praise from complaint, with two workers.

The sentences, the vocabulary and the network are made in place, so that it runs without a
download; with `AutoTokenizer.from_pretrained` and `AutoModelForSequenceClassification` it is the
usual program.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import skate
from skate.train import RunConfig, ScalingConfig
from skate.train.huggingface.transformers import TrainReportCallback, prepare_trainer
from skate.train.torch import TorchTrainer

THINGS = ("film", "meal", "hotel", "book", "trip", "concert")
GOOD, BAD = ("lovely", "great", "superb", "fine"), ("awful", "poor", "boring", "bad")
WORDS = ("[PAD]", "the", "was", "very", *THINGS, *GOOD, *BAD)


class Sentences(torch.utils.data.Dataset[dict[str, Any]]):
    """Praise and complaint: "the film was very lovely", 1."""

    def __init__(self) -> None:
        pairs = itertools.product(THINGS, GOOD + BAD)
        self.rows = [(("the", thing, "was", "very", word), word in GOOD) for thing, word in pairs]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        words, praise = self.rows[number]
        tokens = [WORDS.index(word) for word in words]
        return {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": int(praise)}


def accuracy(judged: transformers.EvalPrediction) -> dict[str, float]:
    return {"accuracy": float(np.mean(np.argmax(judged.predictions, 1) == judged.label_ids))}


def loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    shape = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=16, initializer_range=0.2,
    )  # fmt: skip
    arguments = transformers.TrainingArguments(
        output_dir="trainer",
        num_train_epochs=config["epochs"],
        learning_rate=config["lr"],
        lr_scheduler_type="constant",
        per_device_train_batch_size=8,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=transformers.BertForSequenceClassification(shape),
        args=arguments,
        train_dataset=Sentences(),
        eval_dataset=Sentences(),
        compute_metrics=accuracy,
        callbacks=[TrainReportCallback()],
    )
    prepare_trainer(trainer).train()


def main() -> None:
    skate.init(log_to_driver=False)  # Transformers' own bars and notes
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as place:
        result = TorchTrainer(
            loop,
            train_loop_config={"lr": 0.003, "epochs": 8},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=place, verbose=0),
        ).fit()
        assert result.checkpoint is not None
        with result.checkpoint.as_directory() as folder:
            saved = Path(folder, TrainReportCallback.CHECKPOINT_NAME)
            model = transformers.BertForSequenceClassification.from_pretrained(saved)
    tokens = torch.tensor([[WORDS.index(word) for word in "the trip was very superb".split()]])
    praise = int(model(tokens).logits.argmax())
    print("the trip was very superb:", ("complaint", "praise")[praise])
    print("right:", (result.metrics or {})["eval_accuracy"])


if __name__ == "__main__":
    main()
