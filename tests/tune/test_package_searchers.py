"""Searchers of packages that take long to load: the contract of all in one search each."""

import importlib
import math

import pytest
from zoopt import ValueType

from skate import tune
from skate.tune.execution.seeding import SeededDraws
from skate.tune.search import Searcher, create_searcher
from skate.tune.search.zoopt import ZOOptSearch

SPACE = {
    "x": tune.uniform(0, 10), "n": {"y": tune.uniform(-1, 1)}, "k": tune.randint(1, 5),
    "c": tune.choice(["a", "b"]), "l": tune.loguniform(1e-3, 1), "q": tune.quniform(0, 1, 0.25),
    "constant": 5,
}  # fmt: skip
POINT = {"x": 1.0, "n": {"y": 0.5}, "k": 2, "c": "b", "l": 0.125, "q": 0.5}


def loss(config):
    return (config["x"] - 3) ** 2 + config["n"]["y"] ** 2


def check_is_in_space(config):
    assert 0 <= config["x"] <= 10
    assert -1 <= config["n"]["y"] <= 1
    assert config["k"] in (1, 2, 3, 4)
    assert config["c"] in ("a", "b")
    assert 1e-3 <= config["l"] <= 1
    assert config["q"] in (0, 0.25, 0.5, 0.75, 1)
    assert set(config) == set(POINT)


def made(name, seed=3, **options):
    searcher = create_searcher(name, **options)
    searcher.set_seed(seed)
    assert searcher.set_search_properties("loss", "min", SPACE, num_samples=20)
    return searcher


PACKAGES = [
    ("zoopt", "zoopt", "pip install zoopt"),
    ("ax", "ax", "pip install ax-platform"),
    ("hebo", "hebo", "HEBO asks for versions of numpy and others that are not those of today"),
]


@pytest.mark.parametrize(("name", "package", "why"), PACKAGES)
@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
def test_a_search(name, package, why, tmp_path):
    pytest.importorskip(package, reason=why, exc_type=ImportError)
    searcher = made(name, points_to_evaluate=[POINT])
    first = searcher.suggest("first")
    assert {**first, "l": round(first["l"], 9)} == POINT
    searcher.on_trial_complete("first", {"loss": loss(first)})
    check_is_in_space(searcher.suggest("failed"))
    searcher.on_trial_complete("failed", error=True)
    check_is_in_space(searcher.suggest("nan"))
    searcher.on_trial_complete("nan", {"loss": math.nan})
    searcher.on_trial_complete("nobody", {"loss": 1.0})
    searcher.save(str(tmp_path / "state"))
    again = made(name)
    again.restore(str(tmp_path / "state"))
    config = again.suggest("restored")
    check_is_in_space(config)
    again.on_trial_complete("restored", {"loss": loss(config)})
    with pytest.raises(ValueError, match="grid"):
        create_searcher(name).set_search_properties("a", "min", {"x": tune.grid_search([1])})


@pytest.mark.parametrize(
    ("name", "package", "why"), [*PACKAGES, ("bohb", "hpbandster", "pip install hpbandster")]
)
@pytest.mark.filterwarnings("ignore")
def test_suggestions_come_again_under_their_seed(name, package, why):
    pytest.importorskip(package, reason=why, exc_type=ImportError)
    space = {key: domain for key, domain in SPACE.items() if key != "q"}  # BOHB cannot round

    def suggestions(seed):
        with SeededDraws(seed):
            searcher = create_searcher(name)
            searcher.set_seed(seed)
            searcher.set_search_properties("loss", "min", space, num_samples=20)
            return list(course(searcher))

    def course(searcher):
        for number in range(14):  # until the models of all of them have begun to choose
            config = searcher.suggest(str(number))
            yield config
            result = {"loss": loss(config), "hyperband_info": {"budget": 1}}
            searcher.on_trial_complete(str(number), result)

    first = suggestions(7)
    assert suggestions(7) == first
    assert suggestions(8) != first


@pytest.mark.filterwarnings("ignore")
def test_zoopt_finds_what_is_good_and_learns_after_its_first_points():
    losses = []
    with SeededDraws(1):
        searcher = made("zoopt", budget=60)
        while (config := searcher.suggest(str(len(losses)))) != Searcher.FINISHED:
            losses.append(loss(config))
            searcher.on_trial_complete(str(len(losses) - 1), {"loss": losses[-1]})
    assert len(losses) > 20  # of which the first 10 are drawn
    assert min(losses) < 2


def test_zoopt_says_what_it_needs():
    with pytest.raises(ValueError, match="algo takes 'asracos'; got 'guess'"):
        ZOOptSearch("guess")
    searcher = ZOOptSearch(metric="loss", mode="min", dim_dict=SPACE)
    with pytest.raises(ValueError, match="budget"):
        searcher.suggest("a")
    with pytest.raises(NotImplementedError, match="cannot take evaluated points"):
        made("zoopt").add_evaluated_point(POINT, 1.0)


def test_a_space_of_zoopt_by_the_name_that_others_have():
    searcher = ZOOptSearch(budget=5, metric="loss", mode="min", space={"a": tune.uniform(5, 6)})
    assert 5 <= searcher.suggest("1")["a"] <= 6


def test_a_space_that_is_half_in_zoopts_words():
    words = (ValueType.CONTINUOUS, [8, 9], 1e-4)
    searcher = ZOOptSearch(
        budget=5, metric="loss", mode="min", dim_dict={"a": tune.uniform(5, 6), "b": words}
    )
    point = searcher.suggest("1")
    assert 5 <= point["a"] <= 6
    assert 8 <= point["b"] <= 9


def test_a_space_in_zoopts_words():
    even = {name: domain for name, domain in SPACE.items() if name != "l"}
    words = ZOOptSearch.convert_search_space(even)
    assert words["k"] == (ValueType.DISCRETE, [1, 4], True)
    assert words["c"] == (ValueType.GRID, ["a", "b"])
    assert words["q"] == (ValueType.CONTINUOUS, [0, 1], 0.25)
    assert {*words} == {"x", "n/y", "k", "c", "q"}
    assert ZOOptSearch.convert_search_space(even, join=True)["constant"] == 5
    searcher = ZOOptSearch(dim_dict=words, budget=20, metric="loss", mode="min")
    point = searcher.suggest("a")
    assert 0 <= point["x"] <= 10
    assert point["c"] in ("a", "b")
    with pytest.raises(ValueError, match="'l' is a Float by LogUniform"):
        ZOOptSearch.convert_search_space(SPACE)
    with pytest.raises(ValueError, match="grids"):
        ZOOptSearch.convert_search_space({"g": tune.grid_search([1, 2])})


@pytest.mark.parametrize("name", ["ax", "hebo", "zoopt"])
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    def refuse(module, *args):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    place = importlib.import_module("skate._core.optional_imports")
    monkeypatch.setattr(place, "import_module", refuse)
    with pytest.raises(ImportError, match=rf'pip install ".*\[{name}\]"'):
        create_searcher(name)
