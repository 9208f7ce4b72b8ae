"""A Datasource of the user's as a source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from skate.data._arrow.blocks import Block, block_of_batch
from skate.data._execution.transforms import SourceTask
from skate.data._settings.context import driver_threads
from skate.data.sources.base import Source

if TYPE_CHECKING:
    from skate.data._expressions.expression import Expr


class CustomSource(Source):
    """`arguments` are for the readers of older versions of Ray."""

    def __init__(self, datasource: Any, arguments: dict[str, Any] | None = None) -> None:
        self.datasource = datasource
        self.arguments: dict[str, Any] = arguments or {}
        self.name: str = datasource.get_name()
        self.runs_python: bool = getattr(datasource, "supports_distributed_reads", True)

    def _reader(self) -> Any:
        if getattr(self.datasource, "should_create_reader", False):
            return self.datasource.create_reader(**self.arguments)
        return self.datasource

    def size_bytes(self) -> int | None:
        size: int | None = self._reader().estimate_inmemory_data_size()
        return size

    def files(self) -> list[str]:
        return list(getattr(self.datasource, "_paths", list)())

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        tasks = self._reader().get_read_tasks(parallelism or 4 * driver_threads())
        size = (self.size_bytes() or 0) // max(1, len(tasks))
        return [SourceTask(partial(_run, task), self.name, size) for task in tasks]

    def only_columns(self, columns: tuple[str, ...]) -> Source | None:
        if not _says(self.datasource, "supports_projection_pushdown"):
            return None
        wanted = {name: name for name in columns}
        return CustomSource(self.datasource.apply_projection(wanted), self.arguments)

    def with_filter(self, expression: Expr) -> Source | None:
        if not _says(self.datasource, "supports_predicate_pushdown"):
            return None
        return CustomSource(self.datasource.apply_predicate(expression), self.arguments)


def _says(datasource: object, method: str) -> bool:
    return bool(getattr(datasource, method, lambda: False)())


def _run(task: Any) -> Iterator[Block]:
    return map(block_of_batch, task())
