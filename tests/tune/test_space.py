"""Search spaces: domains, their samplers, and the variants of a space."""

import re

import numpy as np
import pytest

from skate import tune
from skate.tune.experiment.experiment import as_space
from skate.tune.search import BasicVariantGenerator, grid_search
from skate.tune.search.sample import Categorical, Float, Integer, Quantized
from skate.tune.search.variant_generator import (
    RecursiveDependencyError,
    count_variants,
    format_vars,
    generate_variants,
    preset_variants,
)

DRAWS = 300


def drawn(domain, seed=0):
    return domain.sample(size=DRAWS, random_state=seed)


class TestDomains:
    @pytest.mark.parametrize(
        ("domain", "low", "high", "kind"),
        [
            (tune.uniform(1, 3), 1, 3, float),
            (tune.loguniform(1e-4, 1e-1), 1e-4, 1e-1, float),
            (tune.quniform(0, 1, 0.25), 0, 1, float),
            (tune.qloguniform(1, 8, 0.5), 1, 8, float),
            (tune.randint(2, 9), 2, 8, int),
            (tune.lograndint(1, 100), 1, 99, int),
            (tune.qrandint(4, 12, 4), 4, 12, int),
            (tune.qlograndint(2, 10, 2), 2, 10, int),
        ],
    )
    def test_values_stay_within_their_bounds(self, domain, low, high, kind):
        values = drawn(domain)
        assert low <= min(values)
        assert max(values) <= high
        assert isinstance(domain.sample(random_state=1), kind)
        assert domain.is_valid(low)
        assert not domain.is_valid(high * 100)

    @pytest.mark.parametrize(
        ("domain", "q"),
        [
            (tune.quniform(0, 1, 0.25), 0.25),
            (tune.qrandint(4, 12, 4), 4),
            (tune.qrandn(0, 5, 2), 2),
        ],
    )
    def test_rounded_values_are_multiples(self, domain, q):
        assert all(abs(value / q - round(value / q)) < 1e-9 for value in drawn(domain))

    def test_a_choice_of_nothing_is_refused_at_once(self):
        with pytest.raises(ValueError, match="at least one value; got none"):
            tune.choice([])

    def test_rounded_ranges_include_both_bounds(self):
        assert {*drawn(tune.qrandint(4, 12, 4))} == {4, 8, 12}
        assert {0.0, 1.0} <= {*drawn(tune.quniform(0, 1, 0.25))}

    def test_logarithmic_ranges_visit_every_order_of_magnitude_alike(self):
        small = sum(value < 1e-3 for value in drawn(tune.loguniform(1e-5, 1e-1)))
        assert 0.35 < small / DRAWS < 0.65

    def test_normal(self):
        values = drawn(tune.randn(10, 2))
        assert abs(np.mean(values) - 10) < 0.5
        assert 1.5 < np.std(values) < 2.5

    def test_choice(self):
        assert {*drawn(tune.choice(["a", "b"]))} == {"a", "b"}

    def test_seeds(self):
        domain = tune.uniform(0, 1)
        assert drawn(domain, 3).tolist() == drawn(domain, 3).tolist()
        old, new = np.random.RandomState(3), np.random.default_rng(3)
        assert domain.sample(random_state=old) != domain.sample(random_state=new)
        np.random.seed(5)
        first = domain.sample()
        np.random.seed(5)
        assert domain.sample() == first

    @pytest.mark.parametrize(
        "make",
        [
            lambda: tune.loguniform(0, 1),
            lambda: tune.lograndint(-1, 5),
            lambda: tune.quniform(0, 1, 0.3),
            lambda: Float(None, 1).uniform(),
            lambda: tune.randn(0, -1),
            lambda: tune.sample_from(lambda a, b: 0),
            lambda: Float(0, 1).uniform().uniform(),
            lambda: tune.qrandint(5, 7, 8).sample(),
            lambda: tune.uniform(2, 1),
            lambda: tune.randint(5, 1),
            lambda: tune.quniform(0, 1, 0),
            lambda: tune.qrandint(0, 10, -1),
            lambda: tune.choice(5),  # type: ignore[arg-type]
        ],
    )
    def test_impossible_domains_are_refused(self, make):
        with pytest.raises(ValueError, match=r"takes|multiple|one sampler|comes first"):
            make()

    def test_a_base_is_warned_of(self):
        with pytest.warns(UserWarning, match="no effect"):
            assert tune.loguniform(1, 10, base=2).lower == 1

    def test_classes(self):
        assert isinstance(tune.uniform(0, 1), Float)
        assert isinstance(tune.randint(0, 1), Integer)
        assert isinstance(tune.choice([1]), Categorical)
        assert isinstance(tune.quniform(0, 1, 1).get_sampler(), Quantized)


