"""Lightning reports to the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.folders import scratch_dir
from skate._run.reporting import CheckpointUploadMode
from skate._run.session import local_rank, report, world_rank
from skate._run.types import ResultRow
from skate._run.values import plain
from skate.train.lightning._package import lightning_module

_Callback: Any = lightning_module().Callback


class TrainReportCallback(_Callback):  # type: ignore[misc]
    """For `Trainer(callbacks=[…])`: after each epoch, reports what was logged, with `epoch` and
    `step`, and Lightning's checkpoint as the file `checkpoint.ckpt`."""

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(
        self,
        checkpoint_upload_mode: CheckpointUploadMode | None = None,
        validation: Any = False,
    ) -> None:
        super().__init__()
        if checkpoint_upload_mode is CheckpointUploadMode.NO_UPLOAD:
            raise ValueError(
                "checkpoint_upload_mode is SYNC or ASYNC; got NO_UPLOAD, which would leave "
                "nothing: Lightning writes to a temporary folder"
            )
        self.checkpoint_upload_mode = checkpoint_upload_mode or CheckpointUploadMode.SYNC
        self.validation = validation

    def on_train_epoch_end(self, trainer: Any, pl_module: object) -> None:
        metrics = {name: plain(value) for name, value in trainer.callback_metrics.items()}
        metrics.update(epoch=trainer.current_epoch, step=trainer.global_step)
        # Strategies that spread a model over the workers have all of them write to one place.
        own = None if world_rank() else tempfile.mkdtemp(prefix="checkpoint_", dir=scratch_dir())
        folder: str = trainer.strategy.broadcast(own)
        os.makedirs(folder, exist_ok=True)  # on the other machines
        try:
            place = os.path.join(folder, self.CHECKPOINT_NAME)
            trainer.save_checkpoint(place, weights_only=False)
            self._report(metrics, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _report(self, metrics: ResultRow, folder: str) -> None:
        checkpoint = None if local_rank() else Checkpoint.from_directory(folder)
        report(
            metrics,
            checkpoint=checkpoint,
            checkpoint_upload_mode=self.checkpoint_upload_mode,
            validation=self.validation,
        )
