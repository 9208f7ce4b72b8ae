"""How good tune's searchers and schedulers are, beside Optuna alone and Syne Tune.

15 tables of trainings that were done (`hpo_tables.py`), 10 seeds, 100 trials, 4 at a time, on a
simulated clock (`hpo_simulation.py`). Each of skate's methods is compared with those of the peers
that do the same, by the regret of its best model after all trials, and on average over the time
until both have ended; a Wilcoxon test over all tables and seeds says whether it is worse.

    python -m benchmarks.hpo                        everything: half an hour on two cores
    python -m benchmarks.hpo --short                2 tables, 2 seeds
    python -m benchmarks.hpo --only ASHA BOHB       these methods, and their peers
    python -m benchmarks.hpo --figure docs/img/regret.svg
"""

from __future__ import annotations

import argparse
import bisect
import functools
import json
import logging
import warnings
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import skate
from benchmarks.hpo_simulation import (
    PLACES,
    Curve,
    OptunaStudy,
    Search,
    SkateSearch,
    SyneTuneSearch,
    seed_global_draws,
    simulate,
)
from benchmarks.hpo_tables import STEPS, TABLES, Table, table

TRIALS, SEEDS, ETA = 100, 10, 3
POPULATION_INTERVAL = 3  # steps
SIGNIFICANT = 0.05

PAIRS = {
    "random": ("Optuna random", "Syne Tune random"),
    "OptunaSearch": ("Optuna TPE", "Syne Tune TPE"),
    "ASHA": ("Optuna random, halving", "Syne Tune ASHA"),
    "OptunaSearch, ASHA": ("Optuna TPE, halving",),
    "HyperBand": ("Optuna random, Hyperband",),
    "BOHB": ("Optuna TPE, Hyperband", "Syne Tune BOHB"),
    "PB2": ("Syne Tune PBT",),
}

Curves = dict[str, dict[str, list[Curve]]]
"""By method and table, one per seed."""


# -- methods --------------------------------------------------------------------------------------


def skate_search(name: str, known: Table, trials: int, seed: int) -> Search:
    from skate.tune.schedulers import (
        PB2,
        ASHAScheduler,
        HyperBandForBOHB,
        HyperBandScheduler,
    )
    from skate.tune.search.bohb import TuneBOHB
    from skate.tune.search.optuna import OptunaSearch

    rounds: dict[str, Any] = {"max_t": STEPS, "reduction_factor": ETA}
    make: dict[str, Callable[[], tuple[Any, Any]]] = {
        "random": lambda: (None, None),
        "OptunaSearch": lambda: (OptunaSearch(), None),
        "ASHA": lambda: (None, ASHAScheduler(**rounds)),
        "OptunaSearch, ASHA": lambda: (OptunaSearch(), ASHAScheduler(**rounds)),
        "HyperBand": lambda: (None, HyperBandScheduler(**rounds)),
        "BOHB": lambda: (TuneBOHB(), HyperBandForBOHB(**rounds)),
        "PB2": lambda: (
            None,
            PB2(
                "training_iteration",
                perturbation_interval=POPULATION_INTERVAL,
                hyperparam_bounds={one: [0, n - 1] for one, n in known.numbers.items()},
                log_config=False,
            ),
        ),
    }
    search_alg, scheduler = make[name]()
    population = PLACES if name == "PB2" else None  # as many as run, as with Syne Tune
    return SkateSearch(known, trials, seed, search_alg, scheduler, population)


def optuna_study(name: str, known: Table, trials: int, seed: int) -> Search:
    from optuna import pruners, samplers

    sampler, _, pruner = name.partition(", ")
    choosing: dict[str, Any] = {"random": samplers.RandomSampler, "TPE": samplers.TPESampler}
    pruning: dict[str, Callable[[], Any]] = {
        "": pruners.NopPruner,
        "halving": lambda: pruners.SuccessiveHalvingPruner(1, ETA),
        "Hyperband": lambda: pruners.HyperbandPruner(1, STEPS, ETA),
    }
    return OptunaStudy(known, trials, choosing[sampler](seed=seed), pruning[pruner]())


