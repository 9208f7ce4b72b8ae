"""`ray.dag.tests.experimental.actor_defs`: actors that tests of compiled graphs call."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import skate


@skate.remote
class Actor:
    """A number, and methods of all shapes. After `fail_after` calls, about every second fails."""

    def __init__(
        self, init_value: Any, fail_after: int | None = None, sys_exit: bool = False
    ) -> None:
        self.i = init_value
        self.count = 0
        self._fail_after, self._sys_exit = fail_after, sys_exit

    def _counted(self, value: Any) -> Any:
        self.count += 1
        if self._fail_after and self.count > self._fail_after and random.random() > 0.5:
            if self._sys_exit:
                os._exit(1)
            raise RuntimeError("injected fault")
        return value

    def _add(self, *summands: Any) -> Any:
        for summand in summands:
            self.i += summand
        return self.i

    def inc(self, x: Any) -> Any:
        return self._counted(self._add(x))

    def inc_two(self, x: Any, y: Any) -> Any:
        return self._add(x, y)

    def double_and_inc(self, x: Any) -> Any:
        return self._add(self.i, x)

    def echo(self, x: Any) -> Any:
        return self._counted(x)

    def read_input(self, x: Any) -> Any:
        return x

    def append_to(self, lst: list[Any]) -> list[Any]:
        lst.append(self.i)
        return lst

    def sleep(self, x: float) -> float:
        time.sleep(x)
        return x

    @skate.method(num_returns=2)
    def return_two(self, x: Any) -> tuple[Any, Any]:
        return x, x + 1

    @skate.method(num_returns=2)
    def inc_and_return_two(self, x: Any) -> tuple[Any, Any]:
        total = self._add(x)
        return total, total + 1

    @skate.method(num_returns=1)
    def return_two_as_one(self, x: Any) -> tuple[Any, Any]:
        return x, x + 1

    @skate.method(num_returns=2)
    def return_two_from_three(self, x: Any) -> tuple[Any, Any, Any]:
        return x, x + 1, x + 2

    @skate.method(num_returns=2)
    def return_two_but_raise_exception(self, x: Any) -> None:
        raise RuntimeError


@skate.remote
class Collector:
    """A list of what it was given."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    def _collected(self, *values: Any) -> list[Any]:
        self.results.extend(values)
        return self.results

    def collect(self, x: Any) -> list[Any]:
        return self._collected(x)

    def collect_two(self, x: Any, y: Any) -> list[Any]:
        return self._collected(x, y)

    def collect_three(self, x: Any, y: Any, z: Any) -> list[Any]:
        return self._collected(x, y, z)
