"""Hugging Face: `Trainer.hyperparameter_search(backend="ray")`, with a tiny model of its own."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    """Sixteen texts of eight words; the label is the first word's."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict:
        words = torch.full((8,), 1 + index % 2)
        return {"input_ids": words, "attention_mask": torch.ones(8), "labels": index % 2}


def small_model() -> BertForSequenceClassification:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return BertForSequenceClassification(
        BertConfig(vocab_size=8, intermediate_size=16, max_position_embeddings=8, **sizes)
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            eval_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model_init=small_model,
            args=arguments,
            train_dataset=Texts(),
            eval_dataset=Texts(),
        )
        from ray import tune

        best = trainer.hyperparameter_search(
            backend="ray",
            direction="minimize",
            n_trials=2,
            hp_space=lambda _: {"learning_rate": tune.grid_search([1e-4, 1e-2])},
            resources_per_trial={"cpu": 1},
            storage_path=folder,
        )
    assert best.hyperparameters["learning_rate"] in (1e-4, 1e-2)
    print("best", best.hyperparameters, round(best.objective, 2))
