"""Records of settings whose fields are checked when they are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from skate.serve._checks import Check, refuse, unknown

if TYPE_CHECKING:
    from typing_extensions import Self


class Settings:
    """Base of data classes; `_checks` says for a field what it takes."""

    _checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            setattr(self, name, check(name, getattr(self, name)))

    @classmethod
    def of(cls, name: str, value: Any) -> Self:
        """The settings themselves, or made of a dictionary."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise refuse(name, f"{cls.__name__} or a dictionary of its fields", value)
        names = cls.names()
        wrong = [key for key in value if key not in names]
        if wrong:
            raise unknown(name, map(str, wrong), names)
        return cls(**value)

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def dict(self, **_: Any) -> dict[str, Any]:
        """The fields as a dictionary."""
        return {name: getattr(self, name) for name in self.names()}

    model_dump = dict

    def copy(self, *, update: Mapping[str, Any] | None = None, **_: Any) -> Self:
        """The same settings with some fields changed."""
        return type(self)(**{**self.dict(), **(update or {})})

    model_copy = copy
