"""The options of steps such as `map_batches`, as type checkers, editors and `help()` see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skate.data._io.read_keywords import RemoteKeywords, meanings


class StepKeywords(RemoteKeywords, total=False):
    """Options of the tasks and actors of a step."""

    max_restarts: int | None
    max_task_retries: int | None
    max_concurrency: int | None
    retry_exceptions: bool | Sequence[type[BaseException]] | None
    ray_remote_args_fn: Callable[[], Mapping[str, Any]] | None


# A line on each, for `help()`.
STEP = {
    **meanings(RemoteKeywords),
    "max_restarts": "How often an actor starts again when its process dies; -1 is always.",
    "max_task_retries": "How often a call of an actor runs again when its process dies.",
    "max_concurrency": "How many calls an actor has under way; see `ActorPoolStrategy`.",
    "retry_exceptions": "Whether tasks that raise run again, or after which exceptions.",
    "ray_remote_args_fn": "A function that returns more of these options.",
}
