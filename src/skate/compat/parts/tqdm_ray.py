"""`ray.experimental.tqdm_ray`: bars of progress. Each process draws its own, with tqdm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm import tqdm as _tqdm

__all__ = ["safe_print", "tqdm"]


class tqdm(_tqdm):  # type: ignore[misc]  # noqa: N801
    """A bar of tqdm with the parameters that Ray's has."""

    monitor_interval = 0  # without a thread that looks after bars

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        *,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        seconds = 0.1 if flush_interval_s is None else flush_interval_s
        super().__init__(
            iterable, desc, total, unit=unit or "it", position=position, mininterval=seconds
        )


def safe_print(*values: Any, **options: Any) -> None:
    """`print`, above the bars of this process."""
    with _tqdm.external_write_mode(file=options.get("file")):
        print(*values, **options)
