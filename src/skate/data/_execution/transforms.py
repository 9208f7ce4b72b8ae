"""What happens to blocks inside one task: steps that turn a stream of blocks into another.

Steps are small picklable objects. A fused stage runs `TransformChain(steps)` on what it was
given: read tasks, or blocks of the stage before.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skate._core.errors import add_note
from skate._core.modules_mentioned import modules_mentioned
from skate.data._arrow.blocks import (
    Batch,
    Block,
    batch_of,
    block_of_batch,
    block_of_rows,
    check_columns,
    compact,
    concat,
    numpy_of,
    rows_of,
)
from skate.data._arrow.tensors import column_of_array
from skate.data._execution.udf import FunctionError, FunctionTypeError, UserFunction, iterated
from skate.data._settings.context import DataContext

Step = Callable[[Iterator[Block]], Iterator[Block]]
Meta = tuple[int, int, float]  # rows, bytes, seconds
_ASKED_OF_VALUES = ("pandas",)  # by Arrow, which is given values of Python


class SourceTask:
    """A piece of a source: `read()` gives its blocks; `name` says where they come from."""

    def __init__(
        self,
        read: Callable[[], Iterable[Block]],
        name: str = "",
        size_bytes: int | None = None,
        rows: int | None = None,
        streams: bool = False,
    ) -> None:
        self.read = read
        self.name = name
        self.size_bytes = size_bytes
        self.rows = rows
        self.streams = streams  # more than one block's worth: send blocks as they come
        self.number: int | None = None  # among the tasks of its source, where positions count

    @property
    def start(self) -> int | None:
        """See `Bundle.start`."""
        return self.number

    def payloads(self) -> list[object]:
        """Return the arguments of a task that reads this piece of the source."""
        return [self]


class TransformChain:
    """The steps of a fused stage, one after the other. What leaves it is cut into blocks of at
    most about `max_bytes`."""

    def __init__(self, steps: Sequence[Step], name: str) -> None:
        # The engine looks for names of modules at the beginning of what it sends, and starts
        # workers where these are imported.
        functions = [each.udf.fn for each in steps if hasattr(each, "udf")]
        self.modules = sorted({name for each in functions for name in modules_mentioned(each)})
        self.steps = tuple(steps)
        self.name = name
        self.settings = DataContext.get_current()
        self.max_bytes: float = self.settings.target_max_block_size
        # The last step may know where blocks end, and whether those without rows matter.
        self.keeps_empty_blocks: bool | None = (
            getattr(steps[-1], "keeps_empty_blocks", None) if steps else None
        )

    def __call__(self, payloads: Sequence[object]) -> Iterator[Block]:
        names = ", ".join(p.name for p in payloads if isinstance(p, SourceTask) and p.name)
        try:
            blocks = _opened(payloads)
            for step in self.steps:
                blocks = step(blocks)
            yield from blocks
        except Exception as error:
            if names:
                add_note(error, f"while processing {names}")
            raise

    def stream(self, payloads: Sequence[object]) -> Iterator[object]:
        """Yield block, meta, block, meta …: what a job gives."""
        start = time.perf_counter()
        for block in self.blocks(payloads):
            yield block
            yield (block.num_rows, block.nbytes, time.perf_counter() - start)
            start = time.perf_counter()

    def blocks(self, payloads: Sequence[object]) -> Iterator[Block]:
        """Yield the blocks that leave, neither too large nor with more memory than their rows
        need."""
        if self.keeps_empty_blocks is not None:
            yield from map(compact, self(payloads))
            return
        for found in portions(self(payloads), self.max_bytes, every=1):
            yield from map(compact, self.pieces(concat(found)))

    def pieces(self, block: Block) -> Iterator[Block]:
        """Cut the block into pieces that are not too large, unless the last step says where they
        end."""
        if self.keeps_empty_blocks is not None:
            return iter([block])
        rows = block.num_rows
        count = min(rows, round(block.nbytes / self.max_bytes))
        if count <= 1:  # a slice of a table without columns has as many rows as are asked for
            return iter([block])
        step = -(-rows // count)
        return (block.slice(start, step) for start in range(0, rows, step))


def _opened(payloads: Sequence[object]) -> Iterator[Block]:
    for payload in payloads:
        if isinstance(payload, SourceTask):
            yield from payload.read()
        else:
            yield payload


_OF_BATCHES = "batches are views on shared memory; zero_copy_batch=False gives copies"
_OF_ROWS = "arrays in rows are views on shared memory; change a copy, as np.array(row['x'])"


def blame(failure: FunctionError, operator: str, is_batch: bool = False) -> BaseException:
    """Return the user's own exception, with a note of the operator and the input that it failed
    on."""
    cause = failure.__cause__
    if cause is None:
        return failure
    add_note(cause, f"in {operator}, on {_describe(failure.value, is_batch)}")
    if isinstance(cause, ValueError) and "read-only" in str(cause):
        add_note(cause, _OF_BATCHES if is_batch else _OF_ROWS)
    return cause


def _describe(value: Any, is_batch: bool = False) -> str:
    if not is_batch:
        return f"the row {_shortened(value)}"
    names = getattr(value, "column_names", None) or list(getattr(value, "columns", value))
    rows = len(next(iter(value.values()), ())) if isinstance(value, Mapping) else len(value)
    first = next(rows_of(block_of_batch(value).slice(0, 1)), None)
    return f"a batch of {rows} rows with the columns {list(names)}, the first {_shortened(first)}"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


# -- functions of rows --------------------------------------------------------------------------


def block_limit() -> int:
    """Return how many bytes a block may have, by the settings of the execution that this is a part
    of."""
    return DataContext.get_current().target_max_block_size


@dataclass(frozen=True)
class _RowStep(ABC):
    """A function of rows that makes new ones."""

    udf: UserFunction
    name: str
    plain_rows: bool = True
    imports: ClassVar = _ASKED_OF_VALUES

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            for rows in portions(self._blamed(rows_of(block, plain=False)), block_limit()):
                if not self.plain_rows and not isinstance(rows[0], Mapping):
                    raise _plain_values_error(rows[0], self.name)
                yield block_of_rows(rows)

    def _blamed(self, rows: Iterator[object]) -> Iterator[Any]:
        try:
            yield from self._outputs(rows)
        except FunctionError as failure:
            raise blame(failure, self.name) from None

    @abstractmethod
    def _outputs(self, rows: Iterator[object]) -> Iterator[Any]:
        """Yield the new rows."""


@dataclass(frozen=True)
class MapRows(_RowStep):
    def _outputs(self, rows: Iterator[object]) -> Iterator[Any]:
        for row, result in self.udf.results(rows):
            if result is None:
                raise ValueError(
                    f"{self.name} returned None for {_describe(row)}; it must return a row "
                    "(did you forget `return`?)"
                )
            if isinstance(result, Generator):
                raise FunctionTypeError(
                    f"{self.name} yields rows, for {_describe(row)}; it must return one row, and "
                    "flat_map takes functions that yield several"
                )
            yield result


@dataclass(frozen=True)
class FlatMapRows(_RowStep):
    def _outputs(self, rows: Iterator[object]) -> Iterator[Any]:
        for row, result in self.udf.results(rows):
            if not isinstance(result, Iterable) or isinstance(result, Mapping):
                raise FunctionTypeError(
                    f"{self.name} returned {_shortened(result)} for {_describe(row)}; it must "
                    "return a list of rows, or yield them"
                )
            yield from iterated(row, result)


@dataclass(frozen=True)
class FilterRows:
    udf: UserFunction
    name: str
    imports: ClassVar = _ASKED_OF_VALUES

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            try:
                results = self.udf.results(rows_of(block, plain=False))
                keep = [bool(result) for _, result in results]
            except FunctionError as failure:
                raise blame(failure, self.name) from None
            yield block.filter(pa.array(keep, pa.bool_()))


def check_named(output: Batch, operator: str) -> None:
    """Raise if a function gave a batch of plain values, where rows have to be dictionaries."""
    if isinstance(output, (list, np.ndarray)):
        raise _plain_values_error(output, operator)


def _plain_values_error(value: object, operator: str) -> ValueError:
    return ValueError(
        f"Error validating {_shortened(value)}: {operator} returned a {type(value).__name__}, and "
        "Standalone Python objects are not allowed by Ray: give them a name, as "
        "{'item': value} for a row and {'item': values} for a batch"
    )


def portions(results: Iterator[object], max_bytes: float, every: int = 16) -> Iterator[list[Any]]:
    """Collect the results into lists of at most about `max_bytes`: a function may make much of
    little. To be quick, only one of `every` is measured, unless they are large."""
    portion: list[Any] = []
    size, step = 0, every
    for result in results:
        if len(portion) % step == 0:
            weight = bytes_of(result)
            step = every if weight * every * 4 < max_bytes else 1
            size += weight * step
        portion.append(result)
        if size >= max_bytes:
            yield portion
            portion, size, step = [], 0, every
    if portion:
        yield portion


def bytes_of(value: object) -> int:
    """Estimate how much memory a row or a batch takes."""
    if isinstance(value, Mapping):
        return sum(map(bytes_of, value.values()))
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 8 + len(value) * bytes_of(value[0]) if value else 8
    if hasattr(value, "memory_usage"):  # pandas
        return int(np.sum(value.memory_usage()))
    if hasattr(value, "estimated_size"):  # polars
        return int(value.estimated_size())
    return int(getattr(value, "nbytes", 8))


# -- functions of batches -----------------------------------------------------------------------


@dataclass(frozen=True)
class MapBatches:
    udf: UserFunction
    name: str
    batch_size: int | None
    batch_format: str
    zero_copy: bool
    plain_rows: bool = True

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for pieces in rebatched(blocks, self.batch_size):
            yield from self._of_piece(pieces)

    def _of_piece(self, block: Block) -> Iterator[Block]:
        """Yield the outputs for one block, whose rows are several whole batches."""
        compacted = (self._compact(output, block) for output in self._results(block))
        for outputs in portions(compacted, block_limit(), every=1):
            with self._noting_returned():
                yield joined(outputs)

    def _compact(self, output: Batch, block: Block) -> Batch:
        """Keep arrays, which are joined later, and make a block of any other output: lists of
        Python's numbers are five times as large, and new memory for each."""
        if _has_arrays(output):
            return output
        with self._noting_returned():
            if not self.plain_rows:
                check_named(output, self.name)
            return block_of_batch(output, block)

    @contextmanager
    def _noting_returned(self) -> Iterator[None]:
        try:
            yield
        except (TypeError, ValueError) as error:
            add_note(error, f"in what {self.name} returned")
            raise

    def _results(self, block: Block) -> Iterator[Batch]:
        batches = slices(block, self.batch_size, self.batch_format)
        if not self.zero_copy:
            batches = map(copied, batches)
        try:
            for batch, result in self.udf.results(batches):
                if hasattr(result, "__next__"):
                    yield from iterated(batch, result)
                else:
                    yield result
        except FunctionError as failure:
            raise blame(failure, self.name, is_batch=True) from None


