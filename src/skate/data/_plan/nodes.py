"""The logical plan: small frozen nodes, from the last operation to the sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data._execution.bundles import Bundle
from skate.data._execution.compute import Compute

if TYPE_CHECKING:
    from skate.data._api.exporting import RefBundle
    from skate.data._settings.context import DataContext
    from skate.data.sources.base import Source


@dataclass(frozen=True, eq=False)
class Node:
    """Something that gives bundles."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def detail(self) -> str:
        """What a printed plan adds to the name."""
        return ""

    def execute(self) -> RefBundle:
        """Run, and hold all blocks: how programs that look inside of Ray ask a plan."""
        from skate.data._api.exporting import RefBundle, ref_bundles
        from skate.data._execution.executor import execute
        from skate.data._settings.context import DataContext

        bundles = list(ref_bundles(execute(self, DataContext.get_current())))
        return RefBundle(tuple(block for bundle in bundles for block in bundle.blocks))

    def initial_num_blocks(self) -> int | None:
        """Estimate how many blocks there will be; None where only a run can tell."""
        return self.inputs[0].initial_num_blocks() if len(self.inputs) == 1 else None


@dataclass(frozen=True, eq=False)
class Input(Node):
    """Blocks that exist already."""

    bundles: tuple[Bundle, ...]
    schema: pa.Schema | None = None
    label: str = "Input"
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.label

    def initial_num_blocks(self) -> int:
        return len(self.bundles)


@dataclass(frozen=True, eq=False)
class Read(Node):
    """A source, read when the plan runs."""

    source: Source
    parallelism: int | None = None
    concurrency: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return f"Read{self.source.name}"

    @property
    def detail(self) -> str:
        return self.source.detail()

    def initial_num_blocks(self) -> int:
        rows = self.source.known_count()
        if rows == 0:
            return 0
        pieces, wanted = len(self.source.read_tasks(self.parallelism)), self.parallelism or 0
        return max(pieces, wanted if rows is None else min(wanted, rows))


@dataclass(frozen=True, eq=False)
class Map(Node):
    """A step on each block. `compute` is None for steps made of Arrow's kernels alone."""

    input: Node
    step: Any
    label: str
    compute: Compute | None = None
    options: tuple[tuple[str, Any], ...] = ()
    min_rows: int = 0
    keeps_rows: bool = False  # one row out per row in, in order

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def name(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class Limit(Node):
    input: Node
    limit: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def name(self) -> str:
        return f"limit={self.limit}"


@dataclass(frozen=True, eq=False)
class Exchange(Node, ABC):
    """An operation on the streams of its inputs as a whole."""

    children: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.children

    def schema_of(self, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
        """Return the schema of what comes out if all rows of each input have the same one; None
        if only a run can tell."""
        return None

    @abstractmethod
    def run(self, streams: list[Iterator[Bundle]], context: DataContext) -> Iterator[Bundle]:
        """Yield the bundles that come out."""


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all below it."""
    yield node
    for child in node.inputs:
        yield from walk(child)


def with_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the node with its inputs changed."""
    if isinstance(node, Exchange):
        return replace(node, children=tuple(map(change, node.children)))
    if isinstance(node, (Map, Limit)):
        return replace(node, input=change(node.input))
    return node


def shows_kept_blocks(node: Node) -> bool:
    """Return whether blocks that come out may be views on blocks that are kept: functions of users
    work on copies, Arrow's kernels need not."""
    if isinstance(node, Input):
        return True
    if isinstance(node, Map) and node.compute is not None:
        return False
    return any(map(shows_kept_blocks, node.inputs))


def repeatable(node: Node) -> bool:
    """Return whether another process that has this operation gets the same rows from it: neither
    files nor rows are shuffled without a seed, and blocks are not in the store of this process."""
    if isinstance(node, Input):
        return all(bundle.block is not None for bundle in node.bundles)
    return is_seeded(node)


def is_seeded(node: Node) -> bool:
    """Return whether another run of the program gets the same rows in the same order from it, if
    its seeds are used as often as in this one."""
    shuffle = _shuffle_of_files(node)
    unseeded = shuffle == "files" or (shuffle is not None and shuffle.seed is None)
    return not unseeded and getattr(node, "seed", 0) is not None


def keeps_order(node: Node) -> bool:
    """Return whether all executions of this operation give the same rows in the same order, as far
    as it depends on that: a seed may be another one in each."""
    shuffle = _shuffle_of_files(node)
    if shuffle == "files" or (
        shuffle is not None and (shuffle.seed is None or shuffle.reseed_after_execution)
    ):
        return False
    return isinstance(getattr(node, "seed", 0), int)


def _shuffle_of_files(node: Node) -> Any:
    files = getattr(node.source, "options", None) if isinstance(node, Read) else None
    return getattr(files, "shuffle", None)


def tree(node: Node, indent: str = "") -> str:
    """Write the plan as text, the last operation first."""
    lines = [f"{indent}{'+- ' if indent else ''}{node.name}{node.detail}"]
    deeper = indent + "   " if indent else " "
    lines.extend(tree(child, deeper) for child in node.inputs)
    return "\n".join(lines)
