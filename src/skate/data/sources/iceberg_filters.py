"""Expressions on columns as those of pyiceberg, which choose rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skate._core.optional_imports import try_import
from skate.data._expressions.expression import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    UnaryExpr,
)
from skate.data._expressions.operations import Operation

_COMPARISONS = {
    Operation.LT: "LessThan",
    Operation.LE: "LessThanOrEqual",
    Operation.GT: "GreaterThan",
    Operation.GE: "GreaterThanOrEqual",
    Operation.EQ: "EqualTo",
    Operation.NE: "NotEqualTo",
}
_MIRRORED = {
    Operation.LT: Operation.GT,
    Operation.LE: Operation.GE,
    Operation.GT: Operation.LT,
    Operation.GE: Operation.LE,
    Operation.EQ: Operation.EQ,
    Operation.NE: Operation.NE,
}
_OPPOSITES = {
    Operation.LT: Operation.GE,
    Operation.LE: Operation.GT,
    Operation.EQ: Operation.NE,
    Operation.IN: Operation.NOT_IN,
    Operation.AND: Operation.OR,
    Operation.IS_NULL: Operation.IS_NOT_NULL,
}
_OPPOSITES |= {opposite: operation for operation, opposite in _OPPOSITES.items()}
_JOINED = {Operation.AND: "And", Operation.OR: "Or"}
_MEMBERSHIP = (Operation.IN, Operation.NOT_IN)
_OF_ONE = (Operation.IS_NULL, Operation.IS_NOT_NULL)


def iceberg_filter(chosen: object) -> Any:
    """Return what pyiceberg takes for a filter: an expression of ours as one of its own.

    Args:
        chosen: An expression such as `col("n") < 5`, or what pyiceberg takes itself, such as
            "n < 5".

    Returns:
        The filter.

    Raises:
        ValueError: If pyiceberg has no such expression, or it compares with None.
    """
    return _translated(chosen, negated=False) if isinstance(chosen, Expr) else chosen


def _translated(expression: Expr, negated: bool) -> Any:
    """Return the filter for the rows in which an expression is true, or false if `negated`.

    pyiceberg decides by the statistics of a file where it can and by its rows elsewhere, and the
    two differ about what is missing or no number (NaN), also below its `Not`. So what is
    negated here are the single comparisons, and each says itself what it does with those.
    """
    match expression:
        case AliasExpr():
            return _translated(expression.expr, negated)
        case UnaryExpr(op=Operation.NOT):
            return _translated(expression.operand, not negated)
        case UnaryExpr(operand=ColumnExpr(name=str(column))) if expression.op in _OF_ONE:
            return _missing(column, (expression.op is Operation.IS_NULL) is not negated)
        case BinaryExpr() if expression.op in _JOINED:
            joined = _OPPOSITES[expression.op] if negated else expression.op
            both = (_translated(part, negated) for part in (expression.left, expression.right))
            return getattr(_known(), _JOINED[joined])(*both)
        case BinaryExpr(
            left=ColumnExpr(name=str(column)), right=LiteralExpr(value=Iterable() as values)
        ) if expression.op in _MEMBERSHIP:
            return _member(column, [*values], (expression.op is Operation.IN) is not negated)
        case BinaryExpr(left=ColumnExpr(name=str(column)), right=LiteralExpr(value=value)) if (
            expression.op in _COMPARISONS
        ):
            return _compared(expression.op, column, value, negated)
        case BinaryExpr(left=LiteralExpr(value=value), right=ColumnExpr(name=str(column))) if (
            expression.op in _MIRRORED
        ):
            return _compared(_MIRRORED[expression.op], column, value, negated)
    raise ValueError(
        "a filter of Iceberg compares columns with values, by <, <=, >, >=, ==, !=, is_in, "
        f"not_in, is_null and is_not_null, joined by &, | and ~; got {expression}"
    )


def _known() -> Any:
    return try_import("pyiceberg.expressions", "data-sources")


def _compared(operation: Operation, column: str, value: object, negated: bool) -> Any:
    """Compare a column with a value, which is neither true nor false of a missing one; NaN is
    unequal to anything, and what is negated is true of it."""
    if value is None:
        raise ValueError(
            f"nothing is equal to None, more or less, so that a filter with {column!r} and None "
            f"chooses no row; col({column!r}).is_null() and .is_not_null() ask what is missing"
        )
    known = _known()
    meant = _OPPOSITES[operation] if negated else operation
    compared = getattr(known, _COMPARISONS[meant])(column, value)
    takes_nan = (operation is Operation.NE) is not negated
    return known.And(known.NotNull(column), _with_nan(column, compared, takes_nan))


def _member(column: str, listed: list[object], among: bool) -> Any:
    """Ask whether a column is among these values, or not among them, which may hold None and NaN:
    both are equal to themselves here."""
    known = _known()
    with_none, with_nan = None in listed, any(value != value for value in listed)
    plain = [value for value in listed if value is not None and value == value]
    compared = (known.In if among else known.NotIn)(column, plain)
    present = _with_nan(column, compared, with_nan is among)
    if with_none is among:
        return known.Or(known.IsNull(column), present)
    return known.And(known.NotNull(column), present)


def _with_nan(column: str, compared: Any, takes_nan: bool) -> Any:
    known = _known()
    if takes_nan:
        return known.Or(known.IsNaN(column), compared)
    return known.And(known.NotNaN(column), compared)


def _missing(column: str, missing: bool) -> Any:
    """Ask whether a column is missing. NaN is not, which pyiceberg has to be told: where a filter
    does not speak of NaN, it keeps all such rows."""
    known = _known()
    if missing:
        is_null = known.IsNull(column)
        return known.Or(is_null, known.And(is_null, known.NotNaN(column)))
    return known.And(known.NotNull(column), known.Or(known.IsNaN(column), known.NotNaN(column)))
