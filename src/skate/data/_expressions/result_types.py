"""What is known of the result of an expression before there are rows."""

from __future__ import annotations

import pyarrow as pa

from skate.data._expressions.expression import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    UnaryExpr,
)
from skate.data._expressions.functions import KernelExpr, UDFExpr
from skate.data._expressions.generated import DownloadExpr, StarExpr, UnnestExpr
from skate.data._expressions.operations import Operation
from skate.data.datatype import DataType


def data_type_of(expression: Expr) -> DataType:
    """Return the type of the result, as a literal, a cast, a function or what makes values of its
    own declares it, and truth values of `~`, `is_null` and `is_not_null`.

    Args:
        expression: The expression.

    Returns:
        `DataType(object)` for what depends on the columns.
    """
    if isinstance(_without_alias(expression), UnaryExpr):
        return DataType(pa.bool_())
    arguments = expression.arguments
    declared = arguments["value"].type if expression.kernel == "literal" else arguments.get("type")
    return DataType(object if declared is None else declared)


def field_of(expression: Expr, schema: pa.Schema) -> pa.Field | None:
    """Return the column that the expression makes.

    Args:
        expression: The expression.
        schema: The columns that there are.

    Returns:
        None if it has no name, makes several columns, names one that is not there, or has a
        function in it that does not say what it returns.
    """
    inner = _without_alias(expression)
    if isinstance(inner, ColumnExpr) and inner.name in schema.names:
        return schema.field(inner.name).with_name(expression.name)
    kind = type_of(inner, schema)
    if kind is None or expression.name is None:
        return None
    return pa.field(expression.name, kind, nullable=is_nullable(inner, schema))


def type_of(expression: Expr, schema: pa.Schema) -> pa.DataType | None:
    """Return the type of the result; None where it shows with the rows only.

    Args:
        expression: The expression.
        schema: The columns that there are.
    """
    if isinstance(expression, (StarExpr, UnnestExpr)):
        return None
    if isinstance(expression, (UDFExpr, DownloadExpr)) and not isinstance(expression, KernelExpr):
        return expression.arguments["type"]
    if not all(isinstance(type_of(part, schema), pa.DataType) for part in expression.parts):
        return None
    try:
        return expression.get_type(schema)
    except (KeyError, TypeError, pa.ArrowException):
        return None


def is_nullable(expression: Expr, schema: pa.Schema) -> bool:
    """Return whether the result may have gaps.

    Args:
        expression: The expression.
        schema: The columns that there are.
    """
    inner = _without_alias(expression)
    if isinstance(inner, LiteralExpr):
        return inner.value is None
    if isinstance(inner, ColumnExpr):
        return inner.name not in schema.names or bool(schema.field(inner.name).nullable)
    if isinstance(inner, UnaryExpr) and inner.op is not Operation.NOT:
        return False  # whether there is a value is known of each
    if isinstance(inner, (UnaryExpr, BinaryExpr)):
        return any(is_nullable(part, schema) for part in inner.parts)
    drawn_or_counted = inner.counts_rows or not inner.repeatable
    return bool(inner.parts) or not drawn_or_counted


def may_hold_of_nan(expression: Expr, schema: pa.Schema) -> bool:
    """Return whether a condition may be true of NaN, which the statistics of files leave out: by
    them, what `!=` or `~` keeps seems to be nowhere in the file. So it does where it compares
    whole numbers with NaN.

    Args:
        expression: The condition.
        schema: The columns that there are.
    """
    inner = _without_alias(expression)
    if inner.kernel in ("not_equal", "invert"):
        return _meets_nan(inner, schema)
    if inner.kernel == "is_in" and pa.types.is_floating(inner.arguments["values"].type):
        return any(value != value for value in inner.arguments["values"].to_pylist())
    return any(may_hold_of_nan(part, schema) for part in inner.parts)


def looks_for_another_type(expression: Expr, schema: pa.Schema) -> bool:
    """Return whether a condition has an `is_in` whose values are not of the type of the column:
    Arrow converts the one or the other, not always alike in memory and by statistics of files.

    Args:
        expression: The condition.
        schema: The columns that there are.
    """
    inner = _without_alias(expression)
    if inner.kernel != "is_in":
        return any(looks_for_another_type(part, schema) for part in inner.parts)
    kind, listed = type_of(inner.parts[0], schema), inner.arguments["values"].type
    alike = (pa.types.is_integer, lambda type_: type_ in (pa.string(), pa.large_string()))
    return kind != listed and not any(test(kind) and test(listed) for test in alike)


def _meets_nan(expression: Expr, schema: pa.Schema) -> bool:
    if isinstance(expression, ColumnExpr):
        return bool(pa.types.is_floating(schema.field(expression.name).type))
    if isinstance(expression, LiteralExpr):
        value = expression.arguments["value"]
        return bool(pa.types.is_floating(value.type) and value.as_py() != value.as_py())
    return any(_meets_nan(part, schema) for part in expression.parts)


def _without_alias(expression: Expr) -> Expr:
    return expression.expr if isinstance(expression, AliasExpr) else expression
