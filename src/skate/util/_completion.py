"""Results in the order in which they become available."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import skate
from skate._core.argument_checks import whole_number, wrong_type
from skate._core.nearest import unknown_parameter
from skate._core.signature import showing_keywords

_OF_WAIT = {
    "timeout": "Seconds after which GetTimeoutError is raised when nothing becomes ready.",
    "fetch_local": "As in `skate.wait`: without effect.",
}


@showing_keywords(_OF_WAIT)
def as_completed(
    refs: Sequence[object], *, chunk_size: int = 1, yield_obj_refs: bool = False, **kwargs: object
) -> Iterator[Any]:
    """Yield the results of references, or the references themselves, as they become available.

    Args:
        refs: The references, each once.
        chunk_size: How many must be ready before some are yielded; then all that are ready are.
        yield_obj_refs: Whether to yield references and not values.
        **kwargs: For `skate.wait`: with `timeout`, GetTimeoutError is raised when nothing becomes
            ready for that many seconds.

    Yields:
        Values or references; a task's exception is raised in its turn.

    Raises:
        ValueError: If `num_returns` is given: that is `chunk_size` here.

    Example:
        >>> refs = [skate.put(number) for number in range(3)]
        >>> sorted(skate.util.as_completed(refs))
        [0, 1, 2]
    """
    _check(chunk_size, kwargs)
    return _completed(list(refs), chunk_size, yield_obj_refs, kwargs)


@showing_keywords(_OF_WAIT)
def map_unordered(
    fn: object,
    items: Iterable[object],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 1,
    yield_obj_refs: bool = False,
    **kwargs: object,
) -> Iterator[Any]:
    """Call a remote function on every item; yield the results as they become available.

    Args:
        fn: The remote function.
        items: Its arguments, one for each call; they may be endless.
        backpressure_size: How many calls are under way at a time; None for no limit.
        chunk_size: How many must be ready before some are yielded; then all that are ready are.
        yield_obj_refs: Whether to yield references and not values.
        **kwargs: For `skate.wait`, as in `as_completed`.

    Yields:
        Values or references; a task's exception is raised in its turn.

    Raises:
        TypeError: If `fn` is no remote function.

    Example:
        >>> @skate.remote
        ... def double(x: int) -> int:
        ...     return 2 * x
        >>> sorted(skate.util.map_unordered(double, range(3)))
        [0, 2, 4]
    """
    _check(chunk_size, kwargs)
    if not hasattr(fn, "remote"):
        raise wrong_type("fn", fn, "a remote function, as @remote makes it")
    if backpressure_size is not None:
        whole_number("backpressure_size", backpressure_size)
    return _mapped(fn, items, backpressure_size, chunk_size, yield_obj_refs, kwargs)


def _mapped(
    fn: Any,
    items: Iterable[Any],
    limit: int | None,
    chunk_size: int,
    yield_obj_refs: bool,
    kwargs: dict[str, Any],
) -> Iterator[Any]:
    pending: list[Any] = []
    for item in items:
        pending.append(fn.remote(item))
        if limit is not None and len(pending) >= limit:
            ready, pending = _next_ready(pending, chunk_size, kwargs)
            yield from ready if yield_obj_refs else skate.get(ready)
    yield from _completed(pending, chunk_size, yield_obj_refs, kwargs)


def _completed(
    pending: list[Any], chunk_size: int, yield_obj_refs: bool, kwargs: dict[str, Any]
) -> Iterator[Any]:
    while pending:
        ready, pending = _next_ready(pending, chunk_size, kwargs)
        yield from ready if yield_obj_refs else skate.get(ready)


def _next_ready(
    pending: list[Any], chunk_size: int, kwargs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    wanted = min(chunk_size, len(pending))
    ready, rest = skate.wait(pending, num_returns=wanted, **kwargs)
    if not ready:
        raise skate.exceptions.GetTimeoutError(
            f"no result within timeout={kwargs['timeout']} s; {len(pending)} are outstanding"
        )
    if rest:  # take what is there already: one call of wait for many results
        more, rest = skate.wait(rest, num_returns=len(rest), **{**kwargs, "timeout": 0})
        ready = [*ready, *more]
    return ready, rest


def _check(chunk_size: int, kwargs: dict[str, Any]) -> None:
    whole_number("chunk_size", chunk_size)
    if "num_returns" in kwargs:
        raise ValueError("num_returns is not taken here: use chunk_size")
    for name in kwargs:
        if name not in _OF_WAIT:
            raise unknown_parameter("wait", name, _OF_WAIT)