def variants(space, **options):
    return [spec["config"] for _, spec in generate_variants({"config": space}, **options)]


class TestVariants:
    def test_grids_are_combined_the_first_one_fastest(self):
        found = variants({"a": grid_search([1, 2]), "b": grid_search([*"xy".split(), "z"])})
        assert [(c["a"], c["b"]) for c in found] == [(1, "xy"), (2, "xy"), (1, "z"), (2, "z")]

    def test_nested_dictionaries_lists_and_tuples(self):
        space = {
            "n": {"x": tune.choice([1])},
            "l": [tune.choice([2]), 3],
            "t": (tune.choice([4]),),
        }
        assert variants(space) == [{"n": {"x": 1}, "l": [2, 3], "t": (4,)}]

    def test_grids_in_choices_of_grids(self):
        assert variants({"a": grid_search([grid_search([1, 2]), 3])}) == [
            {"a": 1}, {"a": 2}, {"a": 3}
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "function",
        [
            lambda spec: spec.config.x * 2,
            lambda spec: spec["config"]["x"] * 2,
            lambda config: config["x"] * 2,
            lambda config: config.get("x") * 2,
        ],
    )
    def test_functions_of_other_values_in_every_spelling(self, function):
        space = {"y": tune.sample_from(function), "x": tune.randint(3, 4)}
        assert variants(space) == [{"y": 6, "x": 3}]

    def test_functions_of_later_items_of_a_list(self):
        space = {
            "sum": tune.sample_from(lambda config: sum(config["sizes"][:2])),
            "sizes": [tune.sample_from(lambda c: c["sizes"][1] * 2), tune.choice([3]), 5],
        }
        assert variants(space) == [{"sizes": [6, 3, 5], "sum": 9}]

    def test_an_empty_grid_is_an_error(self):
        with pytest.raises(ValueError, match="at least one"):
            variants({"a": grid_search([])})

    def test_functions_without_arguments_and_eval(self):
        space = {"a": tune.sample_from(lambda: 5), "b": {"eval": "spec.config.a + 1"}}
        assert variants(space) == [{"a": 5, "b": 6}]

    def test_circles_are_an_error(self):
        space = {
            "a": tune.sample_from(lambda spec: spec.config.b),
            "b": tune.sample_from(lambda spec: spec.config.a),
        }
        with pytest.raises(RecursiveDependencyError):
            variants(space)

    def test_what_a_function_raises_is_named(self):
        with pytest.raises(ValueError, match=r"config/a.*ZeroDivisionError"):
            variants({"a": tune.sample_from(lambda: 1 / 0)})

    def test_draws_are_fresh_per_combination_or_constant(self):
        space = {"a": grid_search([1, 2, 3]), "b": tune.uniform(0, 1)}
        assert len({c["b"] for c in variants(space)}) == 3
        assert len({c["b"] for c in variants(space, constant_grid_search=True)}) == 1

    def test_the_space_itself_is_not_changed(self):
        space = {"a": {"b": tune.uniform(0, 1)}}
        variants(space)
        assert not isinstance(space["a"]["b"], float)

    def test_points_fill_in_what_they_know(self):
        space = {"config": {"a": grid_search([1, 2]), "b": tune.choice([7])}}
        found = [spec["config"] for _, spec in preset_variants(space, {"a": 5})]
        assert found == [{"a": 5, "b": 7}]
        for point, name in (({"c": {"d": 1}}, "c/d"), ({"a": 1, "z": 2}, "'z'")):
            with pytest.raises(ValueError, match=name):
                preset_variants(space, point)
        with pytest.raises(ValueError, match="c/d"):
            count_variants(space, [{"c": {"d": 1}}])

    def test_counting(self):
        spec = {"config": {"a": grid_search([1, 2]), "b": tune.randint(0, 9)}, "num_samples": 4}
        assert count_variants(spec, [{"a": 2, "b": 2}, {"a": 1}, {"b": 2}]) == 1 + 1 + 2 + 2

    def test_tags(self):
        chosen = {("config", "lr"): 0.12345, ("config", "n", "act"): "a/b", ("config", "k"): 3}
        assert format_vars(chosen) == "k=3,lr=0.1235,act=a_b"