def slices(block: Block, batch_size: int | None, batch_format: str) -> Iterator[Batch]:
    """Cut a block into batches. Its columns are converted once and then cut."""
    total = block.num_rows
    if batch_size is None or batch_size >= total:
        return iter([batch_of(block, batch_format)])
    starts = range(0, total, batch_size)
    if batch_format == "numpy":
        columns = list(numpy_of(block).items())
        return (
            {name: column[start : start + batch_size] for name, column in columns}
            for start in starts
        )
    return (batch_of(block.slice(start, batch_size), batch_format) for start in starts)


def rebatched(blocks: Iterator[Block], batch_size: int | None) -> Iterator[Block]:
    """Yield blocks whose rows are a multiple of the batch size, all but the last. Only the batches
    that cross a border of blocks are put together anew."""
    rest: list[Block] = []
    missing = 0
    for block in blocks:
        if batch_size is None:
            if block.num_rows:
                yield block
            continue
        start = min(missing, block.num_rows)
        if start:
            rest.append(block.slice(0, start))
            missing -= start
            if not missing:
                yield concat(rest)
                rest = []
        whole = (block.num_rows - start) // batch_size * batch_size
        if whole:
            yield block.slice(start, whole)
        if start + whole < block.num_rows:
            rest = [block.slice(start + whole)]
            missing = batch_size - rest[0].num_rows
    if rest:
        yield concat(rest)


