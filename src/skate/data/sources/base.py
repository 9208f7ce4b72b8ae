"""What a source is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from skate.data._execution.transforms import SourceTask

if TYPE_CHECKING:
    from skate.data._expressions.expression import Expr


class Source(ABC):
    """Rows that can be read in pieces. What the optional methods do not know is None."""

    name: str
    runs_python: bool = False  # reading is Python code: worth a process of its own
    imports: tuple[str, ...] = ()  # what that code imports when it runs, and is slow to import

    @abstractmethod
    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        """The pieces, in the order of the rows; about `parallelism` of them if it is given."""

    def schema(self) -> pa.Schema | None:
        """Without reading rows."""
        return None

    def count(self) -> int | None:
        """Without reading rows."""
        return None

    def known_count(self) -> int | None:
        """Without opening anything."""
        return self.count()

    def files(self) -> list[str]:
        return []

    def size_bytes(self) -> int | None:
        """Of the rows in memory, estimated without reading them."""
        return None

    def detail(self) -> str:
        """What it leaves out, as text."""
        return ""

    def aligned(self, batch_size: int) -> Source:
        """The same source whose pieces hold whole batches, if it can choose their size."""
        return self

    def with_columns(self, columns: tuple[str, ...]) -> Source | None:
        """The same source giving these columns only, if it can."""
        return None

    def with_filter(self, expression: Expr) -> Source | None:
        """The same source giving the rows for which the expression holds, if it can."""
        return None
