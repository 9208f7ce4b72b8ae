"""Values that others want to hear about whenever they change."""

from __future__ import annotations

import asyncio
from typing import Any

from skate.serve._identity import new_tag

Key = tuple[str, ...]


class Publisher:
    """Versioned values. Versions of another controller's publisher are never equal to ours."""

    def __init__(self) -> None:
        self._epoch = new_tag()
        self._values: dict[Key, tuple[int, Any]] = {}
        self._changed: dict[Key, asyncio.Event] = {}

    def publish(self, key: Key, value: object) -> None:
        """Make this the value, if it is not."""
        number, before = self._values.get(key, (0, None))
        if number and before == value:
            return
        self._values[key] = (number + 1, value)
        changed = self._changed.pop(key, None)
        if changed is not None:
            changed.set()

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    async def listen(self, key: Key, version: str) -> tuple[str, Any]:
        """Return (version, value), once there is a value of another version than this."""
        while True:
            number, value = self._values.get(key, (0, None))
            current = f"{self._epoch}-{number}"
            if number and current != version:
                return current, value
            await self._changed.setdefault(key, asyncio.Event()).wait()
