"""Records of settings whose fields are checked when they are made."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from skate._core import notices
from skate._core.argument_checks import (
    Check,
    numbers,
    unknown_names,
    whole_numbers,
    wrong_type,
)
from skate._core.nearest import nearest_names

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
        raise setting_error(error, name, value) from None


def setting_error(error: Exception, name: str, value: object) -> Exception:
    """Return a TypeError or ValueError about a setting as what `check_setting` raises."""
    try:
        from skate.serve._validation_errors import validation_error
    except ImportError:
        return SettingTypeError(*error.args) if isinstance(error, TypeError) else error
    return validation_error(error, name, value)


def anything(name: str, value: object) -> object:
    """Return any value as it is."""
    return value


class _SettingsType(type):
    """Looks at the names that settings are made with, before their fields are checked."""

    _known_fields: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    names: Callable[[], list[str]]

    def __call__(cls, *args: Any, **given: Any) -> Any:
        known = cls._known_fields(given)
        made = super().__call__(*args, **known)
        positional = cls.names()[: len(args)]
        made.model_fields_set = {*positional, *known}
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's signature: `inspect` would take that of `__call__`."""
        of_class = inspect.signature(cls.__init__)  # type: ignore[misc]
        return of_class.replace(parameters=list(of_class.parameters.values())[1:])


class CheckedSettings(metaclass=_SettingsType):
    """Base of data classes; `_checks` says for a field what it takes.

    A field that does not exist is a mistake if it looks like one that does, or if the class is
    closed. All else may be of a later version, or of an earlier one, and is left out with a
    warning.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    _checks: ClassVar[Mapping[str, Check]] = {}
    _older_names: ClassVar[Mapping[str, str]] = {}  # today's, by those of earlier versions
    _is_closed: ClassVar[bool] = False

    # The fields that were given. It is none itself, as this is no data class.
    model_fields_set: set[str]

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
        return cls(**{str(key): each for key, each in value.items()})

    @classmethod
    def _known_fields(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields that there are, by the names that they have today."""
        renamed = {cls._older_names.get(name, name): value for name, value in given.items()}
        names = cls.names()
        unknown = [name for name in renamed if name not in names]
        mistakes = [name for name in unknown if cls._is_closed or nearest_names(name, names, 1)]
        if mistakes:
            error = unknown_names(cls.__name__, mistakes, names)
            raise setting_error(error, mistakes[0], renamed[mistakes[0]])
        for name in unknown:
            notices.once(
                f"{cls.__name__}.{name}", f"{cls.__name__} has no field {name!r}: it is left out"
            )
        return {name: value for name, value in renamed.items() if name in names}

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the fields."""
        return [field.name for field in dataclasses.fields(cls)]

    def dict(
        self, *, exclude_unset: bool = False, exclude_none: bool = False, **_: object
    ) -> dict[str, Any]:
        """Return the fields as a dictionary.

        Args:
            exclude_unset: Only those that were given.
            exclude_none: Only those that are not None.
        """
        names = [
            name for name in self.names() if name in self.model_fields_set or not exclude_unset
        ]
        values = {name: getattr(self, name) for name in names}
        if exclude_none:
            return {name: value for name, value in values.items() if value is not None}
        return values

    model_dump = dict

    def copy(self, *, update: Mapping[str, object] | None = None, **_: object) -> Self:
        """Return the same settings with some fields changed.

        Args:
            update: New values, by the names of their fields.
        """
        changed = update or {}
        made = type(self)(**{**self.dict(), **changed})
        made.model_fields_set = {*self.model_fields_set, *changed}
        return made

    model_copy = copy
