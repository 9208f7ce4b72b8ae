"""Operations of a plan on frames of Polars, each as Arrow's kernels and Ray do it.

`lowered_*` raise `UnlikeArrowError` where Polars would give other values, types or orders.
`ordered` says whether somebody can see the order of the rows that come out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as kinds

from skate.data import aggregate as agg
from skate.data._execution.exchange import Sort
from skate.data._execution.joins import Join, common_type
from skate.data._execution.transforms import DropColumns, RenameColumns, SelectColumns
from skate.data._expressions.expression import Expr
from skate.data._expressions.steps import FilterStep, WithColumns
from skate.data._relational.carried import (
    UnlikeArrowError,
    as_number,
    is_carried,
    is_float,
    is_text,
    polars_type,
)
from skate.data._relational.expressions import lowered
from skate.data._relational.frames import Frame
from skate.data.grouped_data import Aggregate

if TYPE_CHECKING:
    import polars


Step = FilterStep | WithColumns | SelectColumns | DropColumns | RenameColumns
STEPS = (FilterStep, WithColumns, SelectColumns, DropColumns, RenameColumns)


# -- per row ------------------------------------------------------------------------------------


def lowered_step(step: Step, frame: Frame) -> Frame:
    """Return the frame after a filter, or with other columns."""
    if isinstance(step, FilterStep):
        if not kinds.is_boolean(_type_of(step.expression, frame.schema)):
            raise UnlikeArrowError
        return replace(frame, lazy=frame.lazy.filter(lowered(step.expression, frame.schema)))
    if isinstance(step, WithColumns):
        return _with_columns(frame, step)
    schema = next(step(iter([frame.schema.empty_table()]))).schema
    return frame.renamed(schema) if isinstance(step, RenameColumns) else frame.selected(schema)


def _type_of(expression: Expr, schema: pa.Schema) -> pa.DataType:
    try:
        return expression.get_type(schema)
    except Exception:  # it fails on rows, too, and says why there
        raise UnlikeArrowError from None


def _with_columns(frame: Frame, step: WithColumns) -> Frame:
    if any(e.kernel == "literal" and not _is_plain_literal(e) for _, e in step.columns):
        raise UnlikeArrowError
    made = {name: lowered(expression, frame.schema) for name, expression in step.columns}
    schema = next(step(iter([frame.schema.empty_table()]))).schema
    held = {other: kept for other, kept in frame.held.items() if other not in made}
    lazy = frame.lazy.with_columns(
        column.cast(polars_type(schema.field(name).type)).alias(name)
        for name, column in made.items()
    )
    return replace(frame, lazy=lazy, schema=schema, held=held)


def _is_plain_literal(expression: Expr) -> bool:
    """Return whether a column of the value has the same type with and without rows."""
    return isinstance(expression.arguments["value"].as_py(), (bool, int, float, str))


# -- sort ---------------------------------------------------------------------------------------


def lowered_sort(node: Sort, frame: Frame, ordered: bool) -> Frame:
    """Return the rows sorted: equal ones in their order, then NaN, then what is missing."""
    names = [name for name, _ in node.keys]
    if not all(map(frame.carries, names)):
        raise UnlikeArrowError
    if not ordered:
        return frame
    return replace(frame, lazy=_sorted(frame, node.keys))


def _sorted(frame: Frame, keys: Sequence[tuple[str, str]]) -> polars.LazyFrame:
    import polars

    by: list[Any] = []
    down: list[bool] = []
    for name, direction in keys:
        column = polars.col(name)
        if direction == "descending" and is_float(frame.schema.field(name).type):
            # To Polars NaN is the largest number, which would come first.
            by.append(polars.when(column.is_null()).then(2).otherwise(column.is_nan().cast(int)))
            down.append(False)
        by.append(column)
        down.append(direction == "descending")
    return frame.lazy.sort(by, descending=down, nulls_last=True, maintain_order=True)


# -- join ---------------------------------------------------------------------------------------

_POLARS_JOINS = {
    "inner": "inner",
    "left_outer": "left",
    "right_outer": "right",
    "full_outer": "full",
}
_LEFT, _RIGHT = "\x1fleft", "\x1fright"


def lowered_join(node: Join, left: Frame, right: Frame, ordered: bool) -> Frame:
    """Return the pairs of rows in the order of the left side, then of the right side."""
    left, right = _with_common_keys(node, left, right)
    if node.kind not in _POLARS_JOINS:
        return _lowered_semi_join(node, left, right, ordered)
    empty = [frame.schema.empty_table() for frame in (left, right)]
    schema = node.assembled(*empty).schema
    names = node.names(left.names, right.names)
    keys = names.keys
    left = _named(left, node.on, keys, names.left)
    right = _named(right, node.right_on, keys, names.right)
    numbered = ordered and node.kind in ("right_outer", "full_outer")
    one, other = left.lazy, right.lazy
    if numbered:
        one, other = one.with_row_index(_LEFT), other.with_row_index(_RIGHT)
    order = "left_right" if ordered and not numbered else "none"
    how: Any = _POLARS_JOINS[node.kind]
    lazy = one.join(other, on=keys, how=how, coalesce=True, maintain_order=order)
    if numbered:
        lazy = lazy.sort(_LEFT, _RIGHT, nulls_last=True).drop(_LEFT, _RIGHT)
    lazy = lazy.select(schema.names)
    return Frame(lazy, schema, {**left.held, **right.held}, node.blocks)


def _lowered_semi_join(node: Join, left: Frame, right: Frame, ordered: bool) -> Frame:
    """Return the rows of one side that have a partner on the other, or none."""
    on, right_on = list(node.on), list(node.right_on)
    if node.kind.startswith("right"):
        left, right, on, right_on = right, left, right_on, on
    how: Any = "semi" if "semi" in node.kind else "anti"
    order: Any = "left" if ordered else "none"
    lazy = left.lazy.join(
        right.lazy.select(right_on), left_on=on, right_on=right_on, how=how, maintain_order=order
    )
    return replace(left, lazy=lazy, blocks=node.blocks)


def _with_common_keys(node: Join, left: Frame, right: Frame) -> tuple[Frame, Frame]:
    """Return both with keys of the same types, which can be compared as they are."""
    for one, other in zip(node.on, node.right_on, strict=True):
        if not left.carries(one) or not right.carries(other):
            raise UnlikeArrowError
        kind = common_type(one, left.schema.field(one).type, other, right.schema.field(other).type)
        if not is_carried(kind) or is_float(kind):  # NaN and -0.0 are told apart by their bits
            raise UnlikeArrowError
        left, right = _retyped(left, one, kind), _retyped(right, other, kind)
    return left, right


def _retyped(frame: Frame, name: str, kind: pa.DataType) -> Frame:
    import polars

    place = frame.schema.get_field_index(name)
    type_ = frame.schema.field(place).type
    if type_ == kind:
        return frame
    schema = frame.schema.set(place, pa.field(name, kind))
    if is_text(type_) and is_text(kind):
        return replace(frame, schema=schema)
    column = as_number(polars.col(name), type_, kind)
    return replace(frame, lazy=frame.lazy.with_columns(column.alias(name)), schema=schema)


def _named(frame: Frame, on: Sequence[str], keys: Sequence[str], new: Mapping[str, str]) -> Frame:
    """Return the frame with the names that its columns have in the join."""
    joined = {**new, **dict(zip(on, keys, strict=True))}
    return frame.renamed(pa.schema([each.with_name(joined[each.name]) for each in frame.schema]))


# -- groups -------------------------------------------------------------------------------------


def lowered_aggregate(node: Aggregate, frame: Frame, ordered: bool) -> Frame:
    """Return one row per group, sorted by its keys; without keys, one row."""
    keys = list(node.keys)
    names = [*keys, *(function.name for function in node.functions)]
    if len(set(names)) < len(names) or not all(map(frame.carries, keys)):
        raise UnlikeArrowError
    if any(is_float(frame.schema.field(key).type) for key in keys):
        raise UnlikeArrowError  # -0.0 is a group of its own
    columns = [_aggregated(function, frame).alias(function.name) for function in node.functions]
    schema = node.table_of_groups(frame.schema.empty_table()).schema
    wanted = [_cast_to(schema.field(function.name)) for function in node.functions]
    lazy = frame.lazy.group_by(keys).agg(columns) if keys else frame.lazy.select(columns)
    found = Frame(lazy.with_columns(wanted), schema)
    if not ordered or not keys:
        return found
    return replace(found, lazy=_sorted(found, [(key, "ascending") for key in keys]))


def lowered_totals(functions: Sequence[agg.AggregateFn], frame: Frame) -> list[polars.Expr]:
    """Return the results for all rows."""
    columns, types = [], []
    for number, function in enumerate(functions):
        columns.append(_aggregated(function, frame).alias(str(number)))
        types.append(function.output_type(frame.schema))  # type: ignore[attr-defined]
    found = frame.lazy.select(columns).collect(engine="streaming").to_arrow()
    return [
        column.cast(type_)[0].as_py() for column, type_ in zip(found.columns, types, strict=True)
    ]


def sees_order(node: Aggregate) -> bool:
    """Return whether results depend on the order of the rows."""
    return not all(type(function) in _AGGREGATIONS for function in node.functions)


def _cast_to(wanted: pa.Field) -> polars.Expr:
    import polars

    if not is_carried(wanted.type):
        raise UnlikeArrowError
    return polars.col(wanted.name).cast(polars_type(wanted.type))


def _aggregated(function: agg.AggregateFn, frame: Frame) -> polars.Expr:
    import polars

    if type(function) is agg.Count:
        counts_all = function.on is None or not function.ignore_nulls
        if counts_all and (function.on is None or function.on in frame.names):
            return polars.len()
    lower = _AGGREGATIONS.get(type(function))
    if lower is None or not isinstance(function, agg.AggregateFnV2):
        raise UnlikeArrowError
    on = function.on
    if on is None or not frame.carries(on):
        raise UnlikeArrowError
    type_ = frame.schema.field(on).type
    result = lower(function, polars.col(on), type_)
    if type(function) is agg.Count or function.ignore_nulls:
        return result
    return polars.when(polars.col(on).null_count() == 0).then(result)


def _sum(function: agg.Sum, column: polars.Expr, type_: pa.DataType) -> polars.Expr:
    total = _summed(column, type_)
    return _known(function, total, type_, column)


def _summed(column: polars.Expr, type_: pa.DataType) -> polars.Expr:
    """Add in the type of Arrow's sums, which has room for many."""
    import polars

    if kinds.is_boolean(type_) or kinds.is_unsigned_integer(type_):
        return column.cast(polars.UInt64).sum()
    if kinds.is_integer(type_):
        return column.cast(polars.Int64).sum()
    if is_float(type_):
        return column.cast(polars.Float64).sum()
    if kinds.is_decimal128(type_):
        return column.cast(polars.Decimal(38, type_.scale)).sum()
    raise UnlikeArrowError


