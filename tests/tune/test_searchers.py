"""One contract for all searchers, and the wrappers around them."""

import importlib
import math
import sys

import bayes_opt
import numpy as np
import pytest
from optuna import load_study

from skate import tune
from skate.tune.search import ConcurrencyLimiter, Repeater, Searcher, create_searcher
from skate.tune.search.bayesopt import BayesOptSearch
from skate.tune.search.hyperopt import HyperOptSearch
from skate.tune.search.nevergrad import NevergradSearch
from skate.tune.search.optuna import OptunaSearch
from skate.tune.search.search_generator import SearchGenerator

bayes_opt.UtilityFunction = None  # Nevergrad is for an earlier one, and asks for no more here
ng = importlib.import_module("nevergrad")

SPACE = {"x": tune.uniform(0, 10), "n": {"y": tune.uniform(-1, 1)}, "constant": 5}


def optuna(**options):
    return OptunaSearch(seed=1, **options)


def hyperopt(**options):
    return HyperOptSearch(random_state_seed=1, n_initial_points=5, **options)


def bayesopt(**options):
    return BayesOptSearch(random_search_steps=3, patience=50, skip_duplicate=False, **options)


def nevergrad(**options):
    np.random.seed(3)  # where Nevergrad takes its own seed from
    return NevergradSearch(ng.optimizers.OnePlusOne, **options)


SEARCHERS = [optuna, hyperopt, bayesopt, nevergrad]
ROUNDS = {
    optuna: 40,
    hyperopt: 40,
    bayesopt: 7,
    nevergrad: 40,
}  # a Gaussian process thinks for a second


def loss(config):
    return (config["x"] - 3) ** 2 + config["n"]["y"] ** 2


def result(config, step=1):
    return {"loss": loss(config), "training_iteration": step}


def search(searcher, rounds, start=0):
    found = []
    for number in range(start, start + rounds):
        config = searcher.suggest(f"t{number}")
        searcher.on_trial_result(f"t{number}", result(config))
        searcher.on_trial_complete(f"t{number}", result(config))
        found.append(config)
    return found


@pytest.fixture(params=SEARCHERS)
def make(request):
    def made(space=SPACE, metric="loss", mode="min", **options):
        searcher = request.param(**options)
        assert searcher.set_search_properties(metric, mode, space)
        return searcher

    made.rounds = ROUNDS[request.param]
    made.kind = request.param
    return made


class TestContract:
    def test_suggestions_are_within_the_space(self, make):
        for config in search(make(), 4):
            assert 0 <= config["x"] <= 10
            assert -1 <= config["n"]["y"] <= 1

    def test_it_finds_what_is_good(self, make):
        assert min(loss(config) for config in search(make(), make.rounds)) < 6

    def test_given_points_come_first_in_their_order(self, make):
        points = [{"x": 1.0, "n": {"y": 0.5}}, {"x": 2.0, "n": {"y": -0.5}}]
        first = search(make(points_to_evaluate=points), 2)
        for config, point in zip(first, points, strict=True):
            assert config["x"] == point["x"]
            assert config["n"] == point["n"]

    def test_going_on_from_a_file_is_going_on(self, make, tmp_path):
        whole = make()
        search(whole, 5)
        whole.save(str(tmp_path / "state"))
        restored = make()
        restored.restore(str(tmp_path / "state"))
        assert search(restored, 2, start=5) == search(whole, 2, start=5)

    def test_failures_and_unknown_trials_are_no_problem(self, make):
        searcher = make()
        searcher.suggest("a")
        searcher.on_trial_complete("a", error=True)
        searcher.on_trial_complete("nobody", {"loss": 1.0})
        searcher.suggest("b")
        searcher.on_trial_complete("b", {"loss": math.nan, "training_iteration": 1})
        assert searcher.suggest("c") is not None

    def test_a_space_is_taken_once(self, make):
        assert not make().set_search_properties("loss", "min", SPACE)

    def test_with_a_space_of_its_own_it_takes_the_metric_of_the_tuner(self, make):
        searcher = make.kind(space=SPACE)
        assert not searcher.set_search_properties("loss", "max", {})
        assert (searcher.metric, searcher.mode) == ("loss", "max")
        assert len(search(searcher, 2)) == 2

    def test_no_metric_no_space(self, make):
        with pytest.raises(RuntimeError, match="metric"):
            make(metric=None, mode=None).suggest("a")

    def test_grids_are_refused(self, make):
        with pytest.raises(ValueError, match="grid"):
            make(space={"x": tune.grid_search([1, 2])})

    def test_more_is_better_with_max(self, make):
        searcher = make(space={"x": tune.uniform(0, 10)}, mode="max")
        values = []
        for number in range(make.rounds):
            values.append(searcher.suggest(str(number))["x"])
            searcher.on_trial_complete(str(number), {"loss": values[-1], "training_iteration": 1})
        assert sum(values[-4:]) / 4 > 5


