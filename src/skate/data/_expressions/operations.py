"""What expressions do to their operands: by name, by sign, and by Arrow's kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pyarrow as pa

from skate.data._arrow.compute import pc
from skate.data._expressions.arithmetic import floor_quotient, ratio, remainder, sum_of


class Operation(str, Enum):
    """Names what a `BinaryExpr` or a `UnaryExpr` does."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


class How(NamedTuple):
    """How an operation is computed.

    `written` makes its text of those of the operands. `kernel` is Arrow's function for it, and its
    name for other engines, "" if none is to know; `own` is ours where Arrow's is another. `pushed`
    does the same to pyarrow's expressions, which the readers of files evaluate.
    """

    written: str
    kernel: str
    pushed: Callable[..., Any] | None = None
    own: Callable[..., Any] | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """What is called with the operands."""
        found: Callable[..., Any] = self.own or getattr(pc, self.kernel)
        return found


def _is_in(values: Any, options: Any) -> Any:
    listed = options.values
    if pa.types.is_dictionary(values.type) and pa.types.is_floating(values.type.value_type):
        values = values.cast(values.type.value_type)
    if pa.types.is_null(listed.type):  # none at all, which Arrow takes for a few types only
        listed = listed.cast(values.type)
    found = pc.is_in(values, value_set=listed)
    if any(map(pa.types.is_floating, (values.type, listed.type))) and has_zero(listed):
        return pc.or_(found, pc.fill_null(pc.equal(values, 0), False))
    return found


def has_zero(listed: pa.Array) -> bool:
    """Tell whether 0 is among numbers. Arrow looks for values by their bits, to which 0.0 and -0.0
    differ, and takes the column of a file for -0.0 where all of it is 0.0."""
    numbers = pa.types.is_integer(listed.type) or pa.types.is_floating(listed.type)
    return numbers and bool(pc.any(pc.equal(listed, 0)).as_py())


def _divided(a: Any, b: Any) -> Any:
    return pc.divide(a, b)


HOW: dict[Operation, How] = {
    Operation.ADD: How("({} + {})", "add", operator.add, sum_of),
    Operation.SUB: How("({} - {})", "subtract", operator.sub),
    Operation.MUL: How("({} * {})", "multiply", operator.mul),
    Operation.DIV: How("({} / {})", "divide", _divided, ratio),
    Operation.FLOORDIV: How("({} // {})", "", None, floor_quotient),
    Operation.MOD: How("({} % {})", "", None, remainder),
    Operation.GT: How("({} > {})", "greater", operator.gt),
    Operation.GE: How("({} >= {})", "greater_equal", operator.ge),
    Operation.LT: How("({} < {})", "less", operator.lt),
    Operation.LE: How("({} <= {})", "less_equal", operator.le),
    Operation.EQ: How("({} == {})", "equal", operator.eq),
    Operation.NE: How("({} != {})", "not_equal", operator.ne),
    Operation.AND: How("({} & {})", "and_kleene", operator.and_),
    Operation.OR: How("({} | {})", "or_kleene", operator.or_),
    Operation.IN: How("{}.is_in({})", "is_in", None, _is_in),
    Operation.NOT: How("invert({})", "invert", operator.invert),
    Operation.IS_NULL: How("is_null({})", "is_null", lambda a: a.is_null()),
    Operation.IS_NOT_NULL: How("is_valid({})", "is_valid", lambda a: a.is_valid()),
}
UNARY = (Operation.NOT, Operation.IS_NULL, Operation.IS_NOT_NULL)