class TestBasicVariants:
    def trials(self, tmp_path, count=6, **options):
        search = BasicVariantGenerator(**options)
        experiment = tune.Experiment(
            "e", lambda config: None, config=self.space, num_samples=count, storage_path=tmp_path
        )
        search.add_configurations([experiment])
        found = []
        while (trial := search.next_trial()) is not None:
            found.append(trial)
        return search, found

    space = {"x": tune.uniform(0, 1), "g": grid_search([1, 2])}  # noqa: RUF012

    def test_ids_names_and_parameters(self, tmp_path):
        search, trials = self.trials(tmp_path, count=2)
        assert search.total_samples == 4
        assert search.is_finished()
        assert [trial.trial_id[-6:] for trial in trials] == [f"_0000{i}" for i in range(4)]
        assert str(trials[0]) == f"lambda_{trials[0].trial_id}"
        assert trials[0].evaluated_params == {"g": 1, "x": trials[0].config["x"]}

    def test_the_same_seed_gives_the_same_trials(self, tmp_path):
        one, two = (self.trials(tmp_path, random_state=7)[1] for _ in range(2))
        assert [trial.config for trial in one] == [trial.config for trial in two]

    def test_going_on_gives_the_trials_that_were_missing(self, tmp_path):
        _, whole = self.trials(tmp_path, random_state=7)
        search = BasicVariantGenerator(random_state=7)
        search.set_state({"made": [5], "number": 5, "uuid_prefix": "abc_"})
        experiment = tune.Experiment(
            "e", lambda config: None, config=self.space, num_samples=6, storage_path=tmp_path
        )
        search.add_configurations(experiment)
        first = search.next_trial()
        assert first.trial_id == "abc_00005"
        assert first.config == whole[5].config

    def test_a_limit_of_trials_at_a_time(self, tmp_path):
        search, trials = self.trials(tmp_path, max_concurrent=1)
        assert len(trials) == 1
        assert not search.is_finished()
        search.on_trial_complete(trials[0].trial_id)
        assert search.next_trial() is not None


class Attributes(dict[str, object]):
    """A dictionary whose keys are attributes, of which some have no others."""

    __getattr__ = dict.__getitem__


def test_a_dictionary_is_a_space_whatever_attributes_it_has() -> None:
    assert as_space(Attributes(lr=0.1)) == {"lr": 0.1}
    assert as_space(Attributes(to_dict=tune.choice([1]))).keys() == {"to_dict"}


def test_domains_show_their_values() -> None:
    assert repr(tune.uniform(0, 1)) == "<Float (0, 1)>"
    assert repr(tune.choice(["a", "b"])) == "<Categorical ['a', 'b']>"


def test_a_generator_can_be_used_for_another_search(tmp_path):
    search = tune.search.BasicVariantGenerator()
    for values in ([1, 2], [3]):
        space = {"x": tune.grid_search(values)}
        search.add_configurations(
            tune.Experiment("e", lambda config: 1, config=space, storage_path=tmp_path)
        )
        trials = list(iter(search.next_trial, None))
        assert [trial.config["x"] for trial in trials] == values
        assert search.total_samples == len(values)


def test_no_two_trials_share_a_folder(tmp_path):
    experiment = tune.Experiment(
        "e", lambda config: 1, num_samples=2, storage_path=tmp_path,
        trial_dirname_creator=lambda trial: "same",
    )  # fmt: skip
    search = tune.search.BasicVariantGenerator()
    search.add_configurations(experiment)
    first, second = iter(search.next_trial, None)
    assert first.dirname == "same"
    assert second.dirname == f"same_{second.trial_id}"


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"fixed": 2}, r"value 2 is not equal to that of 'fixed', which is fixed: 1"),
        ({"x": 5.0}, r"value 5.0 is not within the valid values of 'x', \(0, 1\)"),
        ({"grid": 7}, r"value 7 is not within the valid values of 'grid'"),
        ({"inner": {"fixed": "b"}}, r"value 'b' is not equal to that of 'inner/fixed'"),
        ({"fixed": 1, "x": 0.5, "grid": 3, "inner": {"fixed": "a"}}, ""),
    ],
)
def test_points_that_contradict_the_space(point, words, caplog):
    space = {
        "fixed": 1, "x": tune.uniform(0, 1), "grid": tune.grid_search([3, 4]),
        "inner": {"fixed": "a"},
    }  # fmt: skip
    (variant, *_) = list(preset_variants({"config": space}, point))
    for name, value in point.items():
        assert variant[1]["config"][name] == value
    assert len(caplog.records) == bool(words)
    if words:
        assert re.search(words, caplog.text)
