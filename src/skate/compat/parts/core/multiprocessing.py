"""`ray.util.multiprocessing.Pool`, where that of skate does as the standard library instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import skate
from skate.util import multiprocessing

__all__ = ["IMapIterator", "Pool"]


class IMapIterator(multiprocessing.IMapIterator):
    """Iterates over results; what a call has raised is one of them."""

    def next(self, timeout: float | None = None) -> object:
        """Return the next result, or exception.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
        """
        return self._next_outcome(timeout)[1]


class Pool(multiprocessing.Pool):
    """Takes what is no iterable for a list of one, and gives exceptions as results of `imap`.

    A session that it begins has a CPU per process, and one that runs must have as many.

    Args:
        processes: How many; by default as many as there are CPUs.
        args: What else the pool of skate takes, by place.
        options: Likewise, by name.
    """

    _lazily = IMapIterator

    def __init__(self, processes: int | None = None, *args: Any, **options: Any) -> None:
        if processes and skate.is_initialized():
            cpus = skate.cluster_resources().get("CPU", 0)
            if processes > cpus:
                raise ValueError(
                    f"Pool takes at most as many processes as there are CPUs, {cpus:g}; got "
                    f"{processes}: begin with ray.init(num_cpus={processes})"
                )
        elif processes and not options.get("ray_address"):
            skate.init(num_cpus=processes)
        super().__init__(processes, *args, **options)

    def _imap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[object],
        chunksize: int | None,
        ordered: bool,
    ) -> multiprocessing.IMapIterator:
        if not isinstance(iterable, Iterable):
            warnings.warn(
                "Passing a non-iterable argument: it is taken for a list of one", stacklevel=3
            )
            iterable = [iterable]
        return super()._imap(func, iterable, chunksize, ordered)
