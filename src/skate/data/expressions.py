"""Expressions on columns: `col("x") * 2 + 1`, `col("name").str.upper()`, `col("x") > 3`.

They are evaluated by Arrow's kernels, without Python code per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._blocks import Block, check_columns, missing_column
from skate.data._tensors import column_of_array, to_array

__all__ = ["Expr", "col", "lit", "pyarrow_udf", "udf"]


class Expr:
    """A computation on the columns of a block."""

    def __init__(self, evaluate: Callable[[Block], Any], text: str, arrow: Any = None) -> None:
        self._evaluate = evaluate
        self._text = text
        self._arrow = arrow  # the same as pyarrow's Expression, for files that can filter
        self._alias: str | None = None

    def __repr__(self) -> str:
        return self._text

    __hash__ = object.__hash__

    @property
    def name(self) -> str | None:
        """The name given by `alias`, or that of the column."""
        return self._alias

    def alias(self, name: str) -> Expr:
        named = Expr(self._evaluate, self._text, self._arrow)
        named._alias = name
        return named

    def to_pyarrow(self) -> pc.Expression:
        if self._arrow is None:
            raise TypeError(f"{self} has no counterpart in pyarrow")
        return self._arrow

    def evaluate(self, block: Block) -> Any:
        """The column for this block."""
        return self._evaluate(block)

    # -- operators ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return _binary("add", "+", self, other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Expr:
        return lit(other) + self

    def __sub__(self, other: Any) -> Expr:
        return _binary("subtract", "-", self, other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Expr:
        return lit(other) - self

    def __mul__(self, other: Any) -> Expr:
        return _binary("multiply", "*", self, other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Expr:
        return lit(other) * self

    def __truediv__(self, other: Any) -> Expr:
        return Expr(_divided(self, _expr(other)), f"({self} / {_expr(other)})")

    def __rtruediv__(self, other: Any) -> Expr:
        return lit(other) / self

    def __floordiv__(self, other: Any) -> Expr:
        quotient = self / other
        return Expr(lambda block: pc.floor(quotient.evaluate(block)), f"({self} // {other})")

    def __mod__(self, other: Any) -> Expr:
        divisor = _expr(other)

        def remainder(block: Block) -> Any:
            a, b = self.evaluate(block), divisor.evaluate(block)
            whole = pc.floor(pc.divide(pc.cast(a, pa.float64()), pc.cast(b, pa.float64())))
            return pc.subtract(a, pc.multiply(b, pc.cast(whole, a.type)))

        return Expr(remainder, f"({self} % {divisor})")

    def __neg__(self) -> Expr:
        return _unary("negate", self)

    def __gt__(self, other: Any) -> Expr:
        return _binary("greater", ">", self, other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Expr:
        return _binary("greater_equal", ">=", self, other, lambda a, b: a >= b)

    def __lt__(self, other: Any) -> Expr:
        return _binary("less", "<", self, other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Expr:
        return _binary("less_equal", "<=", self, other, lambda a, b: a <= b)

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override]
        return _binary("equal", "==", self, other, lambda a, b: a == b)

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override]
        return _binary("not_equal", "!=", self, other, lambda a, b: a != b)

    def __and__(self, other: Any) -> Expr:
        return _binary("and_kleene", "&", self, other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Expr:
        return _binary("or_kleene", "|", self, other, lambda a, b: a | b)

    def __invert__(self) -> Expr:
        return _unary("invert", self, lambda a: ~a)

    # -- methods --------------------------------------------------------------------------------

    def is_null(self) -> Expr:
        return _unary("is_null", self, lambda a: a.is_null())

    def is_not_null(self) -> Expr:
        return _unary("is_valid", self, lambda a: a.is_valid())

    def is_in(self, values: Sequence[Any]) -> Expr:
        options = pa.array(list(values))
        arrow = None if self._arrow is None else self._arrow.isin(list(values))
        return Expr(
            lambda block: pc.is_in(self.evaluate(block), value_set=options),
            f"{self}.is_in({list(values)})",
            arrow,
        )

    def not_in(self, values: Sequence[Any]) -> Expr:
        return ~self.is_in(values)

    def cast(self, type_: Any) -> Expr:
        target = pa.type_for_alias(type_) if isinstance(type_, str) else type_
        return Expr(lambda block: pc.cast(self.evaluate(block), target), f"{self}.cast({target})")

    def power(self, exponent: Any) -> Expr:
        return _binary("power", "**", self, exponent)

    __pow__ = power

    def round(self, ndigits: int = 0) -> Expr:
        return Expr(
            lambda block: pc.round(self.evaluate(block), ndigits=ndigits),
            f"{self}.round({ndigits})",
        )

    def fill_null(self, value: Any) -> Expr:
        return Expr(
            lambda block: pc.fill_null(self.evaluate(block), value), f"{self}.fill_null({value!r})"
        )

    def __getattr__(self, name: str) -> Any:
        kernel = _METHODS.get(name)
        if kernel is None:
            raise AttributeError(f"an expression has no {name!r}")
        return lambda: _unary(kernel, self)

    @property
    def str(self) -> Namespace:
        """Text kernels, such as `.str.upper()`."""
        return Namespace(self, _STRINGS, "str")

    @property
    def dt(self) -> Namespace:
        """Date and time kernels, such as `.dt.year()`."""
        return Namespace(self, _DATES, "dt")

    @property
    def list(self) -> Namespace:
        """List kernels, such as `.list.len()`."""
        return Namespace(self, _LISTS, "list")


_METHODS = {
    name: name
    for name in "abs ceil floor trunc sign exp sin cos tan asin acos atan negate".split()
} | {"ln": "ln", "log10": "log10", "log2": "log2", "sqrt": "sqrt"}

_STRINGS = {
    "upper": "utf8_upper",
    "lower": "utf8_lower",
    "capitalize": "utf8_capitalize",
    "title": "utf8_title",
    "reverse": "utf8_reverse",
    "len": "utf8_length",
    "strip": "utf8_trim_whitespace",
    "lstrip": "utf8_ltrim_whitespace",
    "rstrip": "utf8_rtrim_whitespace",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "contains": "match_substring",
    "match": "match_like",
    "match_regex": "match_substring_regex",
    "replace": "replace_substring",
    "replace_regex": "replace_substring_regex",
    "split": "split_pattern",
    "slice": "utf8_slice_codeunits",
    "is_digit": "utf8_is_digit",
    "is_alpha": "utf8_is_alpha",
    "is_upper": "utf8_is_upper",
    "is_lower": "utf8_is_lower",
}
_DATES = {
    name: name
    for name in "year month day hour minute second quarter day_of_week day_of_year".split()
} | {"strftime": "strftime"}
_LISTS = {"len": "list_value_length", "get": "list_element", "flatten": "list_flatten"}


class Namespace:
    """Kernels for one kind of column: calling one takes its arguments as pyarrow.compute does."""

    def __init__(self, expression: Expr, kernels: dict[str, str], name: str) -> None:
        self._expression = expression
        self._kernels = kernels
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        kernel = self._kernels.get(name)
        if kernel is None:
            raise AttributeError(f".{self._name} has {sorted(self._kernels)}; got {name!r}")
        function = getattr(pc, kernel)
        expression = self._expression

        def call(*args: Any, **kwargs: Any) -> Expr:
            return Expr(
                lambda block: function(expression.evaluate(block), *args, **kwargs),
                f"{expression}.{self._name}.{name}()",
            )

        return call


# -- making expressions -------------------------------------------------------------------------


def col(name: str) -> Expr:
    """The column of that name."""

    def evaluate(block: Block) -> Any:
        if name not in block.column_names:
            raise missing_column(name, block.column_names)
        return block[name]

    expression = Expr(evaluate, f"col({name!r})", pc.field(name))
    expression._alias = name
    return expression


def lit(value: Any) -> Expr:
    """The same value in each row."""
    return Expr(lambda block: pa.scalar(value), repr(value), pc.scalar(value))


def udf(return_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Expr]]:
    """A function of NumPy arrays as an expression: `@udf()` and then `f(col("x"))`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Expr]:
        return _called(function, return_dtype, _as_numpy)

    return decorate


