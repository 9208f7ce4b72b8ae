"""`skate tune …`: look at experiments in a folder, running or over. Nothing is unpickled."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate.cli._tables import commands_of, json_option, show_rows

if TYPE_CHECKING:
    from skate.tune import ExperimentAnalysis

_STATE = "experiment_state"  # how the name of an experiment's state begins


def tune_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    path = click.Argument(["path"], default="~/ray_results")
    given = click.Argument(["path"])
    metric = click.Option(["--metric"], help="Sort the trials by this one.")
    mode = click.Option(["--mode"], type=click.Choice(["min", "max"]), default="min")
    shown = click.Argument(["metric"])
    output = click.Option(["-o", "--output", "output"], default="trials.png", help="The picture.")
    as_json = json_option(click)
    rows = (
        ("ls", "List the experiments below PATH (~/ray_results).", _list, (path, as_json)),
        (
            "show",
            "Show the trials of the experiment at PATH.",
            _show,
            (given, metric, mode, as_json),
        ),
        ("plot", "Draw METRIC of each trial of PATH.", _plot, (given, shown, output)),
    )
    text = "Look at experiments, while they run or later."
    return click.Group("tune", help=text, commands=commands_of(click, rows))


def _list(path: str, as_json: bool) -> None:
    root = os.path.expanduser(path)
    if not os.path.isdir(root):
        raise FileNotFoundError(f"{path} is no folder")
    rows = [_row_of(folder) for folder in _experiments(root)]
    rows.sort(key=lambda row: str(row["changed"]), reverse=True)
    show_rows(rows, as_json, f"no experiments in {path}")


def _experiments(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        if any(name.startswith(_STATE) for name in names):
            folders.clear()  # what is below are its trials
            yield folder


def _row_of(folder: str) -> dict[str, object]:
    trials = _analysis(folder).trials
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


def _show(path: str, metric: str | None, mode: str, as_json: bool) -> None:
    rows = [_trial_row(trial) for trial in _analysis(path).trials]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if metric is not None and metric not in names:
        raise KeyError(f"no trial of {path} reports {metric!r}; there is {', '.join(names)}")
    rows = [{name: row.get(name) for name in names} for row in rows]
    if metric is not None:
        rows.sort(key=lambda row: _place(row[metric], mode))
    show_rows(rows, as_json, f"no trials in {path}")


def _trial_row(trial: Any) -> dict[str, object]:
    result = trial.last_result or {}
    lost = set(map(id, trial.lost_references))
    told = {name: value for name, value in trial.config.items() if id(value) not in lost}
    numbers = {
        name: value
        for name, value in result.items()
        if isinstance(value, (int, float)) and name not in _OUR_OWN and "/" not in name
    }
    return {
        "trial": trial.trial_id,
        "state": trial.status,
        "iterations": result.get("training_iteration"),
        **numbers,
        **{f"config/{name}": value for name, value in told.items()},
        "error": _last_line(trial),
    }


_OUR_OWN = {
    "training_iteration", "timestamp", "time_this_iter_s", "time_total_s", "time_since_restore",
    "iterations_since_restore", "pid", "done",
}  # fmt: skip


def _place(value: Any, mode: str) -> tuple[bool, float]:
    """Return where a trial stands: the best first, those without the metric last."""
    if value is None or value != value:
        return True, 0.0
    return False, value if mode == "min" else -value


def _last_line(trial: object) -> str | None:
    error = getattr(trial, "error_file", None)
    if not error or not os.path.exists(error):
        return None
    with open(error, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else None


def _plot(path: str, metric: str, output: str) -> None:
    from skate._core.optional_imports import try_import

    analysis = _analysis(path)
    try_import("matplotlib", "plot").use("Agg")
    figure, axes = try_import("matplotlib.pyplot", "plot").subplots()
    for trial in analysis.trials:
        history = analysis.trial_dataframes.get(trial.trial_id)
        if history is not None and metric in history:
            axes.plot(history["training_iteration"], history[metric], label=trial.trial_id)
    if not axes.lines:
        raise KeyError(f"no trial of {path} reports {metric!r}")
    axes.set(xlabel="training_iteration", ylabel=metric)
    axes.legend(fontsize="small")
    figure.savefig(output)
    print(output)


def _analysis(path: str) -> ExperimentAnalysis:
    from skate.tune import ExperimentAnalysis

    return ExperimentAnalysis(os.path.expanduser(path))
