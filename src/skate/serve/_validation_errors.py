"""Errors of settings where pydantic is installed: programs for Ray catch its `ValidationError`."""

from __future__ import annotations

from pydantic_core import PydanticCustomError, ValidationError


class SettingValidationError(ValidationError):
    """A setting has a value that is not allowed."""

    def __str__(self) -> str:
        return str(self.errors(include_url=False)[0]["msg"])


class SettingTypeValidationError(SettingValidationError, TypeError):
    """A setting has the wrong type; also a TypeError."""


def validation_error(error: Exception, name: str, value: object) -> Exception:
    """Return the same error as one of pydantic.

    Args:
        error: A TypeError or ValueError.
        name: The setting.
        value: What it was given.
    """
    is_type = isinstance(error, TypeError)
    cls = SettingTypeValidationError if is_type else SettingValidationError
    kind = PydanticCustomError(
        "type_error" if is_type else "value_error", "{text}", {"text": str(error)}
    )
    return cls.from_exception_data(name, [{"type": kind, "loc": (name,), "input": value}])
