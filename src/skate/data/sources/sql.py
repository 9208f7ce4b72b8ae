"""The rows of a query, through any DB-API connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from skate.data._arrow.blocks import Block
from skate.data._arrow.tensors import column_of_values
from skate.data._execution.transforms import SourceTask
from skate.data.sources.base import Source

ROWS_PER_BLOCK = 65_536


class SQLSource(Source):
    """One query, or one per shard: the rows whose hashed keys fall into it."""

    name = "SQL"

    def __init__(
        self,
        sql: str,
        connect: Callable[[], Any],
        parameters: Any,
        shard_keys: Sequence[str] | None,
        shard_hash_fn: str,
    ) -> None:
        self.sql = sql
        self.connect = connect
        self.parameters = parameters
        self.shard_keys = shard_keys
        self.hash = shard_hash_fn

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        if not self.shard_keys or not parallelism or parallelism < 2:
            return [SourceTask(lambda: self._rows(self.sql), "query", streams=True)]
        keys = ", ".join(self.shard_keys)
        joined = keys if len(self.shard_keys) == 1 else f"CONCAT({keys})"
        return [self._shard(joined, number, parallelism) for number in range(parallelism)]

    def _shard(self, keys: str, number: int, count: int) -> SourceTask:
        shard = f"MOD(ABS({self.hash}({keys})), {count}) = {number}"
        query = f"SELECT * FROM ({self.sql}) AS t WHERE {shard}"
        return SourceTask(lambda: self._rows(query), f"shard {number}")

    def _rows(self, query: str) -> Iterator[Block]:
        import pyarrow as pa

        connection = self.connect()
        try:
            cursor = connection.cursor()
            arguments = () if self.parameters is None else (self.parameters,)
            cursor.execute(query, *arguments)
            names = [entry[0] for entry in cursor.description]
            found = False
            while rows := cursor.fetchmany(ROWS_PER_BLOCK):
                found = True
                columns = zip(*rows, strict=True)
                yield pa.table([column_of_values(list(c)) for c in columns], names=names)
            if not found:
                yield pa.table([pa.nulls(0) for _ in names], names=names)
        finally:
            connection.close()
