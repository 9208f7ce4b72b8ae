"""Expressions on columns: `col("x") * 2 + 1`, `col("name").str.upper()`, `col("x") > 3`.

They are evaluated by Arrow's kernels, without Python code per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data._arrow.blocks import Block, missing_column
from skate.data._arrow.compute import pc
from skate.data._arrow.type_kinds import arrow_type
from skate.data._expressions.arithmetic import filled
from skate.data._expressions.namespaces import Arrays, Dates, Lists, Maps, Strings, Structs
from skate.data._expressions.operations import HOW, UNARY, Operation, has_zero
from skate.data._expressions.steps import with_columns

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Column
    from skate.data.datatype import DataType


Text = str  # `str` is an attribute of expressions
_NO_ARGUMENTS: dict[str, Any] = {}


class Expr:
    """A computation on the columns of a block, made of the expressions in `parts`.

    `runs_python`: it has a user's function in it, which is worth a process. `counts_rows`: it
    depends on how many rows came before. `repeatable`: it gives the same each time. `kernel` names
    what it does to its parts, with `arguments` that are the same for all rows, for engines other
    than Arrow's kernels; "" if none is to know. `arrow` is the same for files that can filter, and
    `in_arrow` makes it of those of the parts for everybody else.
    """

    def __init__(
        self,
        evaluate: Callable[[Block], Column | pa.Scalar],
        text: Text,
        parts: Sequence[Expr],
        arrow: pc.Expression | None = None,
        *,
        in_arrow: Callable[..., pc.Expression] | None = None,
        kernel: Text = "",
        arguments: Mapping[Text, Any] = _NO_ARGUMENTS,
        runs_python: bool = False,
        counts_rows: bool = False,
        repeatable: bool = True,
    ) -> None:
        self._evaluate = evaluate
        self._text = text
        self.kernel: Text = kernel
        self.arguments = arguments
        self.parts: tuple[Expr, ...] = tuple(parts)
        self._arrow = arrow  # the same as pyarrow's Expression, for files that can filter
        self._in_arrow = in_arrow  # likewise, made of those of the parts; for others than files
        self._alias: Text | None = None
        self.runs_python: bool = runs_python or any(part.runs_python for part in parts)
        self.counts_rows: bool = counts_rows or any(part.counts_rows for part in parts)
        self.repeatable: bool = repeatable and all(part.repeatable for part in parts)

    def __repr__(self) -> Text:
        return self._text

    @property
    def inner_text(self) -> Text:
        """The text without parentheses around the whole, for where there is a pair already."""
        return self._text

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __bool__(self) -> bool:
        raise TypeError(f"{self} has no truth value; join conditions with &, | and ~")

    @property
    def name(self) -> Text | None:
        """The name given by `alias`, or that of the column."""
        return self._alias

    @property
    def data_type(self) -> DataType:
        """The type of the result, as far as it does not depend on columns; else of `object`."""
        from skate.data._expressions.result_types import data_type_of

        return data_type_of(self)

    def alias(self, name: Text) -> Expr:
        return AliasExpr(self, name)

    def structurally_equals(self, other: object) -> bool:
        """Return whether it is the same computation; `==` makes an expression instead."""
        if type(other) is not type(self) or len(other.parts) != len(self.parts):
            return False
        pairs = zip(self.parts, other.parts, strict=True)
        alike = all(mine.structurally_equals(theirs) for mine, theirs in pairs)
        return alike and (self._text, self._alias) == (other._text, other._alias)

    @property
    def filter_of_files(self) -> pc.Expression | None:
        """The same for files that can filter; None if they may do it in another way."""
        return self._arrow

    def to_pyarrow(self) -> pc.Expression:
        if self._arrow is not None:
            return self._arrow
        if self._in_arrow is None:
            kind = type(self).__name__.removesuffix("Expr")
            raise TypeError(
                f"{kind} expressions cannot be converted to PyArrow expressions: {self} has no "
                "counterpart there"
            )
        return self._in_arrow(*[part.to_pyarrow() for part in self.parts])

    def evaluate(self, block: Block) -> Column | pa.Scalar:
        """Compute the column for this block."""
        return self._evaluate(block)

    def columns_of(self, block: Block, name: Text) -> Iterable[tuple[Text, Column | pa.Scalar]]:
        """Compute the columns that it makes of a block, by name: mostly one, which is called
        `name`."""
        return [(name, self.evaluate(block))]

    def added_to(self, block: Block, name: Text) -> Block:
        """Add the result to the block as a column."""
        return with_columns(block, [(name, self)])

    def get_type(self, input_schema: pa.Schema) -> pa.DataType:
        """Return the type of the result for blocks of this schema."""
        return self.evaluate(input_schema.empty_table()).type

    def nullable(self, input_schema: pa.Schema) -> bool:
        """Return whether the result may have gaps.

        Args:
            input_schema: That of the blocks.
        """
        from skate.data._expressions.result_types import is_nullable

        return is_nullable(self, input_schema)

    def to_field(self, input_schema: pa.Schema) -> pa.Field | None:
        """Return the name and the type of the result, and whether it may have gaps.

        Args:
            input_schema: That of the blocks.

        Returns:
            None where that shows with the rows only.
        """
        from skate.data._expressions.result_types import field_of

        return field_of(self, input_schema)

    def is_idempotent(self) -> bool:
        """Return whether it gives the same for the same rows, wherever they stand."""
        return self.repeatable and not self.counts_rows

    def expand_projection(self, input_schema: pa.Schema | None) -> Sequence[Expr]:
        """Return the expressions of the columns that it stands for.

        Args:
            input_schema: That of the blocks; None if it is not known.

        Returns:
            Itself; several for `unnest`.
        """
        return [self]

    # -- operators ------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.ADD, self, as_expression(other))

    def __radd__(self, other: object) -> Expr:
        return lit(other) + self

    def __sub__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.SUB, self, as_expression(other))

    def __rsub__(self, other: object) -> Expr:
        return lit(other) - self

    def __mul__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.MUL, self, as_expression(other))

    def __rmul__(self, other: object) -> Expr:
        return lit(other) * self

    def __truediv__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.DIV, self, as_expression(other))

    def __rtruediv__(self, other: object) -> Expr:
        return lit(other) / self

    def __floordiv__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.FLOORDIV, self, as_expression(other))

    def __rfloordiv__(self, other: object) -> Expr:
        return lit(other) // self

    def __mod__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.MOD, self, as_expression(other))

    def __rmod__(self, other: object) -> Expr:
        return lit(other) % self

    def __neg__(self) -> Expr:
        return _unary("negate", self)

    def __gt__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.GT, self, as_expression(other))

    def __ge__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.GE, self, as_expression(other))

    def __lt__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.LT, self, as_expression(other))

    def __le__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.LE, self, as_expression(other))

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override]
        return BinaryExpr(Operation.EQ, self, as_expression(other))

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override]
        return BinaryExpr(Operation.NE, self, as_expression(other))

    def __and__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.AND, self, as_expression(other))

    def __or__(self, other: Any) -> Expr:
        return BinaryExpr(Operation.OR, self, as_expression(other))

    def __invert__(self) -> Expr:
        return UnaryExpr(Operation.NOT, self)

    # -- methods --------------------------------------------------------------------------------

    def is_null(self) -> Expr:
        return UnaryExpr(Operation.IS_NULL, self)

    def is_not_null(self) -> Expr:
        return UnaryExpr(Operation.IS_NOT_NULL, self)

    def is_in(self, values: Any) -> Expr:
        """Compute whether it is one of the values: a list, or `lit` of one."""
        return BinaryExpr(Operation.IN, self, _options(values))

    def not_in(self, values: Any) -> Expr:
        return BinaryExpr(Operation.NOT_IN, self, _options(values))

    def cast(self, target_type: object, *, safe: bool = True) -> Expr:
        """Cast to another type: of pyarrow, a `DataType`, or by name. `safe` refuses to lose
        digits."""
        from skate.data.datatype import DataType

        if isinstance(target_type, DataType) and target_type.is_python_type():
            raise TypeError(
                f"the Python-type-backed DataType {target_type!r} requires values to find a type "
                "of Arrow, and cast has none yet: use one that says its width, such as "
                "DataType.int64() or DataType.string()"
            )
        target = arrow_type(target_type)
        return _of_kernel(
            partial(_called_with, pc.cast, self, {"target_type": target, "safe": safe}),
            f"{self}.cast({target})",
            (self,),
            in_arrow=partial(_cast, target, safe),
            kernel="cast",
            arguments={"type": target},
        )

    def power(self, exponent: Any) -> Expr:
        other = as_expression(exponent)
        text = f"({self} ** {other})"
        evaluate = partial(_applied, pc.power, (self, other), text)
        return _of_kernel(evaluate, text, (self, other), in_arrow=pc.power)

    __pow__ = power

    def round(self, ndigits: int = 0) -> Expr:
        return _of_kernel(
            partial(_called_with, pc.round, self, {"ndigits": ndigits}),
            f"{self}.round({ndigits})",
            (self,),
            in_arrow=partial(pc.round, ndigits=ndigits),
        )

    def fill_null(self, value: object) -> Expr:
        return _of_kernel(
            partial(_called_with, filled, self, {"fill_value": value}),
            f"{self}.fill_null({value!r})",
            (self,),
        )

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"an expression has no {name!r}")
        return lambda: _unary(name, self)

    def __dir__(self) -> Iterable[Text]:
        return [*super().__dir__(), *_METHODS]

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


class ColumnExpr(Expr):
    """The column of a name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            partial(_column, name),
            f"col({name!r})",
            (),
            pc.field(name),
            kernel="column",
            arguments={"name": name},
        )
        self._alias = name


