"""`transformers.Trainer` reports to the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import torch.distributed as dist
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from skate._run.checkpoint import Checkpoint
from skate._run.session import local_rank, report


class TrainReportCallback(TrainerCallback):
    """For `trainer.add_callback(…)`: whenever the trainer saves, reports what was logged until
    then, and the saved files as the folder `checkpoint`. So evaluation, logging and saving should
    follow the same strategy."""

    CHECKPOINT_NAME = "checkpoint"

    def on_save(self, args: Any, state: Any, control: object, **kwargs: object) -> None:
        """Report the checkpoint that was saved, with all metrics that were logged until then.

        Args:
            args: The arguments of the training.
            state: Where it is.
            control: What it is to do next.
            kwargs: What else Transformers says.
        """
        metrics = {name: value for entry in state.log_history for name, value in entry.items()}
        if dist.is_initialized():
            dist.barrier()  # each rank has written its part of the folder
        saved = os.path.join(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")
        if local_rank() or not os.path.isdir(saved):
            report(metrics)
            return
        with tempfile.TemporaryDirectory(prefix=".report_", dir=args.output_dir) as folder:
            place = os.path.join(folder, self.CHECKPOINT_NAME)
            shutil.copytree(saved, place, copy_function=_linked)
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


def _linked(source: str, target: str) -> None:
    """Give a file another name, without a copy if possible: the report copies it anyway."""
    try:
        os.link(source, target)
    except OSError:  # not on this file system
        shutil.copy2(source, target)
