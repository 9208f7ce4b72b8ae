"""Expressions on columns: `col("x") * 2 + 1`, `col("name").str.upper()`, `col("x") > 3`.

They are evaluated by Arrow's kernels, without Python code per row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._arrow.blocks import Block, missing_column
from skate.data._arrow.tensors import column_of_array, to_array
from skate.data._execution.udf import UserFunction
from skate.data._expressions.arithmetic import floor_quotient, ratio, remainder, sum_of
from skate.data._expressions.namespaces import Arrays, Dates, Lists, Maps, Strings, Structs

Text = str  # `str` is an attribute of expressions
_NO_ARGUMENTS: dict[str, Any] = {}


class Expr:
    """A computation on the columns of a block, made of the expressions in `parts`.

    `runs_python`: it has a user's function in it, which is worth a process. `counts_rows`: it
    depends on how many rows came before. `repeatable`: it gives the same each time. `op` names
    what it does to its parts, with `arguments` that are the same for all rows, for engines other
    than Arrow's kernels; "" if none is to know.
    """

    def __init__(
        self,
        evaluate: Callable[[Block], Any],
        text: Text,
        parts: Sequence[Expr],
        arrow: Any = None,
        *,
        op: Text = "",
        arguments: Mapping[Text, Any] = _NO_ARGUMENTS,
        runs_python: bool = False,
        counts_rows: bool = False,
        repeatable: bool = True,
    ) -> None:
        self._evaluate = evaluate
        self._text = text
        self.op: Text = op
        self.arguments = arguments
        self.parts: tuple[Expr, ...] = tuple(parts)
        self._arrow = arrow  # the same as pyarrow's Expression, for files that can filter
        self._alias: Text | None = None
        self.runs_python: bool = runs_python or any(part.runs_python for part in parts)
        self.counts_rows: bool = counts_rows or any(part.counts_rows for part in parts)
        self.repeatable: bool = repeatable and all(part.repeatable for part in parts)

    def __repr__(self) -> Text:
        return self._text

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth value; join conditions with &, | and ~")

    @property
    def name(self) -> Text | None:
        """The name given by `alias`, or that of the column."""
        return self._alias

    def alias(self, name: Text) -> Expr:
        named = copy(self)
        named._alias = name
        return named

    def structurally_equals(self, other: Any) -> bool:
        """Whether it is the same computation; `==` makes an expression instead."""
        return isinstance(other, Expr) and (self._text, self._alias) == (other._text, other._alias)

    def to_pyarrow(self) -> pc.Expression:
        if self._arrow is None:
            raise TypeError(f"{self} has no counterpart in pyarrow")
        return self._arrow

    def evaluate(self, block: Block) -> Any:
        """The column for this block."""
        return self._evaluate(block)

    def added_to(self, block: Block, name: Text) -> Block:
        """The block with the result as a column."""
        return set_column(block, name, self.evaluate(block))

    def get_type(self, input_schema: pa.Schema) -> pa.DataType:
        """The type of the result for blocks of this schema."""
        return self.evaluate(input_schema.empty_table()).type

    # -- operators ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return _computed(sum_of, "+", self, other, _sum_in_arrow(self, _expr(other)), op="add")

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
        return _computed(ratio, "/", self, other, op="divide")

    def __rtruediv__(self, other: Any) -> Expr:
        return lit(other) / self

    def __floordiv__(self, other: Any) -> Expr:
        return _computed(floor_quotient, "//", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return lit(other) // self

    def __mod__(self, other: Any) -> Expr:
        return _computed(remainder, "%", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return lit(other) % self

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

    def is_in(self, values: Any) -> Expr:
        """Whether it is one of the values: a list, or `lit` of one."""
        listed = values.value if isinstance(values, Literal) else [*values]
        options = pa.array(listed)
        arrow = None if self._arrow is None else self._arrow.isin(listed)
        return Expr(
            partial(_called_with, pc.is_in, self, {"value_set": options}),
            f"{self}.is_in({listed})",
            (self,),
            arrow,
            op="is_in",
            arguments={"values": options},
        )

    def not_in(self, values: Any) -> Expr:
        return ~self.is_in(values)

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """As another type: of pyarrow, a `DataType`, or by name. `safe` refuses to lose digits."""
        target = arrow_type(target_type)
        return Expr(
            partial(_called_with, pc.cast, self, {"target_type": target, "safe": safe}),
            f"{self}.cast({target})",
            (self,),
            op="cast",
            arguments={"type": target},
        )

    def power(self, exponent: Any) -> Expr:
        return _binary("power", "**", self, exponent)

    __pow__ = power

    def round(self, ndigits: int = 0) -> Expr:
        return Expr(
            partial(_called_with, pc.round, self, {"ndigits": ndigits}),
            f"{self}.round({ndigits})",
            (self,),
        )

    def fill_null(self, value: Any) -> Expr:
        return Expr(
            partial(_called_with, pc.fill_null, self, {"fill_value": value}),
            f"{self}.fill_null({value!r})",
            (self,),
        )

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"an expression has no {name!r}")
        return lambda: _unary(name, self)

    # -- kinds of columns -----------------------------------------------------------------------

    @property
    def str(self) -> Strings:
        """Text, such as `.str.upper()`."""
        return Strings(self)

    @property
    def dt(self) -> Dates:
        """Dates and times, such as `.dt.year()`."""
        return Dates(self)

    @property
    def list(self) -> Lists:
        """Lists, such as `.list.len()` or `.list[0]`."""
        return Lists(self)

    @property
    def struct(self) -> Structs:
        """Dictionaries, such as `.struct["key"]`."""
        return Structs(self)

    @property
    def map(self) -> Maps:
        """Maps: `.map.keys()` and `.map.values()`."""
        return Maps(self)

    @property
    def arr(self) -> Arrays:
        """Tensors: `.arr.to_list()`."""
        return Arrays(self)


_METHODS = frozenset(
    "abs ceil floor trunc sign exp sin cos tan asin acos atan negate ln log10 log2 sqrt".split()
)


# -- making expressions -------------------------------------------------------------------------


def col(name: str) -> Expr:
    """The column of that name."""
    expression = Expr(
        partial(_column, name),
        f"col({name!r})",
        (),
        pc.field(name),
        op="column",
        arguments={"name": name},
    )
    expression._alias = name
    return expression


def _column(name: str, block: Block) -> Any:
    if name not in block.column_names:
        raise missing_column(name, block.column_names)
    return block[name]


class Literal(Expr):
    """A value that is the same in each row."""

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            scalar, arrow = pa.scalar(value), pc.scalar(value)
        except pa.ArrowInvalid:
            raise TypeError(f"lit takes a plain value; got {value!r}") from None
        super().__init__(
            partial(_same, scalar),
            repr(value),
            (),
            arrow,
            op="literal",
            arguments={"value": scalar},
        )


def _same(scalar: pa.Scalar, block: Block) -> pa.Scalar:
    return scalar


def lit(value: Any) -> Expr:
    """The same value in each row."""
    return Literal(value)


def arrow_type(type_: Any) -> Any:
    """Arrow's type for one of Arrow, a `DataType`, or the name of one; None stays None."""
    if isinstance(type_, Text):
        try:
            return pa.type_for_alias(type_)
        except ValueError:
            raise TypeError(
                f"target_type must be a DataType, such as DataType.int64(), or the name of one; "
                f"got {type_!r}"
            ) from None
    return type_.to_arrow_dtype() if hasattr(type_, "to_arrow_dtype") else type_


