"""What expressions do to their operands: by name, by sign, and by Arrow's kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pyarrow.compute as pc

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

    `written` makes its text of those of the operands. `kernel` is its name for engines other than
    Arrow's, "" if none is to know. `pushed` does the same to pyarrow's expressions, which the
    readers of files evaluate.
    """

    written: str
    kernel: str
    compute: Callable[..., Any]
    pushed: Callable[..., Any] | None = None


def _is_in(values: Any, options: Any) -> Any:
    return pc.is_in(values, value_set=options.values)


HOW: dict[Operation, How] = {
    Operation.ADD: How("({} + {})", "add", sum_of, operator.add),
    Operation.SUB: How("({} - {})", "subtract", pc.subtract, operator.sub),
    Operation.MUL: How("({} * {})", "multiply", pc.multiply, operator.mul),
    Operation.DIV: How("({} / {})", "divide", ratio, pc.divide),
    Operation.FLOORDIV: How("({} // {})", "", floor_quotient),
    Operation.MOD: How("({} % {})", "", remainder),
    Operation.GT: How("({} > {})", "greater", pc.greater, operator.gt),
    Operation.GE: How("({} >= {})", "greater_equal", pc.greater_equal, operator.ge),
    Operation.LT: How("({} < {})", "less", pc.less, operator.lt),
    Operation.LE: How("({} <= {})", "less_equal", pc.less_equal, operator.le),
    Operation.EQ: How("({} == {})", "equal", pc.equal, operator.eq),
    Operation.NE: How("({} != {})", "not_equal", pc.not_equal, operator.ne),
    Operation.AND: How("({} & {})", "and_kleene", pc.and_kleene, operator.and_),
    Operation.OR: How("({} | {})", "or_kleene", pc.or_kleene, operator.or_),
    Operation.IN: How("{}.is_in({})", "is_in", _is_in),
    Operation.NOT: How("invert({})", "invert", pc.invert, operator.invert),
    Operation.IS_NULL: How("is_null({})", "is_null", pc.is_null, lambda a: a.is_null()),
    Operation.IS_NOT_NULL: How("is_valid({})", "is_valid", pc.is_valid, lambda a: a.is_valid()),
}
UNARY = (Operation.NOT, Operation.IS_NULL, Operation.IS_NOT_NULL)
