"""Functions of users as expressions: `@udf()`, and then `f(col("x"))`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from skate.data._arrow.blocks import Block
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_of_array, to_array
from skate.data._arrow.type_kinds import arrow_type
from skate.data._execution.udf import UserFunction
from skate.data._expressions.expression import Expr, as_expression


class UDFExpr(Expr):
    """A function's result for columns.

    Args:
        fn: The function. It is given an Arrow column for each argument.
        args: Its arguments: expressions, or values that are the same in each row.
        kwargs: Further arguments by name.
        data_type: The type of its result, if that is to be converted.
    """

    def __init__(
        self,
        fn: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        data_type: Any = None,
    ) -> None:
        self._function = fn if isinstance(fn, UserFunction) else UserFunction(fn)
        self.args: list[Expr] = [as_expression(argument) for argument in args]
        self.kwargs: dict[str, Expr] = {
            name: as_expression(value) for name, value in (kwargs or {}).items()
        }
        self._type = arrow_type(data_type)
        shown = [*map(repr, self.args), *(f"{n}={e!r}" for n, e in self.kwargs.items())]
        super().__init__(
            self._call,
            f"{self._function.name}({', '.join(shown)})",
            [*self.args, *self.kwargs.values()],
            arguments={"type": self._type},
            runs_python=True,
        )

    @property
    def fn(self) -> Callable[..., Any]:
        """The user's function, or class."""
        function: Callable[..., Any] = self._function.fn
        return function

    def structurally_equals(self, other: Any) -> bool:
        return super().structurally_equals(other) and _made_of(self) == _made_of(other)

    def _call(self, block: Block) -> Any:
        result = self._function.load()(
            *(e.evaluate(block) for e in self.args),
            **{name: e.evaluate(block) for name, e in self.kwargs.items()},
        )
        if not isinstance(result, (pa.Array, pa.ChunkedArray)):
            result = column_of_array(_array_from(result, self._function.name))
        kind = self._type
        return result if kind is None or result.type == kind else pc.cast(result, kind)


class KernelExpr(UDFExpr):
    """One of Arrow's functions on columns, such as `col("x").ceil()`: there is no user's code in
    it, so that it is evaluated as any other expression is.

    Args:
        evaluate: What gives the column for a block.
        text: How it is printed.
        parts: The expressions that it is computed from.
        **known: As in `Expr`.
    """

    def __init__(
        self,
        evaluate: Callable[[Block], Any],
        text: str,
        parts: Sequence[Expr],
        arrow: pc.Expression | None = None,
        **known: Any,
    ) -> None:
        self.args: list[Expr] = [*parts]
        self.kwargs: dict[str, Expr] = {}
        Expr.__init__(self, evaluate, text, parts, arrow, **known)

    @property
    def fn(self) -> Callable[..., Any]:
        """What gives the column for a block."""
        return self._evaluate

    def structurally_equals(self, other: Any) -> bool:
        return Expr.structurally_equals(self, other)


def _made_of(expression: UDFExpr) -> tuple[Any, ...]:
    function = expression._function
    return (function.fn, function.constructor_args, function.constructor_kwargs)


def _array_from(result: Any, name: str) -> Any:
    if not hasattr(result, "__array__"):
        raise TypeError(
            f"{name} returned invalid type {type(result).__name__}. Expected type: a column with "
            "one entry per row, as pyarrow.Array, numpy.ndarray or pandas.Series"
        )
    return to_array(result)


def udf(return_dtype: Any = None) -> Callable[[Any], Callable[..., Any]]:
    """Make an expression of a function of Arrow columns: `@udf()` and then `f(col("x"))`. A class
    is made once where it is used: `f = Scale(3)`, and then `f(col("x"))`."""
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
        return UDFExpr(function, arguments, keywords, kind)

    return call