def pyarrow_udf(return_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Expr]]:
    """As `udf`, for a function of Arrow columns."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Expr]:
        return _called(function, return_dtype, lambda column: column)

    return decorate


def _called(
    function: Callable[..., Any], return_dtype: Any, convert: Callable[[Any], Any]
) -> Callable[..., Expr]:
    def call(*arguments: Any) -> Expr:
        expressions = [_expr(argument) for argument in arguments]

        def evaluate(block: Block) -> Any:
            result = function(*(convert(e.evaluate(block)) for e in expressions))
            if not isinstance(result, (pa.Array, pa.ChunkedArray)):
                result = column_of_array(to_array(result))
            return result if return_dtype is None else pc.cast(result, return_dtype)

        return Expr(evaluate, f"{function.__name__}({', '.join(map(repr, expressions))})")

    return call


def _as_numpy(column: Any) -> Any:
    from skate.data._tensors import column_to_numpy

    if isinstance(column, pa.Scalar):
        return column.as_py()
    return column_to_numpy(pa.chunked_array([column]) if isinstance(column, pa.Array) else column)


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else lit(value)


def _unary(kernel: str, a: Expr, arrow: Callable[[Any], Any] | None = None) -> Expr:
    function = getattr(pc, kernel)
    pushed = arrow(a._arrow) if arrow is not None and a._arrow is not None else None
    return Expr(lambda block: function(a.evaluate(block)), f"{kernel}({a})", pushed)


def _binary(
    kernel: str, sign: str, a: Expr, other: Any, arrow: Callable[[Any, Any], Any] | None = None
) -> Expr:
    b = _expr(other)
    function = getattr(pc, kernel)
    pushed = None
    if arrow is not None and a._arrow is not None and b._arrow is not None:
        pushed = arrow(a._arrow, b._arrow)
    return Expr(
        lambda block: function(a.evaluate(block), b.evaluate(block)), f"({a} {sign} {b})", pushed
    )


def _divided(a: Expr, b: Expr) -> Callable[[Block], Any]:
    def divide(block: Block) -> Any:
        return pc.divide(
            pc.cast(a.evaluate(block), pa.float64()), pc.cast(b.evaluate(block), pa.float64())
        )

    return divide


def parse(text: str) -> Expr:
    """An expression from text: column names, numbers, quoted text, arithmetic, comparisons,
    `and`, `or`, `not`, `in`."""
    import ast

    return _parsed(ast.parse(text, mode="eval").body, text)


def _parsed(node: Any, text: str) -> Expr:
    import ast

    if isinstance(node, ast.Name):
        return col(node.id)
    if isinstance(node, ast.Constant):
        return lit(node.value)
    if isinstance(node, ast.BoolOp):
        parts = [_parsed(value, text) for value in node.values]
        total = parts[0]
        for part in parts[1:]:
            total = total & part if isinstance(node.op, ast.And) else total | part
        return total
    if isinstance(node, ast.UnaryOp):
        inner = _parsed(node.operand, text)
        return -inner if isinstance(node.op, ast.USub) else ~inner
    if isinstance(node, ast.BinOp) and type(node.op).__name__ in _OPERATORS:
        combine = _OPERATORS[type(node.op).__name__]
        return combine(_parsed(node.left, text), _parsed(node.right, text))  # type: ignore[no-any-return]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, text)
    raise ValueError(f"cannot understand the expression {text!r}")


def _compared(node: Any, text: str) -> Expr:
    import ast

    left, operator, right = _parsed(node.left, text), node.ops[0], node.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        values = ast.literal_eval(right)
        return left.is_in(values) if isinstance(operator, ast.In) else left.not_in(values)
    combine = _OPERATORS[type(operator).__name__]
    return combine(left, _parsed(right, text))  # type: ignore[no-any-return]


def _operators() -> dict[str, Callable[[Any, Any], Any]]:
    import operator as o

    return {
        "Add": o.add, "Sub": o.sub, "Mult": o.mul, "Div": o.truediv, "FloorDiv": o.floordiv,
        "Mod": o.mod, "Pow": o.pow, "BitAnd": o.and_, "BitOr": o.or_,
        "Gt": o.gt, "GtE": o.ge, "Lt": o.lt, "LtE": o.le, "Eq": o.eq, "NotEq": o.ne,
    }  # fmt: skip


_OPERATORS = _operators()


# -- as steps of a plan -------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterStep:
    expression: Expr

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            mask = self.expression.evaluate(block)
            yield block.filter(mask)


@dataclass(frozen=True)
class WithColumns:
    columns: tuple[tuple[str, Expr], ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            for name, expression in self.columns:
                block = set_column(block, name, expression.evaluate(block))
            yield block


def set_column(block: Block, name: str, value: Any) -> Block:
    """The block with a column replaced or, at the end, added."""
    if isinstance(value, pa.Scalar):
        value = (
            pa.array(np.full(block.num_rows, value.as_py()))
            if value.is_valid
            else (pa.nulls(block.num_rows, value.type))
        )
    if name in block.column_names:
        return block.set_column(block.column_names.index(name), name, value)
    check_columns((), block.column_names)
    return block.append_column(name, value)
