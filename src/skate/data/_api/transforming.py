"""Dataset: functions on rows and batches, and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, TypeAlias, cast

from skate._core.plain_errors import methods_failing_plainly
from skate._core.signature import showing_keywords
from skate.data._api.base import Core, check_least
from skate.data._api.step_keywords import STEP, StepKeywords
from skate.data._arrow.blocks import Row, check_format, check_unique
from skate.data._execution.batching import check_batch_size
from skate.data._execution.bundles import Bundle, bundle_of
from skate.data._execution.exchange import Sample
from skate.data._execution.partitions import Streams
from skate.data._execution.transforms import (
    DropColumns,
    FilterRows,
    FlatMapRows,
    MapBatches,
    MapRows,
    RenameColumns,
    SelectColumns,
)
from skate.data._execution.udf import UserFunction
from skate.data._expressions.expression import AliasExpr, Expr
from skate.data._expressions.generated import RowPosition, StarExpr, UnnestExpr, at
from skate.data._expressions.steps import FilterStep, WithColumns
from skate.data._expressions.text import parse
from skate.data._plan import nodes as plan
from skate.data._plan.seeds import RandomSeedConfig, numpy_seed
from skate.data._plan.static_schema import static_schema

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.data._settings.context import DataContext
    from skate.data.dataset import Dataset

    # Called with a row or batch; or with `fn_args` too, or a class whose instances are called.
    RowFunction: TypeAlias = (
        Callable[[Row], Any] | Callable[Concatenate[Row, ...], Any] | type[Any]
    )
    BatchFunction: TypeAlias = (
        Callable[[Any], Any] | Callable[Concatenate[Any, ...], Any] | type[Any]
    )

Arguments = Iterable[Any] | None
Keywords = dict[str, Any] | None


@methods_failing_plainly
class Transforming(Core):
    """Lazy: nothing runs until rows are asked for."""

    @showing_keywords(STEP)
    def map(
        self,
        fn: RowFunction,
        *,
        compute: object = None,
        fn_args: Arguments = None,
        fn_kwargs: Keywords = None,
        fn_constructor_args: Arguments = None,
        fn_constructor_kwargs: Keywords = None,
        concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Call a function with each row; it returns a row.

        Args:
            fn: The function, or a class whose instances are called, in actors.
            compute: A `TaskPoolStrategy` or `ActorPoolStrategy`: where it runs; by default in
                tasks, and a class in actors.
            fn_args: More positional arguments of the function.
            fn_kwargs: More keyword arguments of the function.
            fn_constructor_args: Positional arguments of the class.
            fn_constructor_kwargs: Keyword arguments of the class.
            concurrency: How many tasks or actors at a time; of actors also (smallest, largest).
            **remote_args: Options of tasks and actors, such as `num_cpus` and `num_gpus`.

        Example:
            >>> skate.data.range(3).map(lambda row: {"x": row["id"] * 2}).take_all()
            [{'x': 0}, {'x': 2}, {'x': 4}]
        """
        udf = UserFunction(
            fn, fn_args or (), fn_kwargs, fn_constructor_args or (), fn_constructor_kwargs
        )
        step = MapRows(udf, f"Map({udf.name})", self._context.has_plain_rows())
        return self._mapped(
            step, step.name, udf, compute, concurrency, remote_args, keeps_rows=True
        )

    @showing_keywords(STEP)
    def map_batches(
        self,
        fn: BatchFunction,
        *,
        batch_size: int | str | None = None,
        compute: object = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        fn_args: Arguments = None,
        fn_kwargs: Keywords = None,
        fn_constructor_args: Arguments = None,
        fn_constructor_kwargs: Keywords = None,
        concurrency: object = None,
        udf_modifying_row_count: bool = True,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Call a function with batches; it returns a batch, or yields several.

        Args:
            fn: The function, or a class whose instances are called, in actors. What it is given
                are views on shared memory. A list that it returns is a batch of plain values, but
                for programs that `import ray`.
            batch_size: Rows of a batch; None makes a batch of each block. Functions with
                `num_gpus` need one, since the memory of a GPU rarely holds a block and what a
                model makes of it.
            compute: A `TaskPoolStrategy` or `ActorPoolStrategy`: where it runs; by default in
                tasks, and a class in actors.
            batch_format: "numpy" (the default: a dictionary of arrays), "pandas", "pyarrow" or
                "polars".
            zero_copy_batch: Whether batches may be read-only; if not, they are copies that can be
                changed in place.
            fn_args: More positional arguments of the function.
            fn_kwargs: More keyword arguments of the function.
            fn_constructor_args: Positional arguments of the class.
            fn_constructor_kwargs: Keyword arguments of the class.
            concurrency: How many tasks or actors at a time; of actors also (smallest, largest).
            udf_modifying_row_count: Whether it may return more or fewer rows than it got; if not,
                a limit after it is applied before it.
            **remote_args: Options of tasks and actors, such as `num_cpus` and `num_gpus`.

        Raises:
            ValueError: If there are GPUs and no `batch_size`, or there is no such format.

        Example:
            >>> ds = skate.data.range(3).map_batches(lambda batch: {"x": batch["id"] + 1})
            >>> ds.take_all()
            [{'x': 1}, {'x': 2}, {'x': 3}]
        """
        if batch_size in (None, "auto") and remote_args.get("num_gpus"):
            raise ValueError(
                f"map_batches with num_gpus={remote_args['num_gpus']} needs a `batch_size`: "
                "without one a batch is a whole block, which the memory of a GPU may not hold"
            )
        if isinstance(batch_size, str):
            if batch_size not in ("default", "auto"):
                raise ValueError(f"batch_size takes a number or None; got {batch_size!r}")
            batch_size = None
        check_batch_size(batch_size)
        udf = UserFunction(
            fn, fn_args or (), fn_kwargs, fn_constructor_args or (), fn_constructor_kwargs
        )
        own = getattr(fn, "operator_name", None)
        label = own if isinstance(own, str) else f"MapBatches({udf.name})"
        step = MapBatches(
            udf, label, batch_size, check_format(batch_format), zero_copy_batch,
            self._context.has_plain_rows(),
        )  # fmt: skip
        return self._mapped(
            step, label, udf, compute, concurrency, remote_args,
            min_rows=batch_size or 0, keeps_rows=not udf_modifying_row_count,
        )  # fmt: skip

    @showing_keywords(STEP)
    def flat_map(
        self,
        fn: RowFunction,
        *,
        compute: object = None,
        fn_args: Arguments = None,
        fn_kwargs: Keywords = None,
        fn_constructor_args: Arguments = None,
        fn_constructor_kwargs: Keywords = None,
        concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Call a function with each row; it returns or yields any number of rows.

        Args:
            fn: The function, or a class whose instances are called, in actors.
            compute: As in `map`.
            fn_args: As in `map`.
            fn_kwargs: As in `map`.
            fn_constructor_args: As in `map`.
            fn_constructor_kwargs: As in `map`.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Example:
            >>> skate.data.range(3).flat_map(lambda row: [row] * row["id"]).take_all()
            [{'id': 1}, {'id': 2}, {'id': 2}]
        """
        udf = UserFunction(
            fn, fn_args or (), fn_kwargs, fn_constructor_args or (), fn_constructor_kwargs
        )
        step = FlatMapRows(udf, f"FlatMap({udf.name})", self._context.has_plain_rows())
        return self._mapped(step, step.name, udf, compute, concurrency, remote_args)

    @showing_keywords(STEP)
    def filter(
        self,
        fn: RowFunction | None = None,
        expr: str | Expr | None = None,
        *,
        compute: object = None,
        fn_args: Arguments = None,
        fn_kwargs: Keywords = None,
        fn_constructor_args: Arguments = None,
        fn_constructor_kwargs: Keywords = None,
        concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Keep the rows for which something is true.

        Args:
            fn: A function of a row, or a class whose instances are called, in actors.
            expr: An expression instead, such as `"x > 3"` or `col("x") > 3`, which Arrow evaluates
                without Python code per row.
            compute: As in `map`.
            fn_args: As in `map`.
            fn_kwargs: As in `map`.
            fn_constructor_args: As in `map`.
            fn_constructor_kwargs: As in `map`.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Raises:
            ValueError: If there is neither a function nor an expression, or both.

        Example:
            >>> skate.data.range(5).filter(expr="id > 2").take_all()
            [{'id': 3}, {'id': 4}]
        """
        if isinstance(fn, Expr):
            fn, expr = None, fn
        if (fn is None) == (expr is None):
            raise ValueError("filter takes a function or expr, one of them")
        if expr is not None:
            if fn_args or fn_kwargs or fn_constructor_args or fn_constructor_kwargs:
                raise ValueError(
                    "filter takes fn_args, fn_kwargs, fn_constructor_args and "
                    "fn_constructor_kwargs with a function; an expression takes no arguments"
                )
            if not isinstance(expr, (str, Expr)):
                raise TypeError(
                    "filter takes an expression, as text or made of col(...), for expr; got "
                    f"{type(expr).__name__}: {expr!r}"
                )
            expression = parse(expr) if isinstance(expr, str) else expr
            return self._evaluated(
                FilterStep(expression), f"Filter({expression.inner_text})", [expression],
                compute, concurrency, remote_args,
            )  # fmt: skip
        udf = UserFunction(
            fn, fn_args or (), fn_kwargs, fn_constructor_args or (), fn_constructor_kwargs
        )
        step = FilterRows(udf, f"Filter({udf.name})")
        return self._mapped(step, step.name, udf, compute, concurrency, remote_args)

    # -- columns --------------------------------------------------------------------------------

    @showing_keywords(STEP)
    def add_column(
        self,
        col: str,
        fn: Callable[[object], object],
        *,
        batch_format: str | None = "pandas",
        compute: object = None,
        concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Add a column that a function computes from batches.

        Args:
            col: The name of the column.
            fn: A function of a batch that returns the values.
            batch_format: "pandas" (the default), "numpy" or "pyarrow".
            compute: As in `map`.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Raises:
            ValueError: If `fn` is no function.

        Example:
            >>> skate.data.range(2).add_column("x", lambda frame: frame["id"] + 1).take_all()
            [{'id': 0, 'x': 1}, {'id': 1, 'x': 2}]
        """
        if not callable(fn):
            raise ValueError(f"add_column takes a function of batches; got {fn!r}")
        return self.map_batches(
            AddColumn(col, fn),
            batch_size="default",
            batch_format=check_format(batch_format),
            compute=compute,
            concurrency=concurrency,
            zero_copy_batch=False,
            **remote_args,
        )

    @showing_keywords(STEP)
    def drop_columns(
        self, cols: str | Sequence[str], *, compute: object = None, concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:  # fmt: skip
        """Leave out columns.

        Args:
            cols: A column, or several.
            compute: As in `map`.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Raises:
            ValueError: If there is no such column, as far as that is known now.

        Example:
            >>> skate.data.from_items([{"a": 1, "b": 2}]).drop_columns("b").take_all()
            [{'a': 1}]
        """
        names = _names("drop_columns", cols)
        self._check_known(names)
        label = f"DropColumns({list(names)})"
        return self._mapped(
            DropColumns(names), label, None, compute, concurrency, remote_args, keeps_rows=True
        )

    @showing_keywords(STEP)
    def select_columns(
        self, cols: str | Sequence[str], *, compute: object = None, concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:  # fmt: skip
        """Keep some columns, in this order; files of columns are not read for the others.

        Args:
            cols: A column, or several.
            compute: As in `map`.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Example:
            >>> skate.data.from_items([{"a": 1, "b": 2}]).select_columns(["b"]).take_all()
            [{'b': 2}]
        """
        names = _names("select_columns", cols)
        label = f"SelectColumns({list(names)})"
        return self._mapped(
            SelectColumns(names), label, None, compute, concurrency, remote_args, keeps_rows=True
        )

    @showing_keywords(STEP)
    def rename_columns(
        self, names: Mapping[str, str] | Sequence[str], *, concurrency: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:  # fmt: skip
        """Give columns other names.

        Args:
            names: A dictionary of changes, or one name per column.
            concurrency: As in `map`.
            **remote_args: As in `map`.

        Raises:
            ValueError: If there are not as many names as columns.

        Example:
            >>> skate.data.range(1).rename_columns({"id": "number"}).take_all()
            [{'number': 0}]
        """
        step = Renamed(_new_names(names))
        known = self._with(self._plan).columns(fetch_if_missing=False)
        if known is not None and not isinstance(names, Mapping):
            step._new_names(known)
        return self._mapped(
            step, "RenameColumns", None, None, concurrency, remote_args, keeps_rows=True
        )

    @showing_keywords(STEP)
    def with_column(
        self,
        column_name: str,
        expr: Expr,
        *,
        compute: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Add or replace a column by an expression.

        Args:
            column_name: The name of the column.
            expr: The expression, such as `col("x") * 2`.
            compute: As in `map`.
            **remote_args: As in `map`.

        Example:
            >>> from skate.data.expressions import col
            >>> skate.data.range(2).with_column("double", col("id") * 2).take_all()
            [{'id': 0, 'double': 0}, {'id': 1, 'double': 2}]
        """
        return self._with_columns({column_name: expr}, compute, remote_args)

    @showing_keywords(STEP)
    def with_columns(
        self,
        exprs: Mapping[str, Expr] | Expr | Sequence[Expr] | None = None,
        *more_exprs: Mapping[str, Expr] | Expr,
        compute: object = None,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Add or replace columns by expressions.

        Args:
            exprs: Expressions by the names of columns; or one or several that `alias` has named;
                or `unnest` of one that makes dictionaries.
            *more_exprs: More of these.
            compute: As in `map`.
            **remote_args: As in `map`.

        Raises:
            TypeError: If an expression has no name of its own.

        Example:
            >>> from skate.data.expressions import col
            >>> skate.data.range(1).with_columns({"a": col("id") + 1, "b": col("id")}).take_all()
            [{'id': 0, 'a': 1, 'b': 0}]
        """
        given = more_exprs if exprs is None else (exprs, *more_exprs)
        columns = {name: expr for each in given for name, expr in _by_name(each)}
        if not columns:
            return cast("Dataset", self)
        return self._with_columns(columns, compute, remote_args)

    def _with_columns(
        self, exprs: Mapping[str, Expr], compute: object, remote_args: Mapping[str, object]
    ) -> Dataset:
        for name, expression in exprs.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a column is text; got {name!r}")
            if not isinstance(expression, Expr):
                raise TypeError(
                    f"column {name!r} takes an expression, such as col('x') * 2; "
                    f"got {expression!r}"
                )
            if isinstance(expression, UnnestExpr) and (schema := static_schema(self._plan)):
                expression.expand_projection(schema)  # says what is wrong before anything runs
        label = f"WithColumns({', '.join(exprs)})"
        step = WithColumns(tuple(exprs.items()))
        return self._evaluated(
            step, label, exprs.values(), compute, None, remote_args, keeps_rows=True
        )

    def _evaluated(
        self,
        step: FilterStep | WithColumns,
        label: str,
        expressions: Iterable[Expr],
        compute: object,
        concurrency: object,
        remote_args: Mapping[str, object],
        keeps_rows: bool = False,
    ) -> Dataset:
        """Add a step made of expressions. Those that count rows need the blocks one after another,
        and users' functions processes of their own."""
        expressions = list(expressions)
        if any(expression.counts_rows for expression in expressions):
            return self._with(Counted((self._plan,), step, label))
        if compute is None and any(expression.runs_python for expression in expressions):
            compute = "tasks"
        return self._mapped(
            step, label, None, compute, concurrency, remote_args, keeps_rows=keeps_rows
        )

    # -- fewer rows -----------------------------------------------------------------------------

    def limit(self, limit: int) -> Dataset:
        """Keep the first rows; what is not needed for them is not computed.

        Args:
            limit: How many at the most.

        Returns:
            A dataset, which is computed when it is used.

        Example:
            >>> skate.data.range(100).limit(3).count()
            3
        """
        check_least("limit", limit, 0)
        return self._with(plan.Limit(self._plan, limit))

    def random_sample(
        self, fraction: float, *, seed: int | RandomSeedConfig | None = None
    ) -> Dataset:
        """Keep each row with a probability.

        Args:
            fraction: The probability, from 0 to 1.
            seed: Makes the choice the same every time; None makes it another one every time.

        Returns:
            A dataset, which is computed when it is used.

        Raises:
            ValueError: If `fraction` is out of range, or there are no rows.

        Example:
            >>> skate.data.range(100).random_sample(1.0).count()
            100
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction must be between 0 and 1; got {fraction}")
        if self._plan.initial_num_blocks() == 0:
            raise ValueError("random_sample: Cannot sample from an empty Dataset")
        return self._with(Sample((self._plan,), fraction, numpy_seed(seed)))


@dataclass
class Executions:
    """How many there have been; the datasets that share a step share it."""

    number: int = 0


@dataclass(frozen=True, eq=False)
class Counted(plan.Exchange):
    """A step of expressions that need to know how many rows came before."""

    step: FilterStep | WithColumns | None = None
    label: str = ""
    executions: Executions = field(default_factory=Executions)

    @property
    def name(self) -> str:
        return self.label

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        self.executions.number += 1
        rows, execution = 0, self.executions.number
        for bundle in streams[0]:
            assert self.step is not None
            with at(RowPosition(rows, execution)):
                block = next(self.step(iter([bundle.get()])))
            rows += bundle.rows
            yield bundle_of(block)


class Renamed(RenameColumns):
    """New names, none of which a column has already."""

    def _new_names(self, old: list[str]) -> list[str]:
        new = super()._new_names(old)
        check_unique(new)
        return new


class AddColumn:
    """A function of batches that adds one column."""

    def __init__(self, name: str, fn: Callable[[Any], Any]) -> None:
        self.column = name
        self.fn = fn
        self.__name__ = f"add_column {name}"

    def __call__(self, batch: Any) -> Any:
        value = self.fn(batch)
        if isinstance(batch, dict):
            return {**batch, self.column: value}
        if hasattr(batch, "assign"):
            return batch.assign(**{self.column: value})
        if hasattr(batch, "append_column"):
            from skate.data._expressions.steps import set_column

            return set_column(batch, self.column, value)
        return batch.with_columns(value.alias(self.column))


def _names(method: str, cols: object, argument: str = "cols") -> tuple[str, ...]:
    if not isinstance(cols, (str, Iterable)):
        raise TypeError(
            f"{method} requires {argument!r} to be a string or a list of strings; got {cols!r}"
        )
    names = (cols,) if isinstance(cols, str) else tuple(cols)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(
                f"{method} requires all elements of {argument!r} to be strings; got {name!r}"
            )
    if len(set(names)) < len(names):
        raise ValueError(
            f"{method} expects unique column names; got {list(names)}, expected unique column "
            f"names such as {list(dict.fromkeys(names))}"
        )
    return names


def _new_names(names: Mapping[str, str] | Sequence[str]) -> Any:
    """Check the names, and return pairs of old and new ones, or the new ones alone."""
    if isinstance(names, str):
        raise TypeError(
            "rename_columns takes a dictionary of old and new names, or a list of one name per "
            f"column; got {names!r}"
        )
    if isinstance(names, Mapping):
        _names("rename_columns", list(names), "names")
    given = list(names.values()) if isinstance(names, Mapping) else names
    new = _names("rename_columns", given, "names")
    if not new:
        raise ValueError("rename_columns requires at least one name")
    return tuple(names.items()) if isinstance(names, Mapping) else new


def _by_name(given: Any) -> Iterable[tuple[str, Expr]]:
    """Return the expressions of one argument of `with_columns` by the names of the columns they
    make."""
    if isinstance(given, Mapping):
        return given.items()
    listed = [given] if isinstance(given, Expr) else list(given)
    for expression in listed:
        if not isinstance(expression, (AliasExpr, StarExpr, UnnestExpr)):
            raise TypeError(
                "with_columns takes mappings from column name to expression, such as "
                "{'y': col('x') * 2}, expressions with a name, such as (col('x') * 2).alias('y'), "
                f"and unnest(...); got {expression!r}"
            )
    return [(str(expression.name), expression) for expression in listed]
