"""`skate tune …`: look at experiments in a folder, running or over. Nothing is unpickled."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core.plain_files import read_plain
from skate._run.reporting import AUTOMATIC
from skate.cli._tables import commands_of, json_option, show_rows

if TYPE_CHECKING:
    from skate.tune import ExperimentAnalysis

_STATE = "experiment_state"  # how the name of an experiment's state begins


def tune_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    path = click.Argument(["path"], default=_usual_place)
    given = click.Argument(["path"])
    metric = click.Option(["--metric"], help="Sort the trials by this one, not by the search's.")
    mode = click.Option(["--mode"], type=click.Choice(["min", "max"]), help="Which are better.")
    drawn = click.Argument(["metric"], required=False)
    output = click.Option(["-o", "--output", "output"], default="trials.png", help="The picture.")
    as_json = json_option(click)
    rows = (
        ("ls", f"List the experiments below PATH ({_usual_place()}).", _list, (path, as_json)),
        (
            "show",
            "Show the trials of the experiment at PATH, the best first.",
            _show,
            (given, metric, mode, as_json),
        ),
        (
            "plot",
            "Draw the trials of PATH: METRIC (the search's), what matters, parameters.",
            _plot,
            (given, drawn, mode, output, as_json),
        ),
    )
    text = "Look at experiments, while they run or later."
    return click.Group("tune", help=text, commands=commands_of(click, rows))


def _usual_place() -> str:
    from skate._run.config_checks import default_storage_path

    return default_storage_path()


def _list(path: str, as_json: bool) -> None:
    root = os.path.expanduser(path)
    if not os.path.isdir(root):
        raise FileNotFoundError(f"{path} is no folder")
    rows = [_row_of(folder) for folder in _experiments(root)]
    rows.sort(key=lambda row: str(row["changed"] or ""), reverse=True)
    show_rows(rows, as_json, f"no experiments in {path}")


def _experiments(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        if any(name.startswith(_STATE) for name in names):
            folders.clear()  # what is below are its trials
            yield folder


def _row_of(folder: str) -> dict[str, object]:
    try:
        trials = _analysis(folder).trials
    except (OSError, ValueError) as error:  # others may have written it: the rest is shown
        return {"experiment": os.path.basename(folder), "trials": None, "states": str(error),
                "changed": None, "path": folder}  # fmt: skip
    states = Counter(trial.status for trial in trials)
    changed = max(
        os.path.getmtime(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.startswith(_STATE)
    )
    return {
        "experiment": os.path.basename(folder),
        "trials": len(trials),
        "states": ", ".join(f"{count} {state}" for state, count in sorted(states.items())),
        "changed": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(changed)),
        "path": folder,
    }


def _show(path: str, metric: str | None, mode: str | None, as_json: bool) -> None:
    analysis = _analysis(path, metric, mode)
    rows = [_trial_row(trial) for trial in analysis.trials]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if metric is not None and metric not in names:
        raise _no_such_metric(path, metric, names)
    rows = [{name: row.get(name) for name in names} for row in rows]
    if (by := analysis.default_metric) in names:
        rows.sort(key=lambda row: _place(row[by], analysis.default_mode))
    show_rows(rows, as_json, f"no trials in {path}")


def _trial_row(trial: Any) -> dict[str, object]:
    from skate._run.values import flatten

    result = trial.last_result or {}
    lost = set(map(id, trial.lost_references))
    told = {name: value for name, value in flatten(trial.config) if id(value) not in lost}
    numbers = {
        name: value
        for name, value in result.items()
        if isinstance(value, (int, float)) and name not in AUTOMATIC and "/" not in name
    }
    return {
        "trial": trial.trial_id,
        "state": trial.status,
        "iterations": result.get("training_iteration"),
        **numbers,
        **{f"config/{name}": value for name, value in told.items()},
        "error": _last_line(trial),
    }


def _place(value: Any, mode: str | None) -> tuple[bool, float]:
    """Return where a trial stands: the best first, those without the metric last."""
    if value is None or value != value:
        return True, 0.0
    return False, -value if mode == "max" else value


def _last_line(trial: object) -> str | None:
    error = getattr(trial, "error_file", None)
    if not error or not os.path.exists(error):
        return None
    try:
        text = read_plain(error).decode(errors="replace")
    except OSError as problem:  # others may have written it: the rest is shown
        return str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else None


def _plot(path: str, metric: str | None, mode: str | None, output: str, as_json: bool) -> None:
    from skate._core.optional_imports import try_import
    from skate.tune.plotting import draw_grid

    try_import("matplotlib", "plot").use("Agg")
    analysis = _analysis(path, metric, mode)
    known = list(dict.fromkeys(name for trial in analysis.trials for name in trial.last_result))
    if analysis.default_metric not in known:
        raise _no_such_metric(path, analysis.default_metric, known)
    draw_grid(analysis).savefig(output)
    print(json.dumps({"picture": output}) if as_json else output)


def _no_such_metric(path: str, metric: str | None, known: Sequence[str]) -> KeyError:
    names = ", ".join(name for name in known if name not in AUTOMATIC)
    if metric is None:
        return KeyError(f"the search at {path} has no metric of its own; name one of {names}")
    return KeyError(f"no trial of {path} reports {metric!r}; there is {names}")


def _analysis(path: str, metric: str | None = None, mode: str | None = None) -> ExperimentAnalysis:
    from skate.tune.analysis.experiment_analysis import with_own_aim

    return with_own_aim(os.path.expanduser(path), metric, mode)
