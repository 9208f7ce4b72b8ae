"""The same seed, the same search: suggestions and decisions come again, whoever is faster."""

import contextlib
import importlib
import random
import tempfile
import time

import numpy as np
import pytest

import skate
from skate import tune
from skate.tune import Checkpoint, TuneConfig, Tuner
from skate.tune.execution.seeding import SeededDraws
from skate.tune.schedulers import (
    PB2,
    ASHAScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
)
from skate.tune.search import ConcurrencyLimiter, Repeater, create_searcher

SPACE = {"x": tune.uniform(0, 10), "y": tune.uniform(-1, 1)}


def objective(config):
    """Report a few times, after pauses that are different each time."""
    first, loss = 0, (config["x"] - 3) ** 2
    if (checkpoint := tune.get_checkpoint()) is not None:
        state = checkpoint.to_dict()
        first, loss = state["step"], state["loss"]
    for step in range(first + 1, 4):
        time.sleep(np.random.default_rng().uniform(0, 0.004))
        loss = 0.9 * loss + abs(config["y"])
        checkpoint = Checkpoint.from_dict({"step": step, "loss": loss})
        tune.report({"loss": loss}, checkpoint=checkpoint)


def at_once(config):
    time.sleep(np.random.default_rng().uniform(0, 0.004))
    return {"loss": (config["x"] - 3) ** 2 + abs(config["y"])}


def pbt():
    return PopulationBasedTraining(
        "training_iteration",
        perturbation_interval=1,
        quantile_fraction=0.5,
        hyperparam_mutations={"x": tune.uniform(0, 10), "y": [-1.0, -0.5, 0.0, 0.5, 1.0]},
    )


SEARCHERS = {
    "random": lambda: None,
    "drawn by functions": lambda: None,
    "optuna": lambda: create_searcher("optuna"),
    "hyperopt": lambda: create_searcher("hyperopt", n_initial_points=3),
    "bayesopt": lambda: create_searcher("bayesopt", random_search_steps=2),
    "nevergrad": lambda: create_searcher("nevergrad"),
    "limited": lambda: ConcurrencyLimiter(create_searcher("optuna"), max_concurrent=1),
    "repeated": lambda: Repeater(create_searcher("hyperopt", n_initial_points=2), repeat=2),
}
SCHEDULERS = {
    "asha": lambda: ASHAScheduler(max_t=3, reduction_factor=2, brackets=2),
    "hyperband": lambda: HyperBandScheduler(max_t=3, reduction_factor=2),
    "bohb": lambda: HyperBandForBOHB(max_t=3, reduction_factor=2),
    "median": lambda: MedianStoppingRule(
        "training_iteration", grace_period=0, min_samples_required=1
    ),
    "pbt": pbt,
    "pb2": lambda: PB2(
        "training_iteration",
        perturbation_interval=1,
        quantile_fraction=0.5,
        hyperparam_bounds={"x": [0, 10], "y": [-1, 1]},
    ),
    "resources": lambda: ResourceChangingScheduler(ASHAScheduler(max_t=3, reduction_factor=2)),
}


@contextlib.contextmanager
def engine(name):
    skate.init(engine=name, num_cpus=2)
    try:
        yield
    finally:
        skate.shutdown()


def course(searcher=None, scheduler=None, seed=7, space=SPACE):
    """What a search has tried, how far each trial came, and to what."""
    with tempfile.TemporaryDirectory() as folder:
        tuner = Tuner(
            at_once if scheduler is None else objective,
            param_space=space,
            tune_config=TuneConfig(
                metric="loss", mode="min", num_samples=5, seed=seed,
                search_alg=searcher, scheduler=scheduler,
            ),
            run_config={"storage_path": folder, "verbose": 0},
        )  # fmt: skip
        trials = tuner.fit()._experiment_analysis.trials
    return [
        (trial.config, trial.num_results, trial.last_result["training_iteration"],
         trial.last_result["loss"])
        for trial in trials
    ]  # fmt: skip


def by_functions():
    return {
        "x": tune.sample_from(lambda _: random.uniform(0, 10)),
        "y": tune.sample_from(lambda _: float(np.random.uniform(-1, 1))),
    }


@pytest.fixture(scope="module")
def courses():
    """The course of each search on the local and on the inline engine, where nothing is as fast
    as on the other."""
    bayes_opt = importlib.import_module("bayes_opt")  # here, so that workers do not import it
    bayes_opt.UtilityFunction = None  # Nevergrad is for an earlier one, and asks for no more here
    importlib.import_module("nevergrad")

    def all_of_them():
        for name, make in SEARCHERS.items():
            space = by_functions() if name == "drawn by functions" else SPACE
            yield ("searcher", name), course(make(), space=space)
        for name, make in SCHEDULERS.items():
            yield ("scheduler", name), course(scheduler=make())

    with engine("local"):
        local = dict(all_of_them())
    with engine("inline"):
        inline = dict(all_of_them())
    return local, inline


CASES = [*(("searcher", name) for name in SEARCHERS), *(("scheduler", n) for n in SCHEDULERS)]


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_search_repeats_itself_under_its_seed(courses, case):
    local, inline = (one[case] for one in courses)
    assert local == inline


def test_other_seeds_search_elsewhere(courses):
    with engine("inline"):
        assert course(seed=8) != courses[0]["searcher", "random"]


def test_decisions_were_made_at_all(courses):
    """So that what is compared above can differ."""
    for name in ("asha", "hyperband", "bohb", "median"):
        lengths = {length for _, length, _, _ in courses[0]["scheduler", name]}
        assert len(lengths) > 1, name
    undisturbed = [config for config, *_ in courses[0]["searcher", "random"]]
    for name in ("pbt", "pb2"):
        assert [config for config, *_ in courses[0]["scheduler", name]] != undisturbed


def test_draws_of_others_are_not_touched():
    draws, again = SeededDraws(3), SeededDraws(3)
    random.seed(1)
    np.random.seed(1)
    expected = random.Random(1).random(), np.random.RandomState(1).uniform()
    with draws:
        first = random.random(), np.random.uniform()
        with draws:
            second = random.random(), np.random.uniform()
    assert (random.random(), np.random.uniform()) == expected
    with again:
        assert (random.random(), np.random.uniform()) == first
    with again:
        assert (random.random(), np.random.uniform()) == second


@pytest.mark.parametrize("wrong", [-1, 1.5, "7", True])
def test_a_seed_is_a_whole_number(wrong):
    with pytest.raises(ValueError, match=f"seed takes a whole number from 0 on; got {wrong!r}"):
        TuneConfig(seed=wrong)
