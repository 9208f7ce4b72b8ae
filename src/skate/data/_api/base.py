"""What all parts of Dataset rely on: the plan, and how a new dataset is made from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import skate
from skate._core.argument_checks import whole_number, wrong_type, wrong_value
from skate._core.nearest import unknown_parameter
from skate._core.options import OPTIONS
from skate.data._api.iterating import Iterating
from skate.data._arrow.blocks import Block, check_columns
from skate.data._early_start import expect_tasks
from skate.data._execution.bundles import Bundle
from skate.data._execution.compute import ActorPoolStrategy, choose_compute
from skate.data._execution.early_exit import close_early
from skate.data._execution.executor import execute
from skate.data._execution.positions import BlockCursor, ReadPosition, draws_of, set_draws
from skate.data._execution.stats import ExecutionStats
from skate.data._execution.udf import UserFunction
from skate.data._plan import nodes as plan
from skate.data._plan.static_schema import static_schema
from skate.data._settings.context import MOST_BLOCKS, DataContext

if TYPE_CHECKING:
    from skate.data._api.exporting import RefBundle
    from skate.data.dataset import Dataset


class Core(Iterating):
    """A plan, the settings that it obeys, and the statistics of its last execution."""

    def __init__(self, node: plan.Node, context: DataContext | None = None) -> None:
        self._plan = node
        self._context = DataContext.get_current().copy() if context is None else context
        self._stats: ExecutionStats | None = None
        self._name: str | None = None
        self._id: str | None = None
        self._known_schema: pa.Schema | None = None
        self._draws: list[int] | None = None  # before the execution that began last

    @property
    def _logical_plan(self) -> plan.Node:
        """The plan under the name that it has in Ray."""
        return self._plan

    def _execute(self) -> RefBundle:
        """Execute, and tell of the blocks, as Ray's own tests ask for them."""
        return self._plan.execute()

    def _block_num_rows(self) -> list[int]:
        """Execute, and count the rows of each block."""
        return [bundle.rows for bundle in self._bundles()]

    def _with(self, node: plan.Node) -> Dataset:
        from skate.data.dataset import Dataset

        return Dataset(node, self._context)

    def _settings(self) -> DataContext:
        return self._context

    def _obeying(self, context: DataContext) -> Dataset:
        from skate.data.dataset import Dataset

        return Dataset(self._plan, context)

    def _bundles(self, node: plan.Node | None = None) -> Iterator[Bundle]:
        """Execute the plan, or another one in its place. Statistics that somebody waits for are
        filled in."""
        return execute(node or self._plan, self._context, self._new_stats())

    def _new_stats(self) -> ExecutionStats:
        """Return statistics that are empty, new ones if those of this dataset were used."""
        if self._stats is None or self._stats.stages or self._stats.wall_seconds is not None:
            self._stats = ExecutionStats()
        return self._stats

    def _blocks(self) -> Iterator[Block]:
        for bundle in self._bundles():
            yield bundle.get()

    def _blocks_ahead(self) -> Iterator[Block]:
        found = execute(self._plan, self._context, self._new_stats(), ahead=True)
        try:
            for bundle in found:
                yield bundle.get()
        finally:
            close_early(found)

    def _check_known(self, columns: Sequence[str]) -> None:
        """Raise for columns that are not there, if that can be said before anything runs."""
        try:
            schema = static_schema(self._plan)
        except Exception:
            return  # what cannot be read says so when it is
        if schema is not None and schema.names:
            check_columns(columns, schema.names)

    def _shows_kept_blocks(self) -> bool:
        return plan.shows_kept_blocks(self._plan)

    def _repeatable(self) -> bool:
        return all(plan.repeatable(node) for node in plan.walk(self._plan))

    def _keeps_order(self) -> bool:
        return all(plan.keeps_order(node) for node in plan.walk(self._plan))

    def _resumable(self) -> bool:
        return all(plan.is_seeded(node) for node in plan.walk(self._plan))

    def _cursor(self, start: Mapping[str, Any] | None = None) -> BlockCursor:
        self._draws = draws_of(self._plan)
        known = {} if start is None else start
        position = ReadPosition(known.get("task", 0), known.get("tasks", ""))
        found = execute(self._plan, self._context, self._new_stats(), position, ahead=True)
        return BlockCursor(found, start, position)

    def _about_state(self) -> dict[str, object]:
        steps = [node.name for node in plan.walk(self._plan)]
        return {"draws": self._draws or draws_of(self._plan), "plan": steps}

    def _next_epoch(self) -> dict[str, object]:
        return {"draws": draws_of(self._plan)}

    def _set_epoch(self, state: Mapping[str, Any]) -> None:
        set_draws(self._plan, state["draws"])

    def _mapped(
        self,
        step: object,
        label: str,
        udf: UserFunction | None = None,
        compute: object = None,
        concurrency: object = None,
        remote_args: Mapping[str, object] | None = None,
        min_rows: int = 0,
        keeps_rows: bool = False,
    ) -> Dataset:
        """Return the dataset after one more step; with a user's function it runs in tasks or
        actors."""
        options = _worker_options(remote_args or {})
        chosen = None
        _check_known_names(label, options)
        if udf is not None:
            chosen = choose_compute(compute, concurrency, udf.is_class, udf.name)
            expect_tasks(*self._modules_of_sources(), *getattr(step, "imports", ()))
            check_place(options, isinstance(chosen, ActorPoolStrategy))
        elif compute is not None or concurrency is not None or options:
            chosen = choose_compute(compute, concurrency, False, label)
        node = plan.Map(
            self._plan, step, label, chosen, tuple(options.items()), min_rows, keeps_rows
        )
        return self._with(node)

    def _modules_of_sources(self) -> Iterator[str]:
        """Yield what tasks import that read, and see rows as Python does."""
        for node in plan.walk(self._plan):
            if isinstance(node, plan.Read):
                yield type(node.source).__module__
                yield from node.source.imports


