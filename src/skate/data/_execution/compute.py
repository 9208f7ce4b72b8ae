"""Where the user's functions run: tasks, or a pool of actors."""

from __future__ import annotations

from dataclasses import dataclass

from skate.data._settings.context import DataContext, driver_threads


@dataclass(frozen=True)
class TaskPoolStrategy:
    """Run a function of yours in tasks.

    Args:
        size: How many at a time; None is as many as there are CPUs.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        _check_positive(size=self.size)


class ActorPoolStrategy:
    """Run a class of yours in actors: a fixed number, or more when all are busy.

    Args:
        _min_size: As `min_size`, by its position, as until Ray 2.3.
        _max_size: As `max_size`, likewise.
        size: How many actors.
        min_size: How many at least, instead of `size`.
        max_size: How many at the most.
        initial_size: How many to begin with; by default `min_size`.
        max_tasks_in_flight_per_actor: How many calls wait at an actor; by default 2.
        max_concurrent_calls_per_actor: How many of them are under way in it, in threads; by
            default 1, or what the step's `max_concurrency` says.
        enable_true_multi_threading: Whether calls under way may be in your class at once, which
            suits those that wait for others; by default one is, and the others prepare batches.

    Raises:
        ValueError: If sizes contradict each other.

    Example:
        >>> class AddOne:
        ...     def __call__(self, batch):
        ...         return {"x": batch["id"] + 1}
        >>> pool = skate.data.ActorPoolStrategy(size=1)
        >>> skate.data.range(2).map_batches(AddOne, compute=pool).take_all()
        [{'x': 1}, {'x': 2}]
    """

    enable_true_multi_threading: bool

    def __init__(
        self,
        _min_size: int | None = None,
        _max_size: int | None = None,
        /,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        if (_min_size is not None and min_size is not None) or (_max_size and max_size):
            raise ValueError("give the sizes of a pool by their names, each once")
        min_size = _min_size if min_size is None else min_size
        max_size = _max_size if max_size is None else max_size
        if size is not None and (min_size is not None or max_size is not None):
            raise ValueError("give size, or min_size and max_size, not both")
        _check_positive(
            size=size,
            min_size=min_size,
            max_size=max_size,
            initial_size=initial_size,
            max_tasks_in_flight_per_actor=max_tasks_in_flight_per_actor,
            max_concurrent_calls_per_actor=max_concurrent_calls_per_actor,
        )
        self.min_size: int = size or min_size or 1
        self.max_size: int = size or max_size or max(self.min_size, initial_size or 1)
        self.initial_size: int = initial_size or self.min_size
        self.max_concurrent_calls_per_actor: int | None = max_concurrent_calls_per_actor
        self.enable_true_multi_threading = bool(enable_true_multi_threading)
        usual = DataContext.get_current().max_tasks_in_flight_per_actor
        depth = usual or max(2, max_concurrent_calls_per_actor or 1)
        self.max_tasks_in_flight_per_actor: int = max_tasks_in_flight_per_actor or depth
        if not 1 <= self.min_size <= self.initial_size <= self.max_size:
            raise ValueError(
                "sizes of a pool are 1 <= min_size <= initial_size <= max_size; got "
                f"{self.min_size}, {self.initial_size}, {self.max_size}"
            )

    def __repr__(self) -> str:
        return f"ActorPoolStrategy(min_size={self.min_size}, max_size={self.max_size})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorPoolStrategy) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


def _check_positive(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} takes a number of at least 1; got {number}")


Compute = TaskPoolStrategy | ActorPoolStrategy


def choose_compute(compute: object, concurrency: object, is_class: bool, name: str) -> Compute:
    """Choose where a function runs from `compute=` and `concurrency=` of one call."""
    if isinstance(compute, str):
        compute = _by_name(compute)
    wanted = None if concurrency is None else _of_concurrency(concurrency, is_class, name)
    if compute is not None and wanted is not None and not _same_size(compute, wanted):
        raise ValueError(
            f"{name}: compute={compute!r} and concurrency={concurrency!r} contradict each other; "
            "give one of them"
        )
    if compute is None:
        compute = wanted or _of_concurrency(None, is_class, name)
    if not isinstance(compute, (TaskPoolStrategy, ActorPoolStrategy)):
        raise TypeError(
            f"compute takes an ActorPoolStrategy or a TaskPoolStrategy; got {compute!r}"
        )
    if is_class and isinstance(compute, TaskPoolStrategy):
        raise ValueError(f"{name} is a class: it needs actors, such as ActorPoolStrategy(size=2)")
    return compute


def _same_size(one: object, other: Compute) -> bool:
    if isinstance(one, ActorPoolStrategy) and isinstance(other, ActorPoolStrategy):
        return (one.min_size, one.max_size) == (other.min_size, other.max_size)
    return bool(one == other)


def _by_name(name: str) -> Compute:
    known: dict[str, Compute] = {
        "tasks": TaskPoolStrategy(),
        "actors": ActorPoolStrategy(max_size=8),
    }
    if name not in known:
        raise ValueError(f"compute takes 'tasks', 'actors' or a strategy; got {name!r}")
    return known[name]


def _of_concurrency(concurrency: object, is_class: bool, name: str) -> Compute:
    if concurrency is None:
        return ActorPoolStrategy(max_size=driver_threads()) if is_class else TaskPoolStrategy()
    sizes = concurrency if isinstance(concurrency, tuple) else (concurrency,)
    if not all(isinstance(size, int) and size > 0 for size in sizes) or not 1 <= len(sizes) <= 3:
        raise ValueError(
            "``concurrency`` is expected to be set as a number or (smallest, largest[, "
            f"first]); got {concurrency!r}"
        )
    if not is_class:
        if len(sizes) > 1:
            raise ValueError(
                f"``concurrency`` is set as a tuple of integers, {sizes}, which is for classes; "
                f"{name} is a function: give one number"
            )
        return TaskPoolStrategy(sizes[0])
    if len(sizes) == 1:
        return ActorPoolStrategy(size=sizes[0])
    return ActorPoolStrategy(
        min_size=sizes[0], max_size=sizes[1], initial_size=sizes[2] if len(sizes) > 2 else None
    )
