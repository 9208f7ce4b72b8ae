"""Signatures as `help()` and editors show them."""

import inspect

import pytest

import skate
from skate._core.options import ACTOR, TASK, names_of
from skate._core.signature import passing_on, showing_keywords
from skate.data import BlockBasedFileDatasink
from skate.data._api.step_keywords import STEP, StepKeywords
from skate.data._io import read_keywords, write_keywords
from skate.data.datasource import FileBasedDatasource
from skate.data.grouped_data import GroupedData
from skate.serve import HTTPOptions
from skate.tune import JupyterNotebookReporter


@skate.remote
def add(a, b):
    return a + b


@skate.remote
class Counter:
    def count(self):
        return 1


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def test_what_a_function_takes_by_keyword_is_in_its_signature_and_docstring():
    @showing_keywords({"low": "The least.", "high": "The most."})
    def choose(what, **limits):
        """Choose something.

        Args:
            what: From what.
            **limits: `low`, and others.
        """
        return what, limits

    assert str(inspect.signature(choose)) == "(what, *, low=..., high=...)"
    assert inspect.getdoc(choose).endswith("others.\n\nOptions:\n    high: The most.")
    assert choose(1, high=2) == (1, {"high": 2})


@pytest.mark.parametrize(
    ("function", "some"),
    [
        (skate.remote, {"num_cpus", "num_returns", "max_restarts", "runtime_env"}),
        (skate.method, {"num_returns", "concurrency_group"}),
        (add.options, {"num_cpus", "num_returns", "max_retries"}),
        (Counter.options, {"num_cpus", "max_restarts", "lifetime"}),
        (skate.data.read_csv, {"filesystem", "parse_options", "num_cpus"}),
        (skate.data.read_sql, {"concurrency"}),
        (skate.data.Dataset.write_parquet, {"mode", "row_group_size", "partition_cols"}),
        (skate.data.read_datasource, {"override_num_blocks", "num_cpus"}),
        (skate.data.Dataset.map_batches, {"batch_size", "num_gpus", "max_restarts"}),
        (GroupedData.map_groups, {"batch_format", "num_cpus"}),
    ],
)
def test_options_are_in_the_signature_and_each_has_a_word(function, some):
    shown = keywords(function)
    assert shown >= some
    assert not {name for name in shown if name not in inspect.getdoc(function)}


@pytest.mark.parametrize(
    ("constructor", "some"),
    [
        (HTTPOptions, {"host", "port", "keep_alive_timeout_s"}),
        (JupyterNotebookReporter, {"overwrite", "metric_columns", "max_report_frequency"}),
        (FileBasedDatasource, {"open_stream_args", "file_extensions", "shuffle"}),
        (BlockBasedFileDatasink, {"min_rows_per_file", "filename_provider", "mode"}),
    ],
)
def test_a_constructor_shows_what_it_takes_by_name(constructor, some):
    shown = inspect.signature(constructor).parameters
    assert some <= set(shown)
    assert not {"args", "kwargs", "options", "given"} & set(shown)


def test_what_is_passed_on_is_shown_once():
    def base(path, *, mode="w", size=1): ...

    @passing_on(base)
    def derived(path, *, size=2, **options):
        return path, size, options

    assert str(inspect.signature(derived)) == "(path, *, size=2, mode='w')"
    assert derived("here", mode="a") == ("here", 2, {"mode": "a"})


def test_options_that_a_copy_cannot_change_are_not_shown_for_it():
    assert "max_calls" not in keywords(add.options)
    assert "concurrency_groups" not in keywords(Counter.options)


@pytest.mark.parametrize("module", [read_keywords, write_keywords])
def test_each_option_of_readers_and_writers_has_a_meaning(module):
    classes = [value for name, value in vars(module).items() if name.endswith("Keywords")]
    for keywords in classes:
        assert all(len(text) > len("Goes to .") for text in module.meanings(keywords).values())


def test_each_option_of_steps_is_one_of_tasks_or_actors():
    given = {"ray_remote_args_fn"}  # which returns such options
    assert set(STEP) == set(StepKeywords.__annotations__)
    assert set(STEP) - given <= {*names_of(TASK), *names_of(ACTOR)}
