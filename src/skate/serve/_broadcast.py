"""One call to every replica of a deployment."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import skate
from skate.exceptions import GetTimeoutError
from skate.serve._router import Router


class Broadcast:
    """The answers of all replicas that there are; those that start later are not asked."""

    def __init__(
        self, router: Router, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.request_id = str(uuid.uuid4())
        router.wait_for_table()
        call = (method, self.request_id, "", *args)
        self._refs = [
            replica.handle_anyway.remote(*call, **kwargs) for replica in router.replicas()
        ]

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """The answers, one per replica; the first error among them is raised."""
        try:
            found: list[Any] = skate.get(self._refs, timeout=timeout_s)
        except GetTimeoutError:
            raise TimeoutError(f"not all replicas answered within {timeout_s} s") from None
        return found

    async def results_async(self) -> list[Any]:
        return list(await asyncio.gather(*(ref.as_future() for ref in self._refs)))

    def __await__(self) -> Any:
        return self.results_async().__await__()