class TestOptuna:
    def test_every_kind_of_domain(self):
        space = {
            "a": tune.quniform(0, 1, 0.25), "b": tune.randint(1, 5), "c": tune.qrandint(2, 8, 2),
            "d": tune.lograndint(1, 100), "e": tune.choice(["x", "y"]), "f": tune.loguniform(1, 9),
            "g": tune.qloguniform(2, 8, 2), "h": tune.sample_from(lambda: 1),
        }  # fmt: skip
        with pytest.raises(ValueError, match="'z'"):
            optuna(metric="loss", mode="min", space={"z": tune.randn(0, 1)})
        searcher = optuna(metric="loss", mode="min", space=space)
        for number in range(20):
            config = searcher.suggest(str(number))
            assert config["a"] % 0.25 == 0
            assert 1 <= config["b"] <= 4
            assert config["c"] in (2, 4, 6, 8)
            assert 1 <= config["d"] < 100
            assert config["e"] in "xy"
            assert 1 <= config["f"] <= 9
            assert config["g"] % 2 == 0
            assert "h" not in config

    def test_define_by_run(self):
        def space(trial):
            kind = trial.suggest_categorical("kind", ["a", "b"])
            if kind == "a":
                trial.suggest_float("n/x", 0, 1)
            return {"constant": 3}

        searcher = optuna(space=space, metric="loss", mode="min")
        for number in range(8):
            config = searcher.suggest(str(number))
            assert config["constant"] == 3
            assert ("n" in config) == (config["kind"] == "a")
        with pytest.raises(TypeError, match="function"):
            searcher.add_evaluated_point({"kind": "a"}, 1.0)

    def test_known_points(self):
        points = [{"x": 3.0, "n": {"y": 0.0}}, {"x": 9.0, "n": {"y": 1.0}}]
        searcher = optuna(points_to_evaluate=points, evaluated_rewards=[0.0, 37.0])
        searcher.set_search_properties("loss", "min", SPACE)
        assert [trial.value for trial in searcher._ot_study.trials] == [0.0, 37.0]
        with pytest.raises(ValueError, match="one evaluated reward per point"):
            optuna(points_to_evaluate=points, evaluated_rewards=[1.0])

    def test_several_objectives(self):
        searcher = optuna(metric=["a", "b"], mode=["min", "max"], space={"x": tune.uniform(0, 1)})
        searcher.suggest("t")
        searcher.on_trial_result("t", {"a": 1, "b": 2, "training_iteration": 1})
        searcher.on_trial_complete("t", {"a": 1, "b": 2})
        assert searcher._ot_study.trials[0].values == [1, 2]

    @pytest.mark.parametrize(
        "wrong",
        [{"sampler": 3}, {"storage": "x"}, {"mode": "up"}, {"metric": ["a"], "mode": "min"}],
    )
    def test_wrong_arguments(self, wrong):
        with pytest.raises((TypeError, ValueError)):
            OptunaSearch(**wrong)


def test_hyperopt_conditional_spaces():
    space = {
        "model": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b"}]),
        "k": tune.randint(1, 4),
        "q": tune.qrandint(2, 8, 2),
    }
    searcher = hyperopt(metric="loss", mode="min", space=space)
    kinds = set()
    for number in range(15):
        config = searcher.suggest(str(number))
        kinds.add(config["model"]["kind"])
        assert ("x" in config["model"]) == (config["model"]["kind"] == "a")
        assert config["k"] in (1, 2, 3)
        assert config["q"] in (2, 4, 6, 8)
    assert kinds == {"a", "b"}


def test_options_of_a_choice_may_have_the_same_keys():
    options = [{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "x": tune.uniform(5, 6)}]
    searcher = hyperopt(metric="loss", mode="min", space={"model": tune.choice(options)})
    low = {"a": 0, "b": 5}
    models = [searcher.suggest(str(number))["model"] for number in range(15)]
    assert {model["kind"] for model in models} == {"a", "b"}
    assert all(0 <= model["x"] - low[model["kind"]] <= 1 for model in models)


