"""What a plan says about its rows without being run."""

from __future__ import annotations

import pyarrow as pa

from skate.data._execution.exchange import (
    RandomizeBlocks,
    Repartition,
    RowsPerBlock,
    Shuffle,
    Sort,
)
from skate.data._execution.transforms import (
    DropColumns,
    RenameColumns,
    SelectColumns,
    TensorsOfBytes,
)
from skate.data._expressions.steps import WithColumns
from skate.data._plan import nodes as plan

ROW_FOR_ROW = (SelectColumns, DropColumns, RenameColumns, WithColumns, TensorsOfBytes)
# In another order, or in other blocks.
SAME_ROWS = (RandomizeBlocks, Repartition, RowsPerBlock, Shuffle, Sort)


def static_schema(node: plan.Node) -> pa.Schema | None:
    """Return the schema, if it is known without running anything."""
    if isinstance(node, plan.Input):
        bundle = next((b for b in node.bundles if b.block is not None), None)
        return node.schema if bundle is None else bundle.get().schema
    if isinstance(node, plan.Read):
        return node.source.schema()
    if isinstance(node, plan.Limit):
        return static_schema(node.input)
    if isinstance(node, SAME_ROWS):
        return static_schema(node.children[0])
    if isinstance(node, plan.Map) and isinstance(node.step, ROW_FOR_ROW):
        below = static_schema(node.input)
        return None if below is None else next(node.step(iter([below.empty_table()]))).schema
    return None


def static_count(node: plan.Node) -> int | None:
    """Return the number of rows, if it is known without running anything."""
    if isinstance(node, plan.Input):
        return sum(bundle.rows for bundle in node.bundles)
    if isinstance(node, plan.Read):
        return node.source.known_count()
    if isinstance(node, plan.Limit):
        below = static_count(node.input)
        return None if below is None else min(below, node.limit)
    if isinstance(node, SAME_ROWS):
        return static_count(node.children[0])
    if isinstance(node, plan.Map) and isinstance(node.step, ROW_FOR_ROW):
        return static_count(node.input)
    return None
