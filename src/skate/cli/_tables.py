"""What commands print: a table for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core.printable import printable
from skate._core.standard_streams import is_terminal

if TYPE_CHECKING:
    from click import Option

Row = Mapping[str, object]

USUAL_MISTAKES = (OSError, ImportError, TypeError, ValueError, KeyError)


def json_option(click: ModuleType) -> Option:
    """Return the option `--json`, which all commands that show something have."""
    option: Option = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
    return option


def show_rows(rows: Sequence[Row], as_json: bool, nothing: str = "nothing") -> None:
    """Print rows as a table whose columns are the keys of the first, or as a list in JSON.

    Args:
        rows: What to print, each with the same keys.
        as_json: Whether to print JSON.
        nothing: What to say, to people, if there are no rows.
    """
    if as_json:
        print(json.dumps([dict(row) for row in rows], default=str, indent=2))
    elif not rows:
        print(nothing)
    else:
        print(table_of(rows))


def show_facts(facts: Row, as_json: bool) -> None:
    """Print names and values, one in a line, or as one object in JSON."""
    if as_json:
        print(json.dumps(dict(facts), default=str, indent=2))
        return
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:{width}}  {_shown(value)}")


def table_of(rows: Sequence[Row]) -> str:
    """Return a table whose columns are the keys of the first row."""
    names = list(rows[0])
    heads = [_shown(name) for name in names]
    lines = [heads, *([_shown(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    room = shutil.get_terminal_size((10_000, 0)).columns if is_terminal(sys.stdout) else None
    texts = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(text.rstrip()[:room] for text in texts)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return printable(" ".join(str(value).split()))


def commands_of(
    click: ModuleType,
    rows: Iterable[tuple[str, str, Any, Sequence[Any]]],
    mistakes: tuple[type[Exception], ...] = USUAL_MISTAKES,
) -> list[Any]:
    """Make commands of their names, their help, what they call, and their parameters."""
    return [
        click.Command(
            name, help=text, callback=told(click, callback, mistakes), params=list(params)
        )
        for name, text, callback, params in rows
    ]


def pair_of(text: str, looks_like: str) -> tuple[str, str]:
    """Return what stands before and behind the first `=`; `looks_like` is for the error."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ValueError(f"{looks_like}; got {text!r}")
    return key, value


def told(
    click: ModuleType,
    command: Callable[..., None],
    mistakes: tuple[type[Exception], ...] = USUAL_MISTAKES,
) -> Callable[..., None]:
    """Return the command with mistakes of the user as one line instead of a traceback.

    Args:
        click: The package.
        command: What to run.
        mistakes: Errors that are the user's; where code of theirs runs, fewer are.
    """

    def run(**options: Any) -> None:
        try:
            command(**options)
        except mistakes as error:
            text = error.args[0] if isinstance(error, KeyError) and error.args else error
            lines = map(printable, str(text).splitlines())
            raise click.ClickException("\n".join(lines)) from None

    return run
