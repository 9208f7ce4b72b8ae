"""Records of settings whose fields are checked when they are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from skate._core.argument_checks import (
    Check,
    numbers,
    unknown_names,
    whole_numbers,
    wrong_type,
)

if TYPE_CHECKING:
    from typing_extensions import Self


positive_integer = whole_numbers(1, whole_floats=True)
non_negative_integer = whole_numbers(0, whole_floats=True)
positive = numbers(0, "a number above 0", above=True)
non_negative = numbers(0, "a number of at least 0")


class SettingTypeError(TypeError, ValueError):
    """A setting has the wrong type.

    Ray's settings are pydantic's, which raise a ValueError in this case too: programs that were
    written for Ray expect one.
    """


def check_setting(check: Check, name: str, value: object) -> Any:
    """Return the value of a setting in its final form.

    Raises:
        TypeError: If it has the wrong type.
        ValueError: If it has the wrong type, or is not allowed; where pydantic is installed, its
            ValidationError.
    """
    try:
        return check(name, value)
    except (TypeError, ValueError) as error:
        raise _setting_error(error, name, value) from None


def _setting_error(error: Exception, name: str, value: object) -> Exception:
    try:
        from skate.serve._validation_errors import validation_error
    except ImportError:
        return SettingTypeError(*error.args) if isinstance(error, TypeError) else error
    return validation_error(error, name, value)


def anything(name: str, value: object) -> object:
    """Return any value as it is."""
    return value


class CheckedSettings:
    """Base of data classes; `_checks` says for a field what it takes."""

    _checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            setattr(self, name, check_setting(check, name, getattr(self, name)))

    @classmethod
    def of(cls, name: str, value: object) -> Self:
        """Return the settings themselves, or made of a dictionary.

        Args:
            name: What errors call them.
            value: The settings, or a dictionary of their fields.

        Raises:
            TypeError: If it is neither, or a field does not exist.
            ValueError: If a value is not allowed.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise SettingTypeError(
                *wrong_type(name, value, f"{cls.__name__} or a dictionary of its fields").args
            )
        names = cls.names()
        wrong = [key for key in value if key not in names]
        if wrong:
            raise unknown_names(name, map(str, wrong), names)
        return cls(**value)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the fields."""
        return [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def dict(self, **_: object) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return {name: getattr(self, name) for name in self.names()}

    model_dump = dict

    def copy(self, *, update: Mapping[str, object] | None = None, **_: object) -> Self:
        """Return the same settings with some fields changed.

        Args:
            update: New values, by the names of their fields.
        """
        return type(self)(**{**self.dict(), **(update or {})})

    model_copy = copy