def blocks_wanted(parallelism: int, override_num_blocks: int | None) -> int | None:
    """Read the number of blocks from its two spellings; None: as seems best."""
    if override_num_blocks is not None:
        check_blocks("override_num_blocks", override_num_blocks)
        return override_num_blocks
    if parallelism == -1:
        return None
    check_blocks("parallelism", parallelism)
    return parallelism


def tasks_wanted(concurrency: int | None) -> int | None:
    """Check how many tasks of a reader run at a time; None: as seems best."""
    if concurrency is not None:
        check_least("concurrency", concurrency, 1)
    return concurrency


def check_blocks(name: str, number: int) -> None:
    """Raise for a number of blocks or parts that nobody can keep a list of."""
    whole_number(name, number, 1, "a whole number of at least 1")
    if number > MOST_BLOCKS:
        raise ValueError(f"{name} takes a number of at most {MOST_BLOCKS:,}; got {number}")


def check_least(name: str, number: int, least: int) -> None:
    """Raise for a number that is too small, not whole, or none."""
    allowed = f"a whole number of at least {least}"
    if not isinstance(number, Real):
        raise wrong_type(name, number, allowed)
    if number < least or not float(number).is_integer():
        raise wrong_value(name, number, allowed)


def given_options(remote_args: Mapping[str, object]) -> dict[str, Any]:
    """Return those options that have a value."""
    return {name: value for name, value in remote_args.items() if value is not None}


def _worker_options(remote_args: Mapping[str, object]) -> dict[str, object]:
    """Collect the options that are given, and those that `ray_remote_args_fn` gives. Ray calls
    that function for each worker; here all workers of a step are alike, and it is called once."""
    options = given_options(remote_args)
    make = options.pop("ray_remote_args_fn", None)
    return options if make is None else {**options, **make()}


def check_place(options: dict[str, Any], actors: bool = False) -> None:
    """Raise for options that tasks or actors do not know, where the user wrote them."""
    if not options:
        return
    if actors:
        skate.remote(_Anything).options(**options)
    else:
        skate.remote(_nothing).options(**options)


def _check_known_names(label: str, options: Iterable[str]) -> None:
    """Raise for a name that is neither an argument of the method nor an option of tasks or actors.

    Args:
        label: Of a step, as `MapBatches(fn)`, whose method has that name in small letters.
        options: What the method was given besides its arguments.
    """
    unknown = [name for name in options if name not in OPTIONS]
    if not unknown:
        return
    from skate.data.dataset import Dataset
    from skate.data.grouped_data import GroupedData

    method = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label.partition("(")[0]).lower()
    owner = Dataset if hasattr(Dataset, method) else GroupedData
    known = signature(getattr(owner, method)).parameters
    batched = signature(Dataset.map_batches).parameters
    for name in unknown:
        if name in batched and name not in known:
            raise ValueError(f"{method}() has no parameter {name!r}, but map_batches() has one")
        raise ValueError(str(unknown_parameter(method, name, known)))


def check_unused(method: str, own: Sequence[str], remote_args: dict[str, object]) -> None:
    """Raise for options that a method, which needs none, was given but tasks do not know either:
    they may be misspelt arguments of its own."""
    options = given_options(remote_args)
    for name in options:
        if name not in OPTIONS:
            raise ValueError(str(unknown_parameter(method, name, own, also=OPTIONS)))
    check_place(options)


class _Anything:
    pass


def _nothing() -> None:
    pass
