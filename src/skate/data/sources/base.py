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
    imports: tuple[str, ...] = ()  # what is slow to import and tasks import that read it, or turn
    # its rows into values of Python: Arrow asks pandas about text and lists

    @abstractmethod
    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        """Divide the source into pieces, in the order of the rows; about `parallelism` of them if
        it is given."""

    def schema(self) -> pa.Schema | None:
        """Return the names and types of the columns, if they are known without reading rows."""
        return None

    def count(self) -> int | None:
        """Count the rows, if that needs no reading of them."""
        return None

    def known_count(self) -> int | None:
        """Return the number of rows, if it is known without opening anything."""
        return self.count()

    def files(self) -> list[str]:
        return []

    def size_bytes(self) -> int | None:
        """Estimate the bytes of the rows in memory, without reading them."""
        return None

    def detail(self) -> str:
        """Describe what the source leaves out, as text."""
        return ""

    def aligned(self, batch_size: int) -> Source:
        """Return the same source whose pieces hold whole batches, if it can choose their size."""
        return self

    def only_columns(self, columns: tuple[str, ...]) -> Source | None:
        """Return the same source giving these columns only, if it can."""
        return None

    def with_filter(self, expression: Expr) -> Source | None:
        """Return the same source giving the rows for which the expression holds, if it can."""
        return None
