"""Expressions as text: `ds.filter(expr="x > 3 and name in ('a', 'b')")`."""

from __future__ import annotations

import ast
import operator as o
from collections.abc import Callable
from typing import Any

from skate.data._expressions.expression import Expr, col, is_nan, lit


def parse(text: str) -> Expr:
    """Parse an expression from text: column names, numbers, quoted text, arithmetic, comparisons,
    `and`, `or`, `not`, `in`, and the functions of `_FUNCTIONS`."""
    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(
            f"Invalid syntax in the expression {text!r}: {error.msg}; write it as in Python, with "
            "names of columns: \"x > 3 and y == 'a'\""
        ) from None
    return _parsed(body, text)


def _parsed(node: object, text: str) -> Expr:
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
    if isinstance(node, ast.UnaryOp) and _is_negative_number(node):
        return lit(ast.literal_eval(node))  # files can be filtered by it
    if isinstance(node, ast.UnaryOp):
        inner = _parsed(node.operand, text)
        return -inner if isinstance(node.op, ast.USub) else ~inner
    if isinstance(node, ast.BinOp) and type(node.op).__name__ in _OPERATORS:
        combine = _OPERATORS[type(node.op).__name__]
        return combine(_parsed(node.left, text), _parsed(node.right, text))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, text)
    if isinstance(node, ast.Call):
        return _applied(node, text)
    raise ValueError(f"cannot understand the expression {text!r}")


def _is_negative_number(node: ast.UnaryOp) -> bool:
    number = isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
    return number and isinstance(node.op, ast.USub)


def _applied(node: ast.Call, text: str) -> Expr:
    name, count = ast.unparse(node.func), len(node.args)
    if name not in _FUNCTIONS:
        raise ValueError(
            f"Unsupported function {name!r} in the expression {text!r}; there are "
            f"{', '.join(_FUNCTIONS)}"
        )
    if node.keywords or count != (2 if name == "is_in" else 1):
        wanted = "a column and a list" if name == "is_in" else "one column"
        raise ValueError(f"{name} takes {wanted}; got {ast.unparse(node)!r}")
    rest = [ast.literal_eval(argument) for argument in node.args[1:]]
    return _FUNCTIONS[name](_parsed(node.args[0], text), *rest)


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "is_null": Expr.is_null,
    "is_valid": Expr.is_not_null,
    "is_nan": is_nan,
    "is_in": Expr.is_in,
    "abs": o.methodcaller("abs"),
}


def _compared(node: Any, text: str) -> Expr:
    left, operator, right = _parsed(node.left, text), node.ops[0], node.comparators[0]
    if isinstance(operator, (ast.In, ast.NotIn)):
        values = ast.literal_eval(right)
        return left.is_in(values) if isinstance(operator, ast.In) else left.not_in(values)
    combine = _OPERATORS.get(type(operator).__name__)
    if combine is None:
        raise ValueError(
            f"Unsupported comparison operator in {ast.unparse(node)!r}: an expression has ==, !=, "
            "<, <=, >, >=, in and not in; is_null(x) and is_valid(x) ask for missing values"
        )
    return combine(left, _parsed(right, text))


_OPERATORS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": o.add, "Sub": o.sub, "Mult": o.mul, "Div": o.truediv, "FloorDiv": o.floordiv,
    "Mod": o.mod, "Pow": o.pow, "BitAnd": o.and_, "BitOr": o.or_,
    # As methods: Python itself would ask a literal on the right first, and turn them around.
    "Gt": Expr.__gt__, "GtE": Expr.__ge__, "Lt": Expr.__lt__, "LtE": Expr.__le__,
    "Eq": Expr.__eq__, "NotEq": Expr.__ne__,
}  # fmt: skip