def _known(
    function: agg.Sum | agg.Mean, result: polars.Expr, type_: pa.DataType, column: polars.Expr
) -> polars.Expr:
    """Give nothing as the result of nothing, and of NaN where what is missing does not count."""
    import polars

    if function.ignore_nulls and is_float(type_):
        result = result.fill_nan(None)
    return polars.when(column.count() > 0).then(result)


def _mean(function: agg.Mean, column: polars.Expr, type_: pa.DataType) -> polars.Expr:
    import polars

    if kinds.is_decimal(type_):
        raise UnlikeArrowError
    mean = _summed(column, type_).cast(polars.Float64) / column.count()
    return _known(function, mean, type_, column)


def _extreme(function: agg.Min | agg.Max, column: polars.Expr, type_: pa.DataType) -> polars.Expr:
    result = column.min() if type(function) is agg.Min else column.max()
    return result.fill_nan(None) if function.ignore_nulls and is_float(type_) else result


def _std(function: agg.Std, column: polars.Expr, type_: pa.DataType) -> polars.Expr:
    import polars

    if not (kinds.is_integer(type_) or is_float(type_)):
        raise UnlikeArrowError
    std = column.cast(polars.Float64).std(ddof=function.ddof)
    if not function.ignore_nulls:
        return std
    too_few = std.is_null() & (column.count() > 0)
    return polars.when(too_few).then(float("nan")).otherwise(std.fill_nan(None))


_AGGREGATIONS: dict[type, Any] = {
    agg.Count: lambda function, column, type_: column.count(),
    agg.Sum: _sum,
    agg.Mean: _mean,
    agg.Min: _extreme,
    agg.Max: _extreme,
    agg.Std: _std,
}
