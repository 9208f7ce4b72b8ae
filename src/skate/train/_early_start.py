"""Workers that a trainer is going to start, announced as early as that is known."""

from __future__ import annotations

import os
from collections.abc import Sequence

from skate._facade.early_start import expect_work

# What says that a process was launched to train: by torchrun, and what is built on it; by
# Lightning; by Accelerate, which starts a single process without the former; by `skate run`.
LAUNCHED_VARIABLES = (
    "TORCHELASTIC_RUN_ID",
    "LT_CLI_USED",
    "ACCELERATE_MIXED_PRECISION",
    "SKATE_RUN",
)


def was_launched() -> bool:
    """Return whether another program has started this process to train in it."""
    return any(os.environ.get(name) for name in LAUNCHED_VARIABLES)


def expect_workers(modules: Sequence[str] | None = None) -> None:
    """Have workers begin with these modules, or with what this process uses by now."""
    if not was_launched():
        expect_work(modules)
