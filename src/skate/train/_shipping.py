"""The user's loop on its way to the workers."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from skate._core.serialization import dumps
from skate._run.types import Config

LARGE_BYTES = 10 << 20  # a loop that carries more is worth a warning


def pickled_loop(loop: Callable[..., object], config: Config) -> bytes:
    """Pickle once for all workers, whichever way the group is started."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps((loop, config))
    except Exception:
        dumps(loop, "train_loop_per_worker")  # the same again, to name what cannot be pickled
        dumps(config, "train_loop_config")
        raise
    if len(data) > LARGE_BYTES:
        name = getattr(loop, "__qualname__", repr(loop))
        warnings.warn(
            f"{name} and its configuration are large ({len(data) / 1e6:,.0f} MB), because they "
            "use large objects from outside; they are copied to each worker. Load such data "
            "inside the function, or give it to the trainer with datasets={…}",
            stacklevel=4,
        )
    return data
