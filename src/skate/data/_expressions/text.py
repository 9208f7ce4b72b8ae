"""Expressions as text: `ds.filter(expr="x > 3 and name in ('a', 'b')")`."""

from __future__ import annotations

import ast
import operator as o
from collections.abc import Callable
from typing import Any

from skate.data._expressions.expression import Expr, col, lit


def parse(text: str) -> Expr:
    """An expression from text: column names, numbers, quoted text, arithmetic, comparisons,
    `and`, `or`, `not`, `in`."""
    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"Invalid syntax in the expression {text!r}: {error.msg}") from None
    return _parsed(body, text)


def _parsed(node: Any, text: str) -> Expr:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return col(ast.unparse(node))  # `sepal.length` is the name of a column
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
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _FUNCTIONS:
        return getattr(_parsed(node.args[0], text), _FUNCTIONS[node.func.id])()  # type: ignore[no-any-return, attr-defined]
    raise ValueError(f"cannot understand the expression {text!r}")


_FUNCTIONS = {"is_null": "is_null", "is_valid": "is_not_null", "abs": "abs"}


def _compared(node: Any, text: str) -> Expr:
    left, operator, right = _parsed(node.left, text), node.ops[0], node.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        values = ast.literal_eval(right)
        return left.is_in(values) if isinstance(operator, ast.In) else left.not_in(values)
    combine = _OPERATORS[type(operator).__name__]
    return combine(left, _parsed(right, text))  # type: ignore[no-any-return]


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": o.add, "Sub": o.sub, "Mult": o.mul, "Div": o.truediv, "FloorDiv": o.floordiv,
    "Mod": o.mod, "Pow": o.pow, "BitAnd": o.and_, "BitOr": o.or_,
    # As methods: Python itself would ask a literal on the right first, and turn them around.
    "Gt": Expr.__gt__, "GtE": Expr.__ge__, "Lt": Expr.__lt__, "LtE": Expr.__le__,
    "Eq": Expr.__eq__, "NotEq": Expr.__ne__,
}  # fmt: skip
