"""`tune …` of programs that run by --as-ray: tables of trials and experiments.

Programs call the functions as well, as `ray.tune.cli.commands`. Nothing is unpickled.
"""

from __future__ import annotations

import operator
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.cli._tables import USUAL_MISTAKES, commands_of

if TYPE_CHECKING:
    from click import ClickException, Group, Option
    from pandas import DataFrame

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_USUAL_COLUMNS = (
    "trainable_name",
    "experiment_tag",
    "trial_id",
    "training_iteration",
    "time_total_s",
    "mean_accuracy",
    "mean_loss",
)
_SEARCHED = "config/"  # how columns of what was searched begin


def tune_group_of_ray(click: ModuleType) -> Group:
    """Make the group of commands."""
    trials = [click.Argument(["experiment_path"]), *_options(click)]
    experiments = [click.Argument(["project_path"]), *_options(click)]
    note = [
        click.Argument(["path"]),
        click.Option(["--filename"], default="note.txt", help="The name of the note."),
    ]
    rows = (
        *((name, "List the trials of an experiment.", _trials, trials) for name in _TRIALS),
        *((name, "List the experiments in a folder.", _experiments, experiments) for name in _ALL),
        ("add-note", "Write a note beside an experiment, in $EDITOR.", add_note, note),
    )
    group: Group = click.Group(
        "tune", help="Experiments as Ray lists them.", commands=commands_of(click, rows)
    )
    return group


_TRIALS = ("ls", "list-trials")
_ALL = ("lsx", "list-experiments")


def _options(click: ModuleType) -> list[Option]:
    return [
        click.Option(["--sort"], help="The columns to sort by, with commas between."),
        click.Option(["--output", "-o"], help="A file for the table: .csv or .pkl."),
        click.Option(["--filter", "filter_op"], help="'<column> <operator> <value>'."),
        click.Option(["--columns"], help="The columns to show, with commas between."),
        click.Option(["--limit"], type=int, help="How many rows to show."),
        click.Option(["--desc"], type=bool, default=False, help="Whether the largest come first."),
    ]


def _trials(experiment_path: str, columns: str | None, sort: str | None, **options: Any) -> None:
    list_trials(experiment_path, info_keys=_words(columns), sort=_words(sort), **options)


def _experiments(project_path: str, columns: str | None, sort: str | None, **options: Any) -> None:
    list_experiments(project_path, info_keys=_words(columns), sort=_words(sort), **options)