def udf(return_dtype: Any = None) -> Callable[[Any], Callable[..., Any]]:
    """A function of Arrow columns as an expression: `@udf()` and then `f(col("x"))`. A class is
    made once where it is used: `f = Scale(3)`, and then `f(col("x"))`."""
    kind = arrow_type(return_dtype)

    def decorate(function: Any) -> Callable[..., Any]:
        if not inspect.isclass(function):
            return _called(UserFunction(function), kind)

        def make(*args: Any, **kwargs: Any) -> Callable[..., Expr]:
            return _called(UserFunction(function, (), None, args, kwargs), kind)

        return make

    return decorate


pyarrow_udf = udf


def _called(function: UserFunction, kind: Any) -> Callable[..., Expr]:
    def call(*arguments: Any, **keywords: Any) -> Expr:
        expressions = [_expr(argument) for argument in arguments]
        named = {name: _expr(value) for name, value in keywords.items()}

        def evaluate(block: Block) -> Any:
            result = function.load()(
                *(e.evaluate(block) for e in expressions),
                **{name: e.evaluate(block) for name, e in named.items()},
            )
            if not isinstance(result, (pa.Array, pa.ChunkedArray)):
                result = column_of_array(_array_from(result, function.name))
            return result if kind is None or result.type == kind else pc.cast(result, kind)

        shown = [*map(repr, expressions), *(f"{n}={e!r}" for n, e in named.items())]
        text = f"{function.name}({', '.join(shown)})"
        return Expr(evaluate, text, [*expressions, *named.values()], runs_python=True)

    return call


