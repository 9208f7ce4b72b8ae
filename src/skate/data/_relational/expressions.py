"""Expressions on columns as those of Polars, where both give the same values and types.

Arrow decides: `_Scope` asks its kernels for the type of each part (on no rows), and brings Polars
to the same conversions. What differs (whole numbers divided, text of other encodings, NaN in some
places …) raises `UnlikeArrowError`, and is left to Arrow.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as kinds

from skate.data._arrow.compute import pc
from skate.data._expressions.expression import Expr
from skate.data._relational.carried import (
    MOST_DIGITS,
    UnlikeArrowError,
    as_number,
    is_carried,
    is_float,
    is_text,
    polars_type,
)

if TYPE_CHECKING:
    import polars


def lowered(expression: Expr, schema: pa.Schema) -> polars.Expr:
    """Return the expression for a frame whose columns Arrow sees as `schema`.

    Raises:
        UnlikeArrowError: If Polars would give other values or another type.
    """
    return _Scope(schema).lower(expression)


class _Scope:
    """Columns that expressions are about, and the types of those that were asked for."""

    def __init__(self, schema: pa.Schema) -> None:
        self._empty = schema.empty_table()
        self._types: dict[int, pa.DataType] = {}

    def lower(self, expression: Expr) -> Any:
        lower = _LOWERED.get(expression.kernel)
        if lower is None or not is_carried(self.type_of(expression)):
            raise UnlikeArrowError
        return lower(expression, self)

    def type_of(self, expression: Expr) -> pa.DataType:
        """Return the type that Arrow's kernels give."""
        if id(expression) not in self._types:
            try:
                self._types[id(expression)] = expression.evaluate(self._empty).type
            except Exception:  # it fails on rows, too, and says why there
                raise UnlikeArrowError from None
        return self._types[id(expression)]


def _column(expression: Expr, scope: _Scope) -> polars.Expr:
    import polars

    return polars.col(expression.arguments["name"])


def _literal(expression: Expr, scope: _Scope) -> polars.Expr:
    import polars

    scalar = expression.arguments["value"]
    return polars.lit(scalar.as_py()).cast(polars_type(scalar.type))


# -- arithmetic ---------------------------------------------------------------------------------


def _arithmetic(
    combine: Callable[[polars.Expr, polars.Expr], polars.Expr],
) -> Callable[[Expr, _Scope], polars.Expr]:
    def lower(expression: Expr, scope: _Scope) -> polars.Expr:
        wanted = scope.type_of(expression)
        if not _is_number(wanted):
            raise UnlikeArrowError
        if kinds.is_decimal(wanted):
            # As many digits as there are: the result has no more than Arrow's type says.
            wanted = pa.decimal128(MOST_DIGITS, wanted.scale)
        a, b = (
            as_number(scope.lower(part), scope.type_of(part), wanted) for part in expression.parts
        )
        return combine(a, b)

    return lower


def _quotient(expression: Expr, scope: _Scope) -> polars.Expr:
    """Divide floats. Whole numbers and decimals have errors and digits of their own in Arrow."""
    if not is_float(scope.type_of(expression)):
        raise UnlikeArrowError
    return _arithmetic(operator.truediv)(expression, scope)


def _is_number(type_: pa.DataType) -> bool:
    return bool(kinds.is_integer(type_) or is_float(type_) or kinds.is_decimal128(type_))


def _cast(expression: Expr, scope: _Scope) -> polars.Expr:
    """Convert numbers where no digit can be lost, so that it makes no difference who checks."""
    part, wanted = expression.parts[0], expression.arguments["type"]
    type_ = scope.type_of(part)
    inner = scope.lower(part)
    if kinds.is_boolean(type_) and (kinds.is_integer(wanted) or is_float(wanted)):
        return inner.cast(polars_type(wanted))
    if kinds.is_integer(type_) and is_float(wanted):
        digits = 53 if kinds.is_float64(wanted) else 24
        if type_.bit_width > digits:
            raise UnlikeArrowError
    elif is_float(type_) and is_float(wanted) and wanted.bit_width < type_.bit_width:
        raise UnlikeArrowError
    return as_number(inner, type_, wanted)


# -- comparisons --------------------------------------------------------------------------------


def _comparison(
    compare: Callable[[polars.Expr, polars.Expr], polars.Expr],
) -> Callable[[Expr, _Scope], polars.Expr]:
    def lower(expression: Expr, scope: _Scope) -> polars.Expr:
        types = [scope.type_of(part) for part in expression.parts]
        a, b = (scope.lower(part) for part in expression.parts)
        if all(map(_is_number, types)):
            common = _common_number(*types)
            a, b = as_number(a, types[0], common), as_number(b, types[1], common)
            if is_float(common):
                return _without_nan(compare, a, b)
        elif types[0] != types[1] and not all(map(is_text, types)):
            raise UnlikeArrowError
        return compare(a, b)

    return lower


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if kinds.is_decimal128(a) or kinds.is_decimal128(b):
        if is_float(a) or is_float(b):
            return pa.float64()
        return pa.decimal128(MOST_DIGITS, max(getattr(a, "scale", 0), getattr(b, "scale", 0)))
    return pc.add(pa.array([], a), pa.array([], b)).type


