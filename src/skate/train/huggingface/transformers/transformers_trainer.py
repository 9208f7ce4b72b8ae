"""Training what a function makes of datasets: the spelling without a loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from torch.utils.data import Dataset

from skate._run.checkpoint import Checkpoint
from skate._run.config import RunConfig
from skate._run.scaling_config import ScalingConfig
from skate._run.session import get_checkpoint, get_dataset_shard, report
from skate._run.types import Config
from skate.train._data import TRAIN_DATASET_KEY, DataConfig
from skate.train.huggingface.transformers._callback import TrainReportCallback
from skate.train.huggingface.transformers._data import prepare_trainer
from skate.train.torch import TorchConfig, TorchTrainer

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


EVALUATION_DATASET_KEY = "evaluation"


class TransformersTrainer(TorchTrainer):
    """Train a `transformers.Trainer` in each worker.

    It is what `trainer_init_per_worker(train_dataset, eval_dataset, **trainer_init_config)`
    returns there. `datasets` has "train" and perhaps "evaluation", which become torch datasets of
    rows; the trainer shares them out. What it logs is reported, what it saves are the checkpoints,
    and the last state is always saved.
    """

    def __init__(
        self,
        trainer_init_per_worker: Callable[..., object],
        *,
        datasets: Mapping[str, object] | None = None,
        trainer_init_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | Mapping[str, object] | None = None,
        dataset_config: DataConfig | Mapping[str, object] | None = None,
        run_config: RunConfig | Mapping[str, object] | None = None,
        preprocessor: Preprocessor | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        _check(trainer_init_per_worker, datasets or {})
        super().__init__(
            TransformersLoop(trainer_init_per_worker, list(datasets or {})),
            train_loop_config=trainer_init_config,
            torch_config=torch_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config or DataConfig([]),
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @property
    def trainer_init_config(self) -> dict[str, Any]:
        """What the function is given by name."""
        return self.train_loop_config or {}


def _check(init: Callable[..., object], datasets: Mapping[str, object]) -> None:
    if len(inspect.signature(init).parameters) < 3:
        raise ValueError(
            "trainer_init_per_worker takes train_dataset, eval_dataset and **config; "
            f"got {init!r} with {inspect.signature(init)}"
        )
    allowed = (TRAIN_DATASET_KEY, EVALUATION_DATASET_KEY)
    unknown = [name for name in datasets if name not in allowed]
    if unknown:
        raise KeyError(f"datasets are named {allowed}; got {unknown}")


class TransformersLoop:
    """The loop in each worker."""

    def __init__(self, init: Callable[..., Any], names: list[str]) -> None:
        self.init = init
        self.names = names

    def __call__(self, config: Config) -> None:
        trainer = self.init(
            self._rows(TRAIN_DATASET_KEY), self._rows(EVALUATION_DATASET_KEY), **config
        )
        trainer.add_callback(EachLog())
        checkpoint = get_checkpoint()
        with checkpoint.as_directory() if checkpoint is not None else nullcontext() as folder:
            saved = folder and os.path.join(folder, TrainReportCallback.CHECKPOINT_NAME)
            prepare_trainer(trainer).train(resume_from_checkpoint=saved)

    def _rows(self, name: str) -> Rows | None:
        return Rows(list(get_dataset_shard(name).iter_rows())) if name in self.names else None


class Rows(Dataset[Any]):
    """Rows by number."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Any:
        return self._rows[number]


class EachLog(TrainReportCallback):
    """Also reports what was logged while nothing is saved, and has the last state saved."""

    _logged = False

    def on_log(self, args: object, state: object, control: object, **kwargs: object) -> None:
        self._logged = True

    def on_step_begin(self, args: object, state: Any, control: object, **kwargs: object) -> None:
        """Report the log, as evaluation and saving, which may follow upon it, are over."""
        if self._logged:
            self._logged = False
            report({name: value for log in state.log_history for name, value in log.items()})

    def on_epoch_end(self, args: object, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= state.max_steps:
            control.should_save = True

    def on_save(self, args: object, state: object, control: object, **kwargs: object) -> None:
        self._logged = False
        super().on_save(args, state, control, **kwargs)
