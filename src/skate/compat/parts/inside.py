"""The inside of Ray: `ray._private`, `ray._common`, `ray.core` and the like, as far as unknown.

Programs, and above all tests, import more of it than they use. So each name can be imported, and
whoever uses one is told that skate does not have it.
"""

from __future__ import annotations

from typing import Any, NoReturn


class Absent:
    """A name that skate does not have; `reason` says why, if it is not Ray's own machinery."""

    _reason: str

    def __init__(self, name: str, reason: str = "") -> None:
        self.__dict__["_name"] = name
        self.__dict__["_reason"] = reason

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}", self._reason)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            self._reason
            or f"{self._name} is the inside of Ray, which skate does not have: if the program "
            "needs it, run it on Ray itself"
        )

    def __bool__(self) -> bool:
        return False  # a switch that does not exist is off

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """Let a class of a program derive from it; who makes an instance is told."""

        def refuse(cls: type, *args: object, **kwargs: object) -> NoReturn:
            self()

        return (type(self._name.rpartition(".")[2], (), {"__new__": refuse}),)

    def __getitem__(self, parameters: object) -> Absent:
        return self  # in an annotation

    def __iter__(self) -> NoReturn:
        self()  # or else `__getitem__` would give one item after the other, without end

    def __or__(self, other: object) -> object:
        return Any  # in an annotation

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._name}, which skate does not have>"


def __getattr__(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(name)
