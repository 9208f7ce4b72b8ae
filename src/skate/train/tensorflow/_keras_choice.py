"""Which Keras `tf.keras` is in a worker.

Keras 3 cannot `fit` under a MultiWorkerMirroredStrategy, Keras 2 can: so workers prefer Keras 2.
But a loop that refers to what the program has imported (`from tensorflow import keras`) brings
Keras 3 along, and nobody can use both at once.
"""

from __future__ import annotations

import os
import pickletools
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

from skate._core.tensorflow_processes import LEGACY_KERAS, prefer_keras_2
from skate.train._workers.worker import TrainWorker, WorkerJob

_IMPORT = ("cloudpickle.cloudpickle", "subimport")


class TensorflowWorker(TrainWorker):
    """A worker that has chosen its Keras when the loop begins."""

    def prepare(self, job: WorkerJob, datasets: dict[str, object]) -> None:
        super().prepare(job, datasets)
        if not any(name.partition(".")[0] == "keras" for name in modules_of(job.loop)):
            prefer_keras_2()


def modules_of(pickled: bytes) -> set[str]:
    """Find the modules that are imported when a function is unpickled."""
    found: set[str] = set()
    memo: list[Any] = []
    before: Any = None
    last: Any = None  # the last things that were put on the stack, where they are names
    for operation, argument, _ in pickletools.genops(pickled):
        kind = operation.name
        if kind == "MEMOIZE":
            memo.append(last)
            continue
        if kind == "STACK_GLOBAL":
            found.add(before)
            new: Any = (before, last)
        elif kind in ("BINGET", "LONG_BINGET"):
            new = memo[int(argument or 0)]
        elif isinstance(argument, str):
            new = argument
        else:
            new = None
        if last == _IMPORT and isinstance(new, str):
            found.add(new)
        before, last = last, new
    return found


@contextmanager
def explained() -> Iterator[None]:
    """Add to errors of the loop that are about Keras where the choice of it is made."""
    try:
        yield
    except Exception as error:
        if _comes_from_keras(error) and hasattr(error, "add_note"):
            error.add_note(
                f"In this worker {LEGACY_KERAS} is {os.environ.get(LEGACY_KERAS)!r}. With '1', "
                "tf.keras is Keras 2 (pip install tf_keras), which MultiWorkerMirroredStrategy "
                "needs; with '0' or None it is Keras 3. Set it in the environment of your "
                "program, so that it holds everywhere."
            )
        raise


def _comes_from_keras(error: BaseException) -> bool:
    """Return whether it was raised in Keras, or is about it, as when it has no such attribute."""
    places = [frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)]
    roots = {str(name).partition(".")[0] for name in places}
    return "keras" in str(error) or not roots.isdisjoint({"keras", "tf_keras"})