def test_points_of_hyperopt_name_options_or_their_position():
    from hyperopt import hp

    space = {"x": hp.uniform("x", 0, 1), "kind": hp.choice("kind", ["relu", "tanh"])}
    points = [{"x": 0.5, "kind": "tanh"}, {"x": 0.25, "kind": 0}]
    searcher = hyperopt(metric="loss", mode="min", space=space, points_to_evaluate=points)
    assert [searcher.suggest(name)["kind"] for name in "ab"] == ["tanh", "relu"]
    wrong = [{"x": 0.5, "kind": 2}]
    with pytest.raises(ValueError, match=r"kind=2, which is none of \['relu', 'tanh'\]"):
        hyperopt(metric="loss", mode="min", space=space, points_to_evaluate=wrong).suggest("a")


def test_bayesopt_ends_when_it_repeats_itself():
    searcher = BayesOptSearch(
        {"x": (0, 1)}, metric="m", mode="max", patience=2, skip_duplicate=False,
        points_to_evaluate=[{"x": 0.5}] * 3,
    )  # fmt: skip
    assert [searcher.suggest(str(n)) for n in range(3)][-1] == Searcher.FINISHED
    with pytest.raises(ValueError, match="'ei'"):
        BayesOptSearch(utility_kwargs={"kind": "guess"})


class Counting(Searcher):
    """Suggests 0, 1, 2 …, and notes what it hears."""

    def __init__(self):
        super().__init__("loss", "min")
        self.made, self.heard = 0, {}

    def suggest(self, trial_id):
        self.made += 1
        return {"x": self.made - 1}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard[trial_id] = (result, error)


class Pausable(Counting):
    """Wants to know who waits."""

    def __init__(self):
        super().__init__()
        self.events = []

    def on_pause(self, trial_id):
        self.events.append(f"pause {trial_id}")

    def on_unpause(self, trial_id):
        self.events.append(f"unpause {trial_id}")


@pytest.mark.parametrize("make", [optuna, bayesopt, nevergrad])
def test_lists_of_the_space_stay_lists(make, tmp_path):
    space = {"layers": [tune.uniform(1, 2), 5, {"size": tune.uniform(3, 4)}], "pair": (1, 2)}
    searcher = make(metric="loss", mode="min")
    searcher.set_search_properties(None, None, space)
    search = SearchGenerator(searcher)
    search.add_configurations(
        tune.Experiment("e", lambda config: 1, config=space, storage_path=tmp_path)
    )
    config = search.next_trial().config
    first, second, third = config["layers"]
    assert 1 <= first <= 2
    assert second == 5
    assert 3 <= third["size"] <= 4
    assert config["pair"] == (1, 2)
    searcher.add_evaluated_point(config, 0.5)


class TestNevergrad:
    def test_all_kinds_of_domains(self):
        space = {
            "lr": tune.loguniform(1e-4, 1e-1), "step": tune.quniform(0, 10, 2.5),
            "n": tune.randint(1, 4), "m": tune.lograndint(1, 100), "k": tune.qrandint(0, 8, 4),
            "act": tune.choice(["relu", "tanh"]), "noise": tune.randn(5, 0.1),
        }  # fmt: skip
        searcher = nevergrad(space=space, metric="loss", mode="min")
        for number in range(30):
            config = searcher.suggest(str(number))
            assert 0.99e-4 <= config["lr"] <= 1.01e-1
            assert config["step"] in (0, 2.5, 5, 7.5, 10)
            assert config["n"] in (1, 2, 3)
            assert isinstance(config["m"], int)
            assert 1 <= config["m"] < 100
            assert config["k"] in (0, 4, 8)
            assert config["act"] in ("relu", "tanh")
            searcher.on_trial_complete(str(number), {"loss": config["noise"]})
        assert searcher._nevergrad_opt.num_tell == 30

    def test_nevergrads_own_words(self):
        own = ng.p.Dict(x=ng.p.Scalar(lower=0, upper=1), a=ng.p.Choice(["b", "c"]))
        searcher = NevergradSearch(space=own, metric="loss", mode="max")
        assert set(searcher.suggest("a")) == {"x", "a"}
        made = ng.optimizers.OnePlusOne(2)
        named = NevergradSearch(made, space=["x", "n/y"], metric="loss", mode="min")
        config = named.suggest("a")
        assert set(config) == {"x", "n"}
        named.on_trial_complete("a", {"loss": 2.0})
        assert made.num_tell == 1

    def test_another_package_that_it_cannot_live_with(self, monkeypatch):
        monkeypatch.delattr(bayes_opt, "UtilityFunction")
        for name in [name for name in sys.modules if name.partition(".")[0] == "nevergrad"]:
            monkeypatch.delitem(sys.modules, name)
        with pytest.raises(ImportError, match=r"bayesian-optimization==1\.4\.0"):
            NevergradSearch()

    def test_mistakes(self):
        made = ng.optimizers.OnePlusOne(2)
        with pytest.raises(ValueError, match="has its space"):
            NevergradSearch(made, space={"x": tune.uniform(0, 1)})
        with pytest.raises(ValueError, match="no optimizer_kwargs"):
            NevergradSearch(made, {"budget": 3})
        with pytest.raises(ValueError, match=r"2 values"):
            NevergradSearch(made, space=["x"], metric="loss", mode="min")
        with pytest.raises(ValueError, match="got 5"):
            NevergradSearch(5)