def _words(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


def list_trials(
    experiment_path: str,
    sort: Sequence[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: Sequence[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print the trials of an experiment, each with its last result.

    Args:
        experiment_path: The folder of the experiment.
        sort: The columns to sort by; `None` is the order of the trials.
        output: A file for the table, .csv or .pkl; `None` is no file.
        filter_op: Which rows to show, as "training_iteration > 3"; `None` shows all.
        info_keys: The columns to show; `None` is those that most experiments have, and what was
            searched.
        limit: How many rows to show; `None` shows all.
        desc: Whether the largest come first.
    """
    from skate.tune.analysis.experiment_analysis import ExperimentAnalysis

    try:
        found = ExperimentAnalysis(os.path.expanduser(experiment_path)).dataframe()
    except USUAL_MISTAKES as error:
        raise _mistake(str(error)) from None
    usual = [name for name in found if name in _USUAL_COLUMNS or name.startswith(_SEARCHED)]
    _show(found, info_keys or usual, sort, output, filter_op, limit, desc)


def list_experiments(
    project_path: str,
    sort: Sequence[str] | None = None,
    output: str | None = None,
    filter_op: str | None = None,
    info_keys: Sequence[str] | None = None,
    limit: int | None = None,
    desc: bool = False,
) -> None:
    """Print the experiments in a folder, each with the number of its trials.

    Args:
        project_path: The folder in which the experiments are.
        sort: The columns to sort by; `None` is the order of the names.
        output: A file for the table, .csv or .pkl; `None` is no file.
        filter_op: Which rows to show, as "total_trials > 3"; `None` shows all.
        info_keys: The columns to show, of `name` and `total_trials`; `None` is both.
        limit: How many rows to show; `None` shows all.
        desc: Whether the largest come first.
    """
    root = Path(project_path).expanduser()
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except OSError as error:
        raise _mistake(str(error)) from None
    if not folders:
        raise _mistake(f"there are no experiments in {project_path}")
    rows = [
        {"name": folder.name, "total_trials": sum(1 for _ in folder.rglob("result.json"))}
        for folder in folders
    ]
    found = try_import("pandas", "train").DataFrame(rows)
    _show(found, info_keys or list(found), sort, output, filter_op, limit, desc)


def add_note(path: str, filename: str = "note.txt") -> None:
    """Open a note in the editor that EDITOR names, or in vim.

    Args:
        path: The folder for the note.
        filename: The name of the note; "note.txt" by default.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise _mistake(f"{path} is no folder")
    note = folder / filename
    existed = note.exists()
    subprocess.call([*shlex.split(os.environ.get("EDITOR", "vim")), str(note)])
    print("Note updated at:" if existed else "Note created at:", note)


def _show(
    found: DataFrame,
    columns: Sequence[str],
    sort: Sequence[str] | None,
    output: str | None,
    filter_op: str | None,
    limit: int | None,
    desc: bool,
) -> None:
    """Print the rows and columns that are asked for, and write them to a file."""
    save = _writer(output)
    table = found[_known(columns, list(found), "column")]
    if filter_op:
        table = _filtered(table, filter_op)
    if sort:
        by = _known(sort, list(table), "column to sort by")
        table = table.sort_values(by=by, ascending=not desc)
    table = table[:limit]
    _print(table)
    if save is not None:
        save(table)
        print("Written to", output)


def _known(names: Sequence[str], known: list[str], what: str) -> list[str]:
    for name in names:
        if name not in known:
            raise _mistake(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return list(names)


def _filtered(table: DataFrame, filter_op: str) -> DataFrame:
    words = filter_op.split(" ", 2)
    if len(words) != 3 or words[1] not in _OPERATORS:
        raise _mistake(
            f"a filter is a column, one of {' '.join(_OPERATORS)} and a value, with blanks "
            f"between, as 'training_iteration > 3'; got {filter_op!r}"
        )
    name, sign, value = words
    column = table[_known([name], list(table), "column to filter by")[0]]
    if column.dtype.kind in "iuf":
        try:
            return table[_OPERATORS[sign](column, float(value))]
        except ValueError:
            raise _mistake(f"{name} has numbers, and {value!r} is none") from None
    return table[_OPERATORS[sign](column.astype(str), value)]


def _print(table: DataFrame) -> None:
    """Print the columns that have values, as many as the terminal is wide."""
    from skate.tune._table import text_table

    width = shutil.get_terminal_size(fallback=(100, 100)).columns
    empty = [name for name in table if len(table) and table[name].isnull().all()]
    names = [name for name in table if name not in empty]
    rows = table[names].astype(object).where(table[names].notnull(), None).values.tolist()
    shown = len(names)
    while shown > 1 and _width(text_table(names[:shown], [row[:shown] for row in rows])) > width:
        shown -= 1
    if names:
        print(text_table(names[:shown], [row[:shown] for row in rows]))
    if names[shown:]:
        print("No room for", ", ".join(names[shown:]))
    if empty:
        print("Without any value:", ", ".join(empty))


def _width(text: str) -> int:
    return text.index("\n")


def _writer(output: str | None) -> Callable[[DataFrame], None] | None:
    """Return what writes a table to the file, by the end of its name."""
    if output is None:
        return None
    ending = Path(output).suffix.lower()
    if ending == ".csv":
        return lambda table: table.to_csv(output, index=False)
    if ending in (".p", ".pkl", ".pickle"):
        return lambda table: table.to_pickle(output)
    raise _mistake(f"the file for the table ends in .csv, .pkl or .pickle; got {output!r}")


def _mistake(text: str) -> ClickException:
    error: ClickException = try_import("click", "cli").ClickException(text)
    return error