def col(name: str) -> Expr:
    """Return an expression for the column of that name."""
    return ColumnExpr(name)


def _column(name: str, block: Block) -> pa.ChunkedArray:
    if name not in block.column_names:
        raise missing_column(name, block.column_names)
    return block[name]


class LiteralExpr(Expr):
    """A value that is the same in each row."""

    def __init__(self, value: object) -> None:
        self.value = value
        try:
            scalar, arrow = pa.scalar(value), pc.scalar(value)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            raise TypeError(
                "lit takes a value that Arrow has a type for, such as an integer below 2**64, or a"
                f" list of values of one type; got {value!r}"
            ) from None
        super().__init__(
            partial(_same, scalar),
            repr(value),
            (),
            arrow,
            kernel="literal",
            arguments={"value": scalar},
        )


def _same(scalar: pa.Scalar, block: Block) -> pa.Scalar:
    return scalar


def lit(value: object) -> Expr:
    """Return an expression for the same value in each row."""
    return LiteralExpr(value)


def as_expression(value: Any) -> Expr:
    """Return the expression, or that of a value which is the same in each row."""
    return value if isinstance(value, Expr) else lit(value)


def _options(values: Any) -> Expr:
    if isinstance(values, LiteralExpr):
        return values
    if isinstance(values, Expr) or not isinstance(values, Iterable):
        raise TypeError(f"is_in takes a list of values, or lit of one; got {values!r}")
    return lit([*values])


