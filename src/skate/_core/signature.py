"""Signatures: checking arguments where the call is made, and showing others than are written."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

_UNLIMITED = 1 << 30

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: 0,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: 1,
    inspect.Parameter.VAR_POSITIONAL: 2,
    inspect.Parameter.KEYWORD_ONLY: 3,
    inspect.Parameter.VAR_KEYWORD: 4,
}
_BY_NUMBER = {number: kind for kind, number in _KINDS.items()}


class _Optional:
    def __repr__(self) -> str:
        return "..."


_OPTIONAL = _Optional()


class Arity:
    """A signature without defaults and annotations, so that it can travel to any process.

    A call with `low` to `high` positional arguments and no others is right without a closer look.

    Args:
        parameters: The name of each, the number of its kind, and whether it has a default.
        shown: What has defaults, annotations and a docstring to show; it does not travel.
    """

    __slots__ = ("_open", "_places", "_required", "high", "low", "parameters", "shown")

    def __init__(
        self,
        parameters: tuple[tuple[str, int, bool], ...],
        shown: Callable[..., object] | None = None,
    ) -> None:
        self.shown: Callable[..., object] | None = shown
        # (name, number of its kind, has a default).
        self.parameters: tuple[tuple[str, int, bool], ...] = parameters
        kinds = [kind for _, kind, _ in parameters]
        positional = [row for row in parameters if row[1] in (0, 1)]
        places = {name: place for place, (name, _, _) in enumerate(positional)}
        places.update((name, _UNLIMITED) for name, kind, _ in parameters if kind == 3)
        self._places = {name: places[name] for name, kind, _ in parameters if kind in (1, 3)}
        self._required = [
            (name if kind else None, places[name])
            for name, kind, default in parameters
            if not default and name in places
        ]
        self._open = 4 in kinds
        needs_keywords = any(kind == 3 and not default for _, kind, default in parameters)
        self.low: int = _UNLIMITED if needs_keywords else sum(not row[2] for row in positional)
        self.high: int = _UNLIMITED if 2 in kinds else len(positional)

    def __reduce__(self) -> tuple[object, ...]:
        return Arity, (self.parameters,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arity) and self.parameters == other.parameters

    def __hash__(self) -> int:
        return hash(self.parameters)

    def check(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raise TypeError, as a direct call would, if the arguments do not fit."""
        if self._fits(len(args), kwargs):
            return
        try:
            self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            hint = self._hint(name, kwargs)
            raise TypeError(f"{name}{self.__signature__}: {error}{hint}") from None

    def _hint(self, name: str, kwargs: dict[str, object]) -> str:
        """Say where options go, if one was given among the arguments."""
        from skate._core.options import OPTIONS

        options = [each for each in kwargs if each in OPTIONS and each not in self._places]
        if not options:
            return ""
        return f"; options are given before: {name}.options({options[0]}=...).remote(...)"

    def _fits(self, count: int, kwargs: dict[str, object]) -> bool:
        """Find out what Signature.bind does, ten times as fast."""
        if count > self.high:
            return False
        for name in kwargs:
            place = self._places.get(name)
            if place is None and not self._open:
                return False
            if place is not None and place < count:
                return False
        return all(place < count or name in kwargs for name, place in self._required)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature, for `inspect`."""
        return inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    _BY_NUMBER[kind],
                    default=_OPTIONAL if optional else inspect.Parameter.empty,
                )
                for name, kind, optional in self.parameters
            ]
        )


ANYTHING = Arity((("args", 2, False), ("kwargs", 4, False)))


def arity_of(function: Callable[..., object], skip_first: bool = False) -> Arity:
    """Return the arity of a callable; anything goes for what Python cannot inspect."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ANYTHING
    shown = function
    if skip_first and parameters and parameters[0].kind in (0, 1):
        parameters = parameters[1:]
        shown = types.MethodType(function, object)  # which shows all but the first
    return Arity(tuple(_described(parameter) for parameter in parameters), shown)


def _described(parameter: inspect.Parameter) -> tuple[str, int, bool]:
    return parameter.name, _KINDS[parameter.kind], parameter.default is not parameter.empty


def show_signature(of: Any, signature: inspect.Signature) -> None:
    """Have `inspect`, `help()` and editors show this signature.

    Args:
        of: A function or a class.
        signature: What it is to look like.
    """
    of.__signature__ = signature


def shown_as(shown: Callable[P, R]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function that takes older spellings too the signature of today's.

    Args:
        shown: A function that has it, and is not called.
    """

    def show(function: Callable[..., R]) -> Callable[P, R]:
        show_signature(function, inspect.signature(shown))
        return function

    return show


def passing_on(to: Callable[..., object]) -> Callable[[F], F]:
    """Return a decorator by which `help()` shows what a function passes on by `**`.

    Args:
        to: The function that it is passed to: what that takes by name is shown.
    """

    def show(function: F) -> F:
        written = inspect.signature(function)
        own = [each for each in written.parameters.values() if each.kind != each.VAR_KEYWORD]
        passed = [
            each.replace(kind=each.KEYWORD_ONLY)
            for each in inspect.signature(to).parameters.values()
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            and each.name not in written.parameters
        ]
        show_signature(function, written.replace(parameters=own + passed))
        return function

    return show


def showing_keywords(
    names: Iterable[str] | Mapping[str, str], *, open_ended: bool = False
) -> Callable[[F], F]:
    """Return a decorator by which `help()` shows what a function takes by `**`.

    Args:
        names: The names of what it takes; with a line on each, those that the docstring does not
            name are added to it.
        open_ended: Whether there may be others, so that `**` is shown as well.
    """

    def show(function: F) -> F:
        written = inspect.signature(function)
        shown: list[inspect.Parameter] = []
        for parameter in written.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                shown += [
                    inspect.Parameter(name, parameter.KEYWORD_ONLY, default=_OPTIONAL)
                    for name in names
                ]
            if open_ended or parameter.kind is not parameter.VAR_KEYWORD:
                shown.append(parameter)
        show_signature(function, written.replace(parameters=shown))
        if isinstance(names, Mapping) and function.__doc__:
            function.__doc__ = _with_options(function.__doc__, names)
        return function

    return show


def _with_options(doc: str, meanings: Mapping[str, str]) -> str:
    text = inspect.cleandoc(doc)
    words = set(re.findall(r"\w+", text))
    lines = [f"    {name}: {meaning}" for name, meaning in meanings.items() if name not in words]
    return "\n".join([text, "", "Options:", *lines]) if lines else text