def syne_tune_search(name: str, known: Table, trials: int, seed: int) -> Search:
    from syne_tune.optimizer import baselines
    from syne_tune.optimizer.schedulers.pbt import PopulationBasedTraining

    logging.getLogger("syne_tune").setLevel(logging.ERROR)
    common: dict[str, Any] = {"metric": "loss", "random_seed": seed}
    rounds: dict[str, Any] = {**common, "time_attr": "epoch", "max_t": STEPS}
    make: dict[str, Callable[[dict[str, Any]], Any]] = {
        "random": lambda space: baselines.RandomSearch(
            space, ["loss"], do_minimize=True, random_seed=seed
        ),
        "TPE": lambda space: baselines.TPE(space, **common),
        "ASHA": lambda space: baselines.ASHA(space, **rounds, reduction_factor=ETA),
        "BOHB": lambda space: baselines.BOHB(space, **rounds, reduction_factor=ETA),
        "PBT": lambda space: PopulationBasedTraining(
            space, **rounds, perturbation_interval=POPULATION_INTERVAL
        ),
    }
    return SyneTuneSearch(known, trials, make[name])


def new_search(method: str, known: Table, trials: int, seed: int) -> Search:
    for peer, make in {"Optuna ": optuna_study, "Syne Tune ": syne_tune_search}.items():
        if method.startswith(peer):
            return make(method.removeprefix(peer), known, trials, seed)
    return skate_search(method, known, trials, seed)


def fits(method: str, name: str) -> bool:
    """Whether a method can search a table: PB2 changes numbers, of which some have none."""
    return method not in ("PB2", *PAIRS["PB2"]) or not name.startswith("NASBench201")


# -- running --------------------------------------------------------------------------------------


def curves_of(method: str, name: str, seeds: int, trials: int) -> list[Curve]:
    warnings.simplefilter("ignore")  # of packages that are not ours
    known, curves = table(name), []
    for seed in range(seeds):
        seed_global_draws(seed)
        curves.append(simulate(new_search(method, known, trials, seed), known, seed))
    return curves


def measure(methods: Iterable[str], tables: Iterable[str], seeds: int) -> Curves:
    """Run all searches, a method on a table at a time on each core."""
    skate.init()
    run = skate.remote(curves_of)
    jobs = [(method, name) for name in tables for method in methods if fits(method, name)]
    refs = [run.remote(method, name, seeds, TRIALS) for method, name in jobs]
    curves: Curves = {method: {} for method in methods}
    for (method, name), ref in zip(jobs, refs, strict=True):
        curves[method][name] = skate.get(ref)
        print(f"  {name}: {method}", flush=True)
    skate.shutdown()
    return curves


# -- comparing ------------------------------------------------------------------------------------


def regret_at(curve: Curve, time: float) -> float:
    """Return the regret of the best model at that time; of a median one, before there is any."""
    place = bisect.bisect_right(curve, time, key=lambda point: point[0])
    return curve[place - 1][1] if place else 1.0


def mean_regret(curve: Curve, end: float) -> float:
    """Return the regret on average until a time."""
    times = [0.0, *(time for time, _ in curve if time < end), end]
    parts = (regret_at(curve, begin) * (after - begin) for begin, after in pairwise(times))
    return sum(parts) / end


def compare(ours: dict[str, list[Curve]], theirs: dict[str, list[Curve]]) -> dict[str, float]:
    """Return the mean regrets of both, and the p of "worse", at the end and on average."""
    from scipy.stats import wilcoxon

    pairs = [pair for name in ours for pair in zip(ours[name], theirs[name], strict=True)]
    found: dict[str, float] = {}
    for what, measured in (("end", regret_at), ("average", mean_regret)):
        ends = [max(a[-1][0], b[-1][0]) for a, b in pairs]
        skates = np.array([measured(a, end) for (a, _), end in zip(pairs, ends, strict=True)])
        others = np.array([measured(b, end) for (_, b), end in zip(pairs, ends, strict=True)])
        same = np.allclose(skates, others)
        found[f"{what}, skate"] = float(skates.mean())
        found[f"{what}, peer"] = float(others.mean())
        found[f"{what}, p"] = (
            1.0 if same else float(wilcoxon(skates, others, alternative="greater").pvalue)
        )
    return found


