"""skate.tune side by side with Ray Tune, Optuna and work by hand, as ratios in one run.

The trivial objective reports 10 times; ASHA stops most trials earlier. The real one trains a small
convolutional network. Every number comes from a process of its own.

    python -m benchmarks.tune                   everything
    python -m benchmarks.tune --no-ray          without Ray, which takes most of the time
    python -m benchmarks.tune --only reports    the rows whose name contains "reports"
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.alone import report
from benchmarks.rows import Goal, Row, at_least, at_most, share_of, times_ray

REPORTS, MANY_REPORTS, TRAININGS, EPOCHS = 10, 6000, 10, 3
MANY, VERY_MANY = 2_000, 50_000

within_hand = Goal("<= 1.03 x by hand", ("hand",), lambda v: v["skate"] <= 1.03 * v["hand"])
half_of_optuna = Goal("<= 0.5 of optuna", ("optuna",), lambda v: v["skate"] <= 0.5 * v["optuna"])
not_growing = at_most(1.3, "x")
FOLDER = "SKATE_BENCHMARK_FOLDER"  # where the measured processes leave their files

TABLE = (
    Row("few", "40 trials with ASHA", "trials/s",
        (at_least(100, "/s"), times_ray(150)), ("ray", "optuna")),
    Row("many", "2,000 trials with ASHA, start-up aside", "trials/s",
        (at_least(800, "/s"), share_of("optuna", 2)), ("optuna",)),
    Row("driver", "CPU time of the driver, of the same 2,000 trials", "us/trial",
        (half_of_optuna,), ("optuna",), less_is_better=True),
    Row("growth", "time of the last 500 of 2,000 trials / the first 500", "x",
        (not_growing,), (), less_is_better=True),
    Row("linear", "time of the last 5,000 of 50,000 trials / the first 5,000", "x",
        (not_growing,), (), less_is_better=True),
    Row("memory", "growth of memory from trial 500 to 2,000", "kB/trial",
        (at_most(4, "kB"),), (), less_is_better=True),
    Row("reports", "reports of one trial", "/s", (at_least(3000, "/s"),), ("ray",)),
    Row("training", "10 trainings of a small network", "s",
        (within_hand,), ("hand",), less_is_better=True),
)  # fmt: skip


# -- objectives -----------------------------------------------------------------------------------


def values(x: float) -> list[float]:
    return [(x - 3) ** 2 + 1 / (step + 1) for step in range(REPORTS)]


def train_network(width: int, report: Callable[[float], None]) -> None:
    """A few epochs on random images."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, width), nn.ReLU(), nn.Linear(width, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(1024, 3, 32, 32), torch.randint(0, 10, (1024,))
    for _ in range(EPOCHS):
        for start in range(0, len(images), 16):
            part = slice(start, start + 16)
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(net(images[part]), labels[part])
            loss.backward()
            optimizer.step()
        report(loss.item())


def _ignore(loss: float) -> None:
    pass


def _nothing() -> None:
    pass


def _train_alone(width: int) -> None:
    train_network(width, _ignore)


# -- systems --------------------------------------------------------------------------------------


