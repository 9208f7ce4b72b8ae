"""Calls from worker to actor without the driver in between. (Not yet direct.)"""

from __future__ import annotations

from typing import Any


class Peers:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def call(self, *rest: Any) -> bool:
        return False

    def publish(self, entry: Any) -> None:
        pass

    def forget(self, entry: Any) -> bool:
        return False

    def reply(self, origin: Any, message: Any) -> None:
        pass

    def on_peer(self, *rest: Any) -> None:
        pass

    def listen(self) -> None:
        pass