class TestWrappers:
    def test_a_limit(self):
        limited = ConcurrencyLimiter(Counting(), max_concurrent=2)
        assert [limited.suggest(name) for name in "abc"] == [{"x": 0}, {"x": 1}, None]
        limited.on_trial_complete("a", {"loss": 1})
        assert limited.suggest("c") == {"x": 2}
        assert limited.metric == "loss"

    def test_a_paused_trial_is_not_forgotten(self):
        limited = ConcurrencyLimiter(Repeater(Pausable(), repeat=1), max_concurrent=1)
        limited.suggest("a")
        limited.on_pause("a")
        assert limited.suggest("b") is None
        limited.on_unpause("a")
        limited.on_trial_complete("a", {"loss": 1})
        inner = limited.searcher.searcher
        assert inner.events == ["pause a", "unpause a"]
        assert set(inner.heard) == {"a"}

    def test_batches_are_told_together(self):
        limited = ConcurrencyLimiter(Counting(), max_concurrent=2, batch=True)
        limited.suggest("a")
        limited.suggest("b")
        limited.on_trial_complete("a", {"loss": 1})
        assert limited.searcher.heard == {}
        assert limited.suggest("c") is None
        limited.on_trial_complete("b", {"loss": 2})
        assert set(limited.searcher.heard) == {"a", "b"}
        assert limited.suggest("c") is not None

    def test_repetitions_are_told_as_their_mean(self):
        repeated = Repeater(Counting(), repeat=3)
        configs = [repeated.suggest(name) for name in "abcd"]
        assert [c["x"] for c in configs] == [0, 0, 0, 1]
        assert [c["__trial_index__"] for c in configs] == [0, 1, 2, 0]
        for name, value in zip("abc", (1.0, 2.0, 6.0), strict=True):
            repeated.on_trial_complete(name, {"loss": value})
        assert repeated.searcher.heard["a"][0]["loss"] == 3.0

    def test_wrong_arguments(self):
        with pytest.raises(TypeError):
            ConcurrencyLimiter("optuna", 1)
        with pytest.raises(ValueError, match="from 1"):
            ConcurrencyLimiter(Counting(), 0)
        with pytest.raises(ValueError, match="from 1"):
            Repeater(Counting(), 0)


def test_searchers_by_name():
    assert isinstance(create_searcher("optuna", metric="a", mode="min"), OptunaSearch)
    with pytest.raises(ValueError, match="hyperopt"):
        create_searcher("nonsense")


@pytest.mark.parametrize("limit", [None, 2])
def test_a_searcher_that_was_written_before_there_was_a_spec(session, limit, tmp_path):
    class Old(Counting):
        def set_search_properties(self, metric, mode, config):
            self.told = (metric, mode, config)
            return True

    searcher = Old()
    tune.run(
        lambda config: tune.report(loss=config["x"]),
        config={"limit": 3},
        metric="loss",
        mode="min",
        search_alg=searcher if limit is None else ConcurrencyLimiter(searcher, limit),
        num_samples=2,
        verbose=0,
        storage_path=str(tmp_path),
    )
    assert searcher.told == ("loss", "min", {"limit": 3})


def test_optuna_keeps_its_study_in_a_database(tmp_path):
    url = f"sqlite:///{tmp_path}/search.db"
    for first in (0, 3):
        search = OptunaSearch(
            {"x": tune.uniform(0, 1)}, metric="m", mode="min", storage=url, study_name="mine"
        )
        for number in range(first, first + 3):
            config = search.suggest(str(number))
            search.on_trial_complete(str(number), {"m": config["x"]})
    trials = load_study(study_name="mine", storage=url).trials
    assert len(trials) == 6
    assert all(trial.values == [trial.params["x"]] for trial in trials)