class Library:
    """skate or Ray: the same calls."""

    def __init__(self, name: str, folder: str) -> None:
        import importlib

        self.folder = folder
        self.tune: Any = importlib.import_module(f"{name}.tune")
        self.schedulers: Any = importlib.import_module(f"{name}.tune.schedulers")
        core: Any = importlib.import_module(name)
        extra = {"include_dashboard": False, "log_to_driver": False} if name == "ray" else {}
        core.init(num_cpus=2, **extra)

    def search(self, trials: int, **options: Any) -> Any:
        tune = self.tune

        def objective(config: dict[str, float]) -> None:
            for loss in values(config["x"]):
                tune.report({"loss": loss})

        space = {"x": tune.uniform(0, 10)}
        scheduler = self.schedulers.ASHAScheduler()
        return self.run(
            objective, config=space, num_samples=trials, metric="loss", mode="min",
            scheduler=scheduler, **options,
        )  # fmt: skip

    def run(self, trainable: Any, **options: Any) -> Any:
        return self.tune.run(trainable, storage_path=self.folder, verbose=0, **options)

    def few(self) -> float:
        self.search(2)
        start = time.perf_counter()
        self.search(40)
        return 40 / (time.perf_counter() - start)

    def reports(self) -> float:
        tune, count = self.tune, MANY_REPORTS if self.tune.__name__ == "skate.tune" else 200

        def objective(config: dict[str, Any]) -> None:
            for step in range(count):
                tune.report({"loss": step})

        self.search(2)
        start = time.perf_counter()
        self.run(objective)
        return count / (time.perf_counter() - start)

    def many(self) -> float:
        self.search(2)
        start = time.perf_counter()
        self.search(MANY)
        return MANY / (time.perf_counter() - start)

    def driver(self) -> float:
        """The workers run beside it: two cores are used well if both need the same time."""
        self.search(2)
        start = time.process_time()
        self.search(MANY)
        return (time.process_time() - start) / MANY * 1e6

    def growth(self) -> float:
        """By the time that this process works, which others on the machine do not change."""
        return _last_over_first(self._watched(MANY)[0], 500)

    def linear(self) -> float:
        return _last_over_first(self._watched(VERY_MANY)[0], 5_000)

    def memory(self) -> float:
        sizes = self._watched(MANY)[1]
        return (sizes[MANY - 1] - sizes[499]) / (MANY - 500)

    def _watched(self, trials: int) -> tuple[list[float], list[float]]:
        """How long this process had worked when each trial ended (s), and how large it was
        (kB)."""
        stamps: list[float] = []
        sizes: list[float] = []

        class Watch(self.tune.Callback):  # type: ignore[name-defined, misc]
            def on_trial_complete(self, *args: Any, **info: Any) -> None:
                stamps.append(time.process_time())
                sizes.append(_resident())

        self.search(trials, callbacks=[Watch()])
        return stamps, sizes

    def training(self) -> float:
        tune = self.tune

        def objective(config: dict[str, int]) -> None:
            train_network(config["width"], lambda loss: tune.report({"loss": loss}))

        import torch

        def first(config: dict[str, Any]) -> None:
            tune.report({"loss": float(torch.zeros(1))})

        space = {"width": tune.grid_search([16 * (n + 1) for n in range(TRAININGS)])}
        self.run(first, num_samples=2)  # as by hand: torch is there
        start = time.perf_counter()
        self.run(objective, config=space)
        return time.perf_counter() - start


def _last_over_first(stamps: list[float], part: int) -> float:
    return (stamps[-1] - stamps[-part]) / (stamps[part - 1] - stamps[0])


def optuna_in_threads(trials: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how many seconds the trials take."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        for step, loss in enumerate(values(trial.suggest_float("x", 0, 10))):
            trial.report(loss, step)
            if trial.should_prune():
                break
        return loss

    sampler = optuna.samplers.RandomSampler()
    pruner = optuna.pruners.SuccessiveHalvingPruner()
    study = optuna.create_study(sampler=sampler, pruner=pruner)
    start = clock()
    study.optimize(objective, n_trials=trials, n_jobs=2)
    return clock() - start


def trainings_by_hand() -> float:
    """Two processes that share the trainings, forked from one that has torch already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    first = context.Process(target=_nothing)
    first.start()
    first.join()
    start = time.perf_counter()
    with context.Pool(2) as pool:
        pool.map(_train_alone, [16 * (n + 1) for n in range(TRAININGS)], chunksize=1)
    return time.perf_counter() - start


def _resident() -> float:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / 1024


def measure(system: str, name: str, folder: str) -> float:
    if system == "optuna":
        if name == "driver":
            return optuna_in_threads(MANY, time.process_time) / MANY * 1e6
        trials = MANY if name == "many" else 40
        return trials / optuna_in_threads(trials)
    if system == "hand":
        return trainings_by_hand()
    number: float = getattr(Library(system, folder), name)()
    return number


# -- the table ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--no-ray", action="store_true", help="without Ray")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "ROW"), help="one number")
    options = parser.parse_args()
    if options.one:
        system, name = options.one
        with folder_of_one() as folder, contextlib.redirect_stdout(sys.stderr):
            number = measure(system, name, folder)
        print(json.dumps(number))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = folder
        for row in TABLE:
            if options.only in row.name:
                report("tune", row, options.no_ray)


@contextlib.contextmanager
def folder_of_one() -> Iterator[str]:
    """A folder for the files of one number. They are deleted when all rows are done: for some
    seconds after thousands of files were deleted, ext4 takes ten times as long to make one."""
    if FOLDER in os.environ:
        yield tempfile.mkdtemp(dir=os.environ[FOLDER])
        return
    with tempfile.TemporaryDirectory() as folder:
        yield folder


if __name__ == "__main__":
    main()
