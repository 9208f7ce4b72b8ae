"""Figures of a search: learning curves, what matters, and how the parameters go together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skate._core.notebooks import in_notebook
from skate._core.optional_imports import is_installed, try_import
from skate._run.values import lookup, plain
from skate.tune.analysis.experiment_analysis import _history
from skate.tune.result import TRAINING_ITERATION
from skate.tune.utils.util import flatten_dict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
    from skate.tune.experiment.trial import Trial

_MOST_LABELS = 10  # of trials, beside their curves
_ORDERS = 100  # from here on, the largest by the smallest value, an axis is logarithmic


def draw_grid(
    analysis: ExperimentAnalysis, metric: str | None = None, mode: str | None = None
) -> Any:
    """Draw a figure with three plots: the metric's curves, importances, parallel coordinates."""
    pyplot = try_import("matplotlib.pyplot", "plot")
    metric, mode = analysis._metric(metric), analysis._mode(mode)
    figure, (curves, importance, parallel) = pyplot.subplots(1, 3, figsize=(18, 5))
    _curves(curves, analysis, metric)
    names, points, values = _table(analysis, metric)
    _importance(importance, names, points, values)
    _parallel(parallel, names, points, values, metric, mode)
    figure.tight_layout()
    if in_notebook():  # which shows it as the value of the cell: not once more by pyplot
        pyplot.close(figure)
    return figure


def _curves(axes: Axes, analysis: ExperimentAnalysis, metric: str) -> None:
    for trial in analysis.trials:
        rows = [row for row in _history(trial) if lookup(row, metric) is not None]
        steps = [row[TRAINING_ITERATION] for row in rows]
        values = [lookup(row, metric) for row in rows]
        marker = "." if len(steps) == 1 else ""  # of one point there is no line
        (line,) = axes.plot(steps, values, label=trial.trial_id, alpha=0.6, linewidth=1)
        line.set_marker(marker)
    if len(analysis.trials) <= _MOST_LABELS:
        axes.legend(fontsize="small")
    axes.set(title="Learning curves", xlabel=TRAINING_ITERATION, ylabel=metric)


def _table(
    analysis: ExperimentAnalysis, metric: str
) -> tuple[list[str], list[list[Any]], list[float]]:
    """Return the searched parameters of all trials that have a value, and these values."""
    last = {t: t.metric_analysis[metric]["last"] for t in analysis.trials if _has(t, metric)}
    names = list(dict.fromkeys(name for trial in last for name in trial.evaluated_params))
    points = []
    for trial in last:
        flat = {**flatten_dict(trial.config), **trial.evaluated_params}
        points.append([_simple(flat.get(name)) for name in names])
    return names, points, list(last.values())


def _has(trial: Trial, metric: str) -> bool:
    courses = trial.metric_analysis
    return metric in courses and math.isfinite(courses[metric]["last"])


def _simple(value: object) -> Any:
    """Return numbers as such, everything else as a text."""
    value = plain(value)
    return value if isinstance(value, (int, float)) else str(value)


def _importance(axes: Axes, names: list[str], points: Any, values: list[float]) -> None:
    shares = _importances(names, points, values)
    axes.barh(list(shares), list(shares.values()))
    axes.set(title="Parameter importance", xlabel="share")


def _importances(names: list[str], points: Any, values: list[float]) -> dict[str, float]:
    """Rate each parameter: by Optuna, if it is there with enough to go on, else by rank."""
    if is_installed("optuna") and len(values) >= 4:
        try:
            return _by_optuna(names, points, values)
        except (ValueError, RuntimeError, ImportError):
            pass
    found = {
        name: abs(_rank_correlation([_number(p[i], points, i) for p in points], values))
        for i, name in enumerate(names)
    }
    total = sum(found.values()) or 1.0
    return {name: value / total for name, value in found.items()}


def _by_optuna(names: list[str], points: Any, values: list[float]) -> dict[str, float]:
    import optuna

    from skate.tune.search.optuna.optuna_search import quiet

    columns = {name: [point[i] for point in points] for i, name in enumerate(names)}
    distributions: dict[str, Any] = {
        name: optuna.distributions.FloatDistribution(min(column), max(column))
        if all(isinstance(v, (int, float)) for v in column) and min(column) < max(column)
        else optuna.distributions.CategoricalDistribution(sorted(set(column), key=str))
        for name, column in columns.items()
    }
    with quiet():
        study = optuna.create_study()
    for point, value in zip(points, values, strict=True):
        params = {
            name: float(v)
            if isinstance(distributions[name], optuna.distributions.FloatDistribution)
            else v
            for name, v in zip(names, point, strict=True)
        }
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=distributions, value=value)
        )
    return optuna.importance.get_param_importances(study)


def _number(value: Any, points: Any, column: int) -> float:
    """Return numbers as they are, other values by their place among all."""
    if isinstance(value, (int, float)):
        return float(value)
    return float(sorted({str(p[column]) for p in points}).index(str(value)))


def _rank_correlation(xs: list[float], ys: list[float]) -> float:
    import numpy as np

    if len(set(xs)) < 2 or len(set(ys)) < 2:
        return 0.0
    ranks = [np.argsort(np.argsort(column)) for column in (xs, ys)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _parallel(
    axes: Axes, names: list[str], points: Any, values: list[float], metric: str, mode: str
) -> None:
    """Draw one line per trial through all parameters to the metric; the better, the bluer."""
    columns = [[_number(p[i], points, i) for p in points] for i in range(len(names))]
    scaled = [_to_unit(column) for column in [*columns, list(values)]]
    for number in range(len(values)):
        heights = [column[number] for column in scaled]
        shade = scaled[-1][number] if mode == "min" else 1 - scaled[-1][number]
        axes.plot(range(len(scaled)), heights, color=(shade, 0.2, 1 - shade), alpha=0.5)
    for place, column in enumerate([*zip(*points, strict=True), values] if points else []):
        axes.axvline(place, color="0.8", linewidth=1, zorder=0)
        for height, end in ((-0.02, min), (1.02, max)):
            text = _label(end(column, key=lambda v: (isinstance(v, str), v)))
            axes.text(place, height, text, ha="center", va="top" if height < 0 else "bottom")
    axes.set_xticks(range(len(scaled)), [*names, metric], rotation=20)
    axes.set(title="Parallel coordinates", yticks=[], ylim=(-0.1, 1.1))


def _label(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _to_unit(column: list[float]) -> list[float]:
    """Scale to 0 … 1, by orders of magnitude where the values have several."""
    low, high = min(column, default=0.0), max(column, default=1.0)
    if low > 0 and high / low > _ORDERS:
        return _to_unit([math.log(value) for value in column])
    return [(value - low) / ((high - low) or 1.0) for value in column]