def report(curves: Curves) -> bool:
    """Print a line per pair; return whether skate is worse in none."""
    fine = True
    for method, peers in PAIRS.items():
        for peer in peers:
            if method not in curves or peer not in curves:
                continue
            found = compare(curves[method], curves[peer])
            worse = [what for what in ("end", "average") if found[f"{what}, p"] < SIGNIFICANT]
            fine = fine and not worse
            numbers = "; ".join(
                f"{what} {found[f'{what}, skate']:.3f} | {found[f'{what}, peer']:.3f} "
                f"(p {found[f'{what}, p']:.3f})"
                for what in ("end", "average")
            )
            print(f"{method} | {peer}: {numbers}  not worse: {'no' if worse else 'yes'}")
    return fine


# -- drawing --------------------------------------------------------------------------------------

PANELS = {
    "Models choose": ("random", "OptunaSearch", *PAIRS["OptunaSearch"]),
    "Trials stop early": ("ASHA", *PAIRS["ASHA"], "HyperBand", *PAIRS["HyperBand"]),
    "Both": (
        "OptunaSearch, ASHA", *PAIRS["OptunaSearch, ASHA"], "BOHB", *PAIRS["BOHB"],
        "PB2", *PAIRS["PB2"],
    ),
}  # fmt: skip


def draw(curves: Curves, path: Path) -> None:
    """Draw the mean regret over all tables and seeds, over time, as an SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "regret"  # the same figure for the same numbers
    from matplotlib import pyplot

    shares = np.geomspace(0.005, 1, 60)
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(13, 4.2), sharey=True)
    for axis, (title, methods) in zip(axes, PANELS.items(), strict=True):
        for method in methods:
            if method in curves:
                ours = method in PAIRS
                label = f"skate {method}" if ours else method
                regrets = [_mean_at(curves[method], share) for share in shares]
                axis.plot(
                    shares, regrets, "-" if ours else ":", label=label, lw=2 if ours else 1.5
                )
        axis.set(title=title, xscale="log", yscale="log")
        axis.set_xlabel("time, of that of 100 whole trainings, 4 at once")
        axis.legend(fontsize=7)
    axes[0].set_ylabel("regret (1: the median configuration)")
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})


def _mean_at(tables: dict[str, list[Curve]], share: float) -> float:
    return float(
        np.mean(
            [
                regret_at(curve, share * TRIALS / 4 * _mean_seconds(name))
                for name, curves in tables.items()
                for curve in curves
            ]
        )
    )


@functools.cache
def _mean_seconds(name: str) -> float:
    return table(name).mean_seconds


# -- the command ----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="2 tables and 2 seeds")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="searches per table and method")
    parser.add_argument("--only", nargs="*", metavar="METHOD", choices=PAIRS, default=[*PAIRS])
    parser.add_argument("--curves", type=Path, help="the file that keeps what was measured")
    parser.add_argument("--figure", type=Path, help="the file of the figure")
    options = parser.parse_args()
    methods = list(dict.fromkeys(m for one in options.only for m in (one, *PAIRS[one])))
    tables, seeds = (TABLES[7:9], 2) if options.short else (TABLES, options.seeds)
    curves = measure(methods, tables, seeds)
    if options.curves is not None:
        options.curves.write_text(json.dumps(curves))
    fine = report(curves)
    if options.figure is not None:
        draw(curves, options.figure)
    raise SystemExit(0 if fine else 1)


if __name__ == "__main__":
    main()