def _without_nan(
    compare: Callable[[polars.Expr, polars.Expr], polars.Expr], a: polars.Expr, b: polars.Expr
) -> polars.Expr:
    """Compare floats as IEEE says. To Polars NaN is equal to itself and larger than others."""
    import polars

    if compare is operator.ne:
        return ~_without_nan(operator.eq, a, b)
    missing = a.is_null() | b.is_null()
    comparable = a.is_not_nan() & b.is_not_nan()
    return polars.when(missing).then(None).otherwise(compare(a, b) & comparable)


def _is_in(expression: Expr, scope: _Scope) -> polars.Expr:
    """Look for values; Arrow says False where Polars says that a missing value may be any."""
    import polars

    part, values = expression.parts[0], expression.arguments["values"]
    type_ = scope.type_of(part)
    alike = kinds.is_integer(type_) or kinds.is_date32(type_) or is_text(type_)
    if not alike or values.null_count or not len(values):
        raise UnlikeArrowError
    try:
        wanted = values.cast(type_)
    except pa.ArrowInvalid:
        raise UnlikeArrowError from None
    if kinds.is_integer(type_) and not kinds.is_integer(values.type):
        raise UnlikeArrowError
    series = polars.Series(values=wanted.to_pylist(), dtype=polars_type(type_))
    return scope.lower(part).is_in(series.implode()).fill_null(False)


# -- truth --------------------------------------------------------------------------------------


def _truth(combine: Callable[..., polars.Expr]) -> Callable[[Expr, _Scope], polars.Expr]:
    """Join conditions; both engines have Kleene's logic of three values."""

    def lower(expression: Expr, scope: _Scope) -> polars.Expr:
        if not all(kinds.is_boolean(scope.type_of(part)) for part in expression.parts):
            raise UnlikeArrowError
        return combine(*(scope.lower(part) for part in expression.parts))

    return lower


def _of_part(apply: Callable[[polars.Expr], polars.Expr]) -> Callable[[Expr, _Scope], polars.Expr]:
    return lambda expression, scope: apply(scope.lower(expression.parts[0]))


# -- text and dates -----------------------------------------------------------------------------


def _pattern(
    apply: Callable[[polars.Expr, str], polars.Expr],
) -> Callable[[Expr, _Scope], polars.Expr]:
    """Look for a text that is given as the only argument."""

    def lower(expression: Expr, scope: _Scope) -> polars.Expr:
        part, (args, kwargs) = expression.parts[0], _given(expression)
        pattern = args[0] if len(args) == 1 and not kwargs else kwargs.get("pattern")
        alone = len(args) + len(kwargs) == 1
        if not isinstance(pattern, str) or not alone or not is_text(scope.type_of(part)):
            raise UnlikeArrowError
        return apply(scope.lower(part).str, pattern)

    return lower


def _given(expression: Expr) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return expression.arguments["args"], expression.arguments["kwargs"]


def _like(text: polars.Expr, pattern: str) -> polars.Expr:
    if "\\" in pattern:
        raise UnlikeArrowError
    signs = {"%": ".*", "_": "."}
    return text.contains("(?s)^" + "".join(signs.get(c) or re.escape(c) for c in pattern) + "$")


def _text_slice(expression: Expr, scope: _Scope) -> polars.Expr:
    """Cut from a start to a stop, both counted from the beginning."""
    part, (args, kwargs) = expression.parts[0], _given(expression)
    named = {**dict(zip(("start", "stop"), args, strict=False)), **kwargs}
    start, stop = named.get("start"), named.get("stop")
    if len(args) > 2 or named.keys() > {"start", "stop"} or not is_text(scope.type_of(part)):
        raise UnlikeArrowError
    if not isinstance(start, int) or not isinstance(stop, int) or not 0 <= start <= stop:
        raise UnlikeArrowError
    return scope.lower(part).str.slice(start, stop - start)


def _part_of_date(name: str) -> Callable[[Expr, _Scope], polars.Expr]:
    def lower(expression: Expr, scope: _Scope) -> polars.Expr:
        import polars

        part, (args, kwargs) = expression.parts[0], _given(expression)
        if args or kwargs or not kinds.is_date32(scope.type_of(part)):
            raise UnlikeArrowError
        return getattr(scope.lower(part).dt, name)().cast(polars.Int64)

    return lower


_LOWERED: dict[str, Callable[[Expr, _Scope], Any]] = {
    "column": _column,
    "literal": _literal,
    "add": _arithmetic(operator.add),
    "subtract": _arithmetic(operator.sub),
    "multiply": _arithmetic(operator.mul),
    "divide": _quotient,
    "cast": _cast,
    "equal": _comparison(operator.eq),
    "not_equal": _comparison(operator.ne),
    "less": _comparison(operator.lt),
    "less_equal": _comparison(operator.le),
    "greater": _comparison(operator.gt),
    "greater_equal": _comparison(operator.ge),
    "is_in": _is_in,
    "and_kleene": _truth(operator.and_),
    "or_kleene": _truth(operator.or_),
    "invert": _truth(operator.invert),
    "is_null": _of_part(lambda column: column.is_null()),
    "is_valid": _of_part(lambda column: column.is_not_null()),
    "str.starts_with": _pattern(lambda text, pattern: text.starts_with(pattern)),
    "str.ends_with": _pattern(lambda text, pattern: text.ends_with(pattern)),
    "str.contains": _pattern(lambda text, pattern: text.contains(pattern, literal=True)),
    "str.match": _pattern(_like),
    "str.slice": _text_slice,
    "dt.year": _part_of_date("year"),
    "dt.month": _part_of_date("month"),
    "dt.day": _part_of_date("day"),
}
