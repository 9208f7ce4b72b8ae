"""A searcher that knows the trials of earlier searches, which are read as data."""

import json
import shutil

import pytest

import skate.tune.experiment.state_file as state_file
from skate import tune
from skate._run.storage import Storage
from skate.tune import TuneConfig, Tuner
from skate.tune.execution.warm_start import past_trials, warm_up
from skate.tune.search import create_searcher
from skate.tune.search.optuna import OptunaSearch
from skate.tune.search.search_generator import SearchGenerator

SPACE = {"x": tune.uniform(0, 10), "n": {"k": tune.choice(["a", "b"])}}


def objective(config):
    if config["x"] > 9:
        raise RuntimeError("no such place")
    tune.report({"loss": (config["x"] - 3) ** 2})


@pytest.fixture
def earlier(session, tmp_path):
    """The folder of a search with the trials x = 1, 5, 9.5, of which the last has failed."""
    points = [{"x": x, "n": {"k": "a"}} for x in (1.0, 5.0, 9.5)]
    tuner = Tuner(
        objective,
        param_space=SPACE,
        tune_config=TuneConfig(
            metric="loss", mode="min", num_samples=3,
            search_alg=OptunaSearch(points_to_evaluate=points),
        ),
        run_config={"storage_path": str(tmp_path), "name": "earlier", "verbose": 0},
    )  # fmt: skip
    tuner.fit()
    return tmp_path / "earlier"


def search(searcher, folders, space=SPACE, metric="loss"):
    found = SearchGenerator(searcher)
    assert found.set_search_properties(metric, "min", space)
    warm_up(found, folders, space)
    return found


def known(searcher):
    return [(trial.params, trial.value) for trial in searcher._ot_study.trials]


def test_a_searcher_knows_what_has_ended_well(earlier, capfd):
    searcher = OptunaSearch()
    search(searcher, [str(earlier)])
    values = {params["x"]: (params["n/k"], value) for params, value in known(searcher)}
    assert values == {1.0: ("a", 4.0), 5.0: ("a", 4.0)}
    said = capfd.readouterr().err
    assert "OptunaSearch knows 2 of 3 earlier trials; 1 had not ended well" in said


def test_several_folders(earlier, tmp_path):
    shutil.copytree(earlier, tmp_path / "copy")
    searcher = OptunaSearch()
    search(searcher, [str(earlier), str(tmp_path / "copy")])
    assert len(known(searcher)) == 4


@pytest.mark.parametrize(
    "space",
    [
        {"x": tune.uniform(0, 4), "n": {"k": tune.choice(["a", "b"])}},
        {"x": tune.uniform(0, 4)},
        {"x": tune.uniform(0, 4), "other": 3},
    ],
    ids=["other bounds", "fewer names", "a constant"],
)
def test_trials_outside_of_the_space_are_passed_over(earlier, space):
    searcher = OptunaSearch()
    search(searcher, [str(earlier)], space)
    assert [params["x"] for params, _ in known(searcher)] == [1.0]


def test_a_space_with_other_names_has_none_of_them(earlier):
    searcher = OptunaSearch()
    search(searcher, [str(earlier)], {"y": tune.uniform(0, 10)})
    assert known(searcher) == []


def test_hyperopt_learns_too(earlier):
    searcher = create_searcher("hyperopt", n_initial_points=1)
    search(searcher, [str(earlier)])
    assert sorted(searcher._hpopt_trials.losses()) == [4.0, 4.0]
    assert 0 <= searcher.suggest("a")["x"] <= 10


def test_nothing_is_unpickled(earlier, monkeypatch):
    """Also of what had to be pickled there: it is taken as far as JSON shows it."""
    lines = (earlier / state_file.STATE_FILE).read_text().splitlines()
    changed = []
    for line in map(json.loads, lines):
        if line["kind"] == "trial":
            line["config"] = {"pickle": "gASVAA==", "shown": line["config"]["json"]}
        changed.append(json.dumps(line))
    (earlier / state_file.STATE_FILE).write_text("\n".join(changed) + "\n")

    def refuse(*args, **kwargs):
        raise AssertionError("something was unpickled")

    monkeypatch.setattr(state_file, "unpickle", refuse)
    assert [trial.config["x"] for trial in past_trials(Storage.at(str(earlier)))] == [
        1.0,
        5.0,
        9.5,
    ]
    searcher = OptunaSearch()
    search(searcher, [str(earlier)])
    assert len(known(searcher)) == 2


def test_a_tuner_passes_it_on_also_when_it_is_restored(earlier, tmp_path):
    searcher = OptunaSearch(seed=1)
    config = TuneConfig(metric="loss", mode="min", num_samples=2, search_alg=searcher)
    tuner = Tuner(
        objective,
        param_space=SPACE,
        tune_config=config,
        run_config={"storage_path": str(tmp_path), "name": "later", "verbose": 0},
        warm_start=[earlier],
    )
    restored = Tuner.restore(str(tmp_path / "later"), trainable=objective)
    assert restored._warm_start == tuner._warm_start == [str(earlier)]
    assert len(tuner.fit()) == 2
    assert len(searcher._ot_study.trials) == 4


def test_wrong_folders_and_searchers(earlier, tmp_path):
    with pytest.raises(TypeError, match="warm_start takes a list of the folders"):
        Tuner(objective, warm_start=str(earlier))
    with pytest.raises(FileNotFoundError, match="no search to learn from"):
        Tuner(objective, warm_start=[tmp_path / "nothing"])
    tuner = Tuner(
        objective,
        param_space=SPACE,
        run_config={"storage_path": str(tmp_path), "verbose": 0},
        warm_start=[earlier],
    )
    with pytest.raises(ValueError, match="warm_start is for searchers that learn"):
        tuner.fit()