class UnaryExpr(Expr):
    """An operation on one expression.

    Args:
        op: `Operation.NOT`, `IS_NULL` or `IS_NOT_NULL`.
        operand: The expression.
    """

    def __init__(self, op: Operation, operand: Expr) -> None:
        if op not in UNARY:
            raise ValueError(f"op takes one of {[o.name for o in UNARY]}; got {op!r}")
        self.op: Operation = Operation(op)
        self.operand = operand
        super().__init__(**_computed(self.op, operand))


class BinaryExpr(Expr):
    """An operation on two expressions.

    Args:
        op: An `Operation`, such as `Operation.ADD`.
        left: What stands before its sign.
        right: What stands behind it; for `IN` and `NOT_IN` the `lit` of a list.
    """

    def __init__(self, op: Operation, left: Expr, right: Expr) -> None:
        if op in UNARY:
            raise ValueError(f"{op!r} has one operand, not two: use UnaryExpr")
        self.op: Operation = Operation(op)
        self.left = left
        self.right = right
        if self.op is Operation.NOT_IN:
            super().__init__(**_computed(Operation.NOT, left.is_in(right)))
        elif self.op is Operation.IN:
            super().__init__(**_member(left, right))
        else:
            super().__init__(**_computed(self.op, left, right))

    def __bool__(self) -> bool:
        """Tell that both sides of `==` are the same, as `assert` and lists of expressions ask."""
        if self.op is Operation.EQ and self.left.structurally_equals(self.right):
            return True
        return super().__bool__()

    @property
    def inner_text(self) -> Text:
        is_member = self.op in (Operation.IN, Operation.NOT_IN)
        return self._text if is_member else self._text[1:-1]