def joined(outputs: Sequence[Batch], before: Block | None = None) -> Block:
    """Make one block of many output batches; arrays are joined before they become columns."""
    if len(outputs) > 1 and (columns := _same_arrays(outputs)) is not None:
        return pa.Table.from_arrays(
            [column_of_array(np.concatenate(parts)) for parts in columns.values()],
            names=list(columns),
        )
    return concat([block_of_batch(output, before) for output in outputs])


def _has_arrays(output: Batch) -> bool:
    """Return whether it is a dictionary of arrays of numbers and the like, and of nothing else."""
    return (
        type(output) is dict
        and bool(output)
        and all(
            type(value) is np.ndarray and value.ndim and value.dtype.kind != "O"
            for value in output.values()
        )
    )


def _same_arrays(outputs: Sequence[Batch]) -> dict[str, list[Any]] | None:
    """Collect the parts of each column, if all outputs are dictionaries of arrays of the same
    types and shapes."""
    first = outputs[0]
    if not all(map(_has_arrays, outputs)):
        return None
    columns: dict[str, list[Any]] = {name: [] for name in first}
    for output in outputs:
        if output.keys() != first.keys():
            return None
        sizes = set()
        for name, value in output.items():
            like = first[name]
            if value.dtype != like.dtype or value.shape[1:] != like.shape[1:]:
                return None
            sizes.add(len(value))
            columns[name].append(value)
        if len(sizes) > 1:
            return None
    return columns


