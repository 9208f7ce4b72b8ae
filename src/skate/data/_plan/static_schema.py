"""What a plan says about its rows without being run."""

from __future__ import annotations

import pyarrow as pa

from skate.data._arrow.blocks import common_schema
from skate.data._execution.exchange import (
    RandomizeBlocks,
    Repartition,
    RowsPerBlock,
    Sample,
    Shuffle,
    Sort,
    Union,
)
from skate.data._execution.transforms import (
    DropColumns,
    FilterRows,
    RenameColumns,
    SelectColumns,
    TensorsOfBytes,
)
from skate.data._expressions.steps import FilterStep, WithColumns
from skate.data._plan import nodes as plan

ROW_FOR_ROW = (SelectColumns, DropColumns, RenameColumns, WithColumns, TensorsOfBytes)
# In another order, or in other blocks.
SAME_ROWS = (RandomizeBlocks, Repartition, RowsPerBlock, Shuffle, Sort)
FILTERS = (FilterRows, FilterStep)


def static_schema(node: plan.Node) -> pa.Schema | None:
    """Return the schema, if it is known without running anything."""
    if isinstance(node, plan.Input):
        bundle = next((b for b in node.bundles if b.block is not None), None)
        return node.schema if bundle is None else bundle.get().schema
    if isinstance(node, plan.Read):
        return node.source.schema()
    if isinstance(node, plan.Limit):
        return static_schema(node.input)
    if isinstance(node, (Sample, *SAME_ROWS)):
        return static_schema(node.children[0])
    if isinstance(node, plan.Map):
        return _of_step(node)
    if isinstance(node, plan.Exchange):
        return _of_exchange(node)
    return None


def _of_step(node: plan.Map) -> pa.Schema | None:
    if isinstance(node.step, FILTERS):
        return static_schema(node.input)
    below = static_schema(node.input) if isinstance(node.step, ROW_FOR_ROW) else None
    return None if below is None else next(node.step(iter([below.empty_table()]))).schema


def _of_exchange(node: plan.Exchange) -> pa.Schema | None:
    below = [schema for schema in map(static_schema, node.inputs) if schema is not None]
    if len(below) < len(node.inputs):
        return None
    if isinstance(node, Union):
        return common_schema(below)
    if not all(schema.names for schema in below) or not all(map(_is_uniform, node.inputs)):
        return None
    try:
        return node.schema_of(below)
    except Exception:
        return None  # it fails on rows, too, and says why there


def _is_uniform(node: plan.Node) -> bool:
    """Return whether all blocks are known to have the schema of the first."""
    found: list[pa.Schema | None] = []
    if isinstance(node, plan.Input) and len(node.bundles) > 1:
        found = [None if each.block is None else each.block.schema for each in node.bundles]
    elif isinstance(node, Union):
        found = [static_schema(child) for child in node.inputs]
    alike = all(schema is not None and schema.equals(found[0]) for schema in found)
    return alike and all(map(_is_uniform, node.inputs))


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