class AliasExpr(Expr):
    """An expression that has been given a name.

    Args:
        expr: The expression.
        name: The name.
    """

    def __init__(self, expr: Expr, name: str) -> None:
        self.expr: Expr = expr.expr if isinstance(expr, AliasExpr) else expr
        super().__init__(
            expr._evaluate,
            expr._text,
            expr.parts,
            expr._arrow,
            in_arrow=expr._in_arrow,
            kernel=expr.kernel,
            arguments=expr.arguments,
            runs_python=expr.runs_python,
            counts_rows=expr.counts_rows,
            repeatable=expr.repeatable,
        )
        self._alias = name

    def structurally_equals(self, other: Any) -> bool:
        return super().structurally_equals(other) and self.expr.structurally_equals(other.expr)

    def columns_of(self, block: Block, name: Text) -> Iterable[tuple[Text, Column | pa.Scalar]]:
        return self.expr.columns_of(block, name)


def is_nan(value: Expr) -> Expr:
    """Compute whether a value is NaN, "not a number"."""
    return _unary("is_nan", value, lambda a: a.is_nan())


def _unary(kernel: str, a: Expr, arrow: Callable[[Any], Any] | None = None) -> Expr:
    function = getattr(pc, kernel)
    pushed = arrow(a._arrow) if arrow is not None and a._arrow is not None else None
    text = f"{kernel}({a})"
    evaluate = partial(_applied, function, (a,), text)
    return _of_kernel(evaluate, text, (a,), pushed, in_arrow=function, kernel=kernel)


def _of_kernel(*made_of: Any, **known: Any) -> Expr:
    """Make an expression that calls one of Arrow's functions; of a class that stands on this
    one."""
    from skate.data._expressions.functions import KernelExpr

    return KernelExpr(*made_of, **known)


def _computed(op: Operation, *operands: Expr) -> dict[str, Any]:
    """Collect what an `Expr` is made of that does this to the operands."""
    how = HOW[op]
    text = how.written.format(*operands)
    in_arrow = None if _joins_text(op, operands) else how.pushed
    inner = [operand._arrow for operand in operands]
    pushed = None
    if in_arrow is not None and all(part is not None for part in inner):
        pushed = in_arrow(*inner)
    return {
        "evaluate": partial(_applied, how.function, operands, text),
        "text": text,
        "parts": operands,
        "arrow": pushed,
        "in_arrow": in_arrow,
        "kernel": how.kernel,
    }


def _member(left: Expr, right: Expr) -> dict[str, Any]:
    """Collect what an `Expr` is made of that looks for values in a list."""
    if not isinstance(right, LiteralExpr) or not isinstance(right.value, (list, tuple)):
        raise TypeError(f"is_in takes a list of values, or lit of one; got {right!r}")
    made = _computed(Operation.IN, left, right)
    options = right.arguments["value"].values
    in_arrow = partial(_is_in, [*right.value], has_zero(options))
    pushed = None if left._arrow is None else in_arrow(left._arrow)
    arguments = {"values": options}
    arrow = {"arrow": pushed, "in_arrow": in_arrow}
    return {**made, **arrow, "parts": (left,), "arguments": arguments}


def _is_in(values: list[Any], zeros: bool, a: pc.Expression) -> pc.Expression:
    found = a.isin(values)
    return found | ((a == 0) & a.is_valid()) if zeros else found


def _cast(target: pa.DataType, safe: bool, a: pc.Expression) -> pc.Expression:
    return a.cast(target, safe)


def _joins_text(op: Operation, operands: Sequence[Expr]) -> bool:
    """Return whether texts would be joined, which Arrow's `+` in the reader of a file does not
    do."""
    texts = (isinstance(o, LiteralExpr) and isinstance(o.value, str) for o in operands)
    return op is Operation.ADD and any(texts)


def _called_with(
    function: Callable[..., Any], a: Expr, options: Mapping[str, object], block: Block
) -> Column | pa.Scalar:
    return function(a.evaluate(block), **options)


def _applied(
    function: Callable[..., Any], parts: Sequence[Expr], text: str, block: Block
) -> Column | pa.Scalar:
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
