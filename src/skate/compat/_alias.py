"""A module under another name: what it offers is looked up in its homes."""

from __future__ import annotations
import __future__

import importlib
import types
from typing import Any, NoReturn

from skate.compat._names_left_out import NAMES_LEFT_OUT
from skate.compat._table import has_home, missing_name, reason_of
from skate.compat.parts.inside import Absent


class Alias(types.ModuleType):
    """`ray.x`: the names of its homes, the first that has one; also what is set is set there."""

    _homes: tuple[types.ModuleType, ...] = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__["_replaced"] = {}  # what the homes had before something was set
        self.__dict__["__path__"] = []  # so that importing what is missing comes to the finder
        # A function of the module, as plain modules have it: who lists functions finds it.
        self.__dict__["__getattr__"] = lambda name: self._find(name)

    def fill(self, homes: tuple[types.ModuleType, ...]) -> None:
        """Look names up in these modules from now on."""
        self.__dict__["_homes"] = homes
        self.__doc__ = homes[0].__doc__

    def _find(self, name: str) -> Any:
        if name == "__all__":  # or `from ray.x import *` would find nothing
            return sorted({public for home in self._homes for public in _public_names(home)})
        for home in self._homes:
            try:
                value = getattr(home, name)
            except AttributeError:
                continue
            if _is_future(value):
                continue
            child = f"{self.__name__}.{name}"
            if isinstance(value, Absent):
                return self._child(name) if has_home(child) else Absent(child, reason_of(child))
            if isinstance(value, types.ModuleType) and has_home(child, value.__name__):
                return importlib.import_module(child)
            return value
        return self._child(name)

    def _child(self, name: str) -> Any:
        """Import a module of its own below this one, as `ray.worker`, which no home has as a
        name."""
        if not name.startswith("__") and has_home(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        if name in NAMES_LEFT_OUT.get(self.__name__, ()):
            return Absent(f"{self.__name__}.{name}", missing_name(self.__name__, name))
        if self.__name__ != "ray" and _is_private(name):
            return Absent(f"{self.__name__}.{name}")
        raise AttributeError(missing_name(self.__name__, name), name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif isinstance(value, Absent):
            return  # by the import system; skate has no such name now either
        elif not isinstance(value, Alias):
            self._replace(name, value)
        elif not self._is_function(name):  # `placement_group` is also the name of its module
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            self._restore(name)

    def _replace(self, name: str, value: object) -> None:
        home = self._home_of(name)
        if name in vars(home):
            self._replaced.setdefault(name, vars(home)[name])
        setattr(home, name, value)

    def _restore(self, name: str) -> None:
        """Take back what was set here: the home has its own value again, or none.

        `monkeypatch` deletes attributes that the module did not have itself.
        """
        home = self._home_of(name)
        if name in self._replaced:
            setattr(home, name, self._replaced.pop(name))
        else:
            delattr(home, name)

    def __reduce__(self) -> tuple[object, ...]:
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        names = {*self.__dict__, *(name for home in self._homes for name in _listed_names(home))}
        return sorted(names - {"_homes", "_replaced"})

    def _home_of(self, name: str) -> types.ModuleType:
        return next((home for home in self._homes if name in vars(home)), self._homes[-1])

    def _is_function(self, name: str) -> bool:
        for home in self._homes:
            if name in vars(home) or name in getattr(home, "__all__", ()):  # some load it later
                value = getattr(home, name)
                return not (isinstance(value, types.ModuleType) or _is_future(value))
        return False


class UnknownAlias(Alias):
    """A module of which skate knows nothing, so that it may as well be a class or a function.

    `from ray.x import Thing` asks for a module `ray.x.Thing` where there is no such name.
    """

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._as_name()(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return self._as_name().__mro_entries__(bases)

    def _as_name(self) -> Absent:
        return Absent(self.__name__, missing_name(*self.__name__.rsplit(".", 1)))


def _is_private(name: str) -> bool:
    """Return whether it is a `_name`; `_repr_html_` and the like ask what an object can do."""
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


def _listed_names(module: types.ModuleType) -> list[str]:
    """Return what `dir` lists: of a module that says what is public, not what it is made of."""
    known = vars(module)
    names = [
        name for name in dir(module) if name.isidentifier() and not _is_future(known.get(name))
    ]
    public = getattr(module, "__all__", None)
    if public is None:
        return names
    return [name for name in names if name in public or name.startswith("__")]


def _public_names(module: types.ModuleType) -> list[str]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if not _is_future(value)]
    return [name for name in names if not name.startswith("_")]


def _is_future(value: object) -> bool:
    """Return whether it is `annotations` of `__future__`, which is also the name of modules."""
    return isinstance(value, __future__._Feature)
