"""A Datasource of the user's as a source."""

from __future__ import annotations

from functools import partial
from typing import Any

from skate.data._context import driver_threads
from skate.data._transforms import ReadTask
from skate.data.sources.base import Source


class CustomSource(Source):
    runs_python = True

    def __init__(self, datasource: Any) -> None:
        self.datasource = datasource
        self.name = datasource.get_name()

    def size_bytes(self) -> int | None:
        return self.datasource.estimate_inmemory_data_size()  # type: ignore[no-any-return]

    def read_tasks(self, parallelism: int | None) -> list[ReadTask]:
        tasks = self.datasource.get_read_tasks(parallelism or 4 * driver_threads())
        size = (self.size_bytes() or 0) // max(1, len(tasks))
        return [ReadTask(partial(_run, task), self.name, size) for task in tasks]


def _run(task: Any) -> Any:
    return task()
