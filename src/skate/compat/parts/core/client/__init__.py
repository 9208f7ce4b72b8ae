"""`ray.util.client`: nobody is connected that way, a program has its engine in its own process."""

from __future__ import annotations

from typing import Any

import skate


class _Client:
    """What a client offers is what the library does."""

    _connected = False  # by `ray_client_helpers` only

    def is_connected(self) -> bool:
        return self._connected

    def connect(self, address: str = "local", **settings: Any) -> Any:
        """Begin a session, with the settings of `init`."""
        return skate.init(address, **settings)

    def disconnect(self) -> None:
        """End the session."""
        self._connected = False
        skate.shutdown()

    def __getattr__(self, name: str) -> Any:
        return getattr(skate, name)


ray = _Client()
