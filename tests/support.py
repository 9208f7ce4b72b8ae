"""What the tests share: markers for engines, and events and counters that cross processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

#: The test needs work that goes on while the driver does something else, or in another process.
parallel = pytest.mark.engines("local", "ray")

#: The test is about a promise of the local engine alone.
local_only = pytest.mark.engines("local")

#: How long anything in a test may take before it counts as a hang.
PATIENCE = float(os.environ.get("SKATE_TEST_PATIENCE", "60"))


def eventually(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Return as soon as `condition` holds; fail when it does not within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {patience} s: {condition}")
        time.sleep(0.002)


def offline_trackers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For a fixture: MLflow and Weights & Biases as they are, without a network."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    yield
    wandb.teardown()


class Flag:
    """An event that processes share: a file that exists once it is set."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def set(self) -> None:
        open(self.path, "w").close()

    def is_set(self) -> bool:
        return os.path.exists(self.path)

    def wait(self) -> None:
        eventually(self.is_set)


class Tally:
    """A list of words that processes share: each `add` is one atomic append to a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def add(self, word: object = "x") -> int:
        """Append a word; returns how many there are now."""
        with open(self.path, "a") as file:
            file.write(f"{word}\n")
        return len(self.words())

    def words(self) -> list[str]:
        return Path(self.path).read_text().split() if os.path.exists(self.path) else []

    def __len__(self) -> int:
        return len(self.words())
