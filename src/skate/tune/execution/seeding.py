"""Draws that come again: what a search draws is the same under the same seed."""

from __future__ import annotations

import random
from types import TracebackType
from typing import Any

import numpy as np


class SeededDraws:
    """The global generators of `random` and NumPy are those of a search inside of `with`, and
    outside what they were: searchers, schedulers and functions of a space that draw from them
    draw the same in each search with this seed, and change nothing for anybody else.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int) -> None:
        self._own: tuple[Any, Any] = (
            random.Random(seed).getstate(),
            np.random.RandomState(seed % 2**32).get_state(),
        )
        self._outside: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        self._outside.append((random.getstate(), np.random.get_state()))
        if len(self._outside) == 1:
            _set(self._own)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outside = self._outside.pop()
        if not self._outside:
            self._own = random.getstate(), np.random.get_state()
            _set(outside)


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