def _array_from(result: Any, name: Text) -> Any:
    if not hasattr(result, "__array__"):
        raise TypeError(
            f"{name} returned invalid type {type(result).__name__}. Expected type: a column with "
            "one entry per row, as pyarrow.Array, numpy.ndarray or pandas.Series"
        )
    return to_array(result)


def is_nan(value: Expr) -> Expr:
    """Whether it is a number that is none."""
    return _unary("is_nan", value, lambda a: a.is_nan())


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else lit(value)


def _unary(kernel: str, a: Expr, arrow: Callable[[Any], Any] | None = None) -> Expr:
    function = getattr(pc, kernel)
    pushed = arrow(a._arrow) if arrow is not None and a._arrow is not None else None
    text = f"{kernel}({a})"
    return Expr(partial(_applied, function, (a,), text), text, (a,), pushed, op=kernel)


def _binary(
    kernel: str, sign: str, a: Expr, other: Any, arrow: Callable[[Any, Any], Any] | None = None
) -> Expr:
    b = _expr(other)
    pushed = None
    if arrow is not None and a._arrow is not None and b._arrow is not None:
        pushed = arrow(a._arrow, b._arrow)
    return _computed(getattr(pc, kernel), sign, a, b, pushed, op=kernel)


def _computed(
    function: Callable[[Any, Any], Any],
    sign: str,
    a: Expr,
    other: Any,
    arrow: Any = None,
    op: str = "",
) -> Expr:
    b = _expr(other)
    text = f"({a} {sign} {b})"
    return Expr(partial(_applied, function, (a, b), text), text, (a, b), arrow, op=op)


def _called_with(
    function: Callable[..., Any], a: Expr, options: dict[str, Any], block: Block
) -> Any:
    return function(a.evaluate(block), **options)


def _applied(function: Callable[..., Any], parts: Sequence[Expr], text: str, block: Block) -> Any:
    values = [part.evaluate(block) for part in parts]
    try:
        return function(*values)
    except pa.ArrowNotImplementedError:
        kinds = " and ".join(
            f"{part} is {value.type}" for part, value in zip(parts, values, strict=True)
        )
        raise TypeError(
            f"cannot compute {text}: {kinds}; .cast('int64') or the like changes a type (the "
            "values of partition folders are text unless Partitioning(field_types=...) says what "
            "they are)"
        ) from None


def _sum_in_arrow(a: Expr, b: Expr) -> Any:
    """For the reader of a file, unless one is text, which Arrow's `+` does not join."""
    if a._arrow is None or b._arrow is None or "'" in (a._text[:1] + b._text[:1]):
        return None
    return a._arrow + b._arrow


# -- as steps of a plan -------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterStep:
    expression: Expr

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            yield block.filter(self._mask(block)) if block.column_names else block

    def _mask(self, block: Block) -> Any:
        mask = self.expression.evaluate(block)
        if not (pa.types.is_boolean(mask.type) or pa.types.is_null(mask.type)):
            raise TypeError(
                f"a filter takes an expression that is true or false; {self.expression} is "
                f"{mask.type}"
            )
        return pa.repeat(mask, block.num_rows) if isinstance(mask, pa.Scalar) else mask


@dataclass(frozen=True)
class WithColumns:
    columns: tuple[tuple[str, Expr], ...]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            for name, expression in self.columns:
                block = expression.added_to(block, name)
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
    return block.append_column(name, value)