def copied(batch: Batch) -> Batch:
    if isinstance(batch, dict):
        return {name: np.array(value) for name, value in batch.items()}
    return batch.copy() if hasattr(batch, "copy") else batch


# -- columns ------------------------------------------------------------------------------------


def _is_nothing(block: Block) -> bool:
    """Return whether a block stands for no items at all, of which nobody knows the columns."""
    return not block.num_rows and not block.num_columns


@dataclass(frozen=True)
class SelectColumns:
    columns: tuple[str, ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if not block.num_rows and not set(self.columns) <= set(block.column_names):
                yield block.select([])  # who has no rows misses no column of them
                continue
            check_columns(self.columns, block.column_names)
            yield block.select(list(self.columns))


@dataclass(frozen=True)
class DropColumns:
    columns: tuple[str, ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if _is_nothing(block):
                yield block
                continue
            check_columns(self.columns, block.column_names)
            yield block.drop_columns(list(self.columns))


@dataclass(frozen=True)
class RenameColumns:
    names: tuple[tuple[str, str], ...] | tuple[str, ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            yield block.rename_columns(self._new_names(block.column_names))

    def _new_names(self, old: list[str]) -> list[str]:
        if self.names and isinstance(self.names[0], str):
            if len(self.names) != len(old):
                raise ValueError(
                    f"rename_columns got {len(self.names)} names for the {len(old)} columns {old}"
                )
            return [str(name) for name in self.names]
        changes = dict(self.names)  # type: ignore[arg-type]
        check_columns(list(changes), old)
        return [changes.get(name, name) for name in old]


@dataclass(frozen=True)
class TensorsOfBytes:
    """Columns that hold the bytes of arrays of one type and shape become tensors."""

    columns: tuple[tuple[str, Any, tuple[int, ...]], ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            for name, dtype, shape in self.columns:
                check_columns([name], block.column_names)
                place = block.column_names.index(name)
                block = block.set_column(place, name, _tensors_of(block[name], dtype, shape))
            yield block


def _tensors_of(column: pa.ChunkedArray, dtype: Any, shape: tuple[int, ...]) -> pa.Array:
    kind = np.dtype(type(dtype) if isinstance(dtype, np.generic) else dtype)
    flat = np.frombuffer(b"".join(column.to_pylist()), kind)
    return column_of_array(flat.reshape(len(column), *shape))
