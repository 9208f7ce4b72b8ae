"""Usual mistakes of programs: each error names the cause, and the way out."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skate
from skate import data, serve, train, tune, util
from skate.util.collective import register_collective_backend
from skate.util.queue import Queue

MOST_OWN_FRAMES = 6
_SKATE = os.path.dirname(skate.__file__)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine", "folder")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))


@skate.remote
def add(a: int, b: int = 0) -> int:
    return a + b


@skate.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def increase(self, amount: int = 1) -> int:
        self.value += amount
        return self.value


class Plain:
    def __call__(self) -> int:
        return 1


async def coroutine() -> int:
    return 1


def inherit() -> None:
    class Derived(Counter):  # type: ignore[valid-type,misc]
        pass


def twice() -> None:
    ref = skate.put(1)
    skate.wait([ref, ref])


def loop() -> None:
    train.report({"loss": 1.0})


def trained(loop: Callable[..., Any] = loop, **given: Any) -> Any:
    return train.DataParallelTrainer(loop, run_config=train.RunConfig(verbose=0), **given).fit()


def scaled(**given: Any) -> Any:
    return trained(scaling_config=train.ScalingConfig(**given))


def tuned(**given: Any) -> Any:
    space = {"x": tune.grid_search([1, 2])}
    quiet = train.RunConfig(verbose=0)
    return tune.Tuner(
        lambda config: {"loss": config["x"]}, param_space=space, run_config=quiet, **given
    ).fit()


def rows(n: int = 3) -> Any:
    return data.range(n)


def own_frames(shown: traceback.TracebackException) -> list[traceback.FrameSummary]:
    """Return the frames of skate; none where it called code of the user's."""
    users = [frame for frame in shown.stack[1:] if frame.filename == __file__]
    own = [frame for frame in shown.stack if frame.filename.startswith(_SKATE)]
    return [] if len(users) > 1 or (users and shown.stack[0].filename != __file__) else own


def get_a_coroutine() -> None:
    awaited = asyncio.sleep(0)
    try:
        skate.get(awaited)  # type: ignore[call-overload]
    finally:
        awaited.close()


def shift_a_batch(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["ids"]}


@skate.remote
def changes_its_argument(values: Any) -> Any:
    values += 1
    return values


class Uncallable:
    def run(self, batch: Any) -> Any:
        return batch


def returns_a_number(config: dict[str, Any]) -> float:
    return float(config["x"])


# What is done, the type of the error, words that name the cause, words that name the way out.
MISTAKES: list[tuple[str, Callable[[], Any], type[Exception], str, str]] = [
    ("call a task", lambda: add(1), TypeError, "cannot be called directly", "add.remote("),
    ("call a method", lambda: Counter.remote().increase(),
     TypeError, "cannot be called", ".remote("),
    ("instantiate", lambda: Counter(), TypeError, "cannot be instantiated", "Counter.remote("),
    ("inherit from an actor", inherit, TypeError, "Inheriting from actor", "plain"),
    ("get a value", lambda: skate.get(3), ValueError, "got int: 3", "a value already"),
    ("get a future", lambda: skate.get(Future()), ValueError, "got Future", "its result()"),
    ("write with an unknown mode", lambda: data.range(1).write_csv("folder", mode="w"),
     ValueError, "got 'w'", "'append', 'overwrite'"),
    ("read with pandas' keyword",
     lambda: data.read_csv("example://iris.csv", sep=";"),  # type: ignore[call-arg]
     TypeError, "'sep'", "parse_options="),
    ("get a tuple", lambda: skate.get((skate.put(1),)), ValueError, "got tuple", "make it a list"),
    ("get a dictionary", lambda: skate.get({"a": skate.put(1)}),  # type: ignore[call-overload]
     ValueError, "got dict", "list(refs.values())"),
    ("get nested", lambda: skate.get([[skate.put(1)]]), TypeError, "item 0 is list", "flatten"),
    ("get a handle", lambda: skate.get(Counter.remote()), ValueError, "got the handle", "methods"),
    ("put a reference", lambda: skate.put(skate.put(1)), TypeError, "reference already", "[ref]"),
    ("put a lock", lambda: skate.put({"a": threading.Lock()}),
     TypeError, "['a']", "Create it inside"),
    ("wait for one", lambda: skate.wait(skate.put(1)), TypeError, "a single one", "[ref]"),
    ("wait for too many", lambda: skate.wait([skate.put(1)], num_returns=2),
     ValueError, "got 2", "from 1 to 1"),
    ("wait twice", twice, ValueError, "duplicates", "dict.fromkeys"),
    ("too many arguments", lambda: add.remote(1, 2, 3), TypeError, "too many", "add(a, b=...)"),
    ("unknown argument", lambda: add.remote(1, c=1), TypeError, "'c'", "add(a, b=...)"),
    ("missing argument", lambda: add.remote(), TypeError, "missing", "'a'"),
    ("no such method", lambda: Counter.remote().incrase,
     AttributeError, "'incrase'", "mean increase"),
    ("attribute of an actor", lambda: Counter.remote().value,
     AttributeError, "'value'", "methods only"),
    ("iterate over a reference", lambda: list(add.remote(1)),
     TypeError, "cannot be iterated", "num_returns=n"),
    ("option misspelt", lambda: add.options(num_cpu=1),
     ValueError, "'num_cpu'", "Did you mean num_cpus"),
    ("option of nothing", lambda: skate.remote(timeout=3),
     ValueError, "'timeout'", "Allowed are: accelerator_type"),
    ("option of the other kind", lambda: add.options(max_restarts=1),
     ValueError, "max_restarts", "actor classes"),
    ("negative CPUs", lambda: add.options(num_cpus=-1), ValueError, "got -1", "at least 0"),
    ("too many CPUs", lambda: skate.get(add.options(num_cpus=99).remote(1)),
     Exception, "{CPU: 99}", "Ask for less"),
    ("empty parentheses", lambda: skate.remote(),
     TypeError, "without parentheses", "@remote(num_cpus=1)"),
    ("remote value", lambda: skate.remote(3), TypeError, "got 3", "a function or a class"),
    ("remote twice", lambda: skate.remote(add), TypeError, "remote already", ".options("),
    ("remote coroutine", lambda: skate.remote(coroutine), ValueError, "event loop", "asyncio.run"),
    ("no such actor", lambda: skate.get_actor("nobody"),
     ValueError, "'nobody'", "named actors there"),
    ("init twice", lambda: skate.init(num_cpus=3),
     RuntimeError, "runs already", "ignore_reinit_error"),
    ("part of a CPU", lambda: skate.init(num_cpus=1.5),
     ValueError, "num_cpus takes a whole number", "got 1.5"),
    ("part of a GPU", lambda: skate.init(num_gpus=0.5), ValueError, "num_gpus", "got 0.5"),
    ("part of a resource", lambda: skate.init(resources={"lift": 2.5}),
     ValueError, "resources['lift']", "got 2.5"),
    ("init misspelt", lambda: skate.init(num_cpu=3),
     Exception, "'num_cpu'", "did you mean num_cpus"),
    ("option among the arguments", lambda: add.remote(1, num_cpus=2),
     TypeError, "'num_cpus'", "add.options(num_cpus=...)"),
    ("look at an actor", lambda: Counter.remote().total,
     AttributeError, "'total'", "a method of the class can return"),
    ("a batch of other columns", lambda: rows().map_batches(shift_a_batch).take_all(),
     KeyError, "'ids'", "the columns ['id']"),
    ("batch size misspelt", lambda: rows().map_batches(shift_a_batch, batchsize=2),
     ValueError, "'batchsize'", "mean batch_size"),
    ("sort by another column", lambda: rows().sort("ids").take_all(),
     KeyError, "'ids'", "did you mean 'id'"),
    ("write over a file", lambda: rows().write_parquet(__file__),
     FileExistsError, "is a file", "the path of a folder"),
    ("return a number to a search",
     lambda: tune.run(returns_a_number, config={"x": 1}, metric="loss", mode="min", verbose=0),
     ValueError, "'loss'", "return {'loss': value}"),
    ("change an argument", lambda: skate.get(changes_its_argument.remote(np.zeros(3))),
     ValueError, "read-only", "values.copy()"),
    ("a class that cannot be called", lambda: rows().map_batches(Uncallable),
     TypeError, "has no method __call__", "define it"),
    ("join with what has no such key",
     lambda: rows().join(data.from_items([{"number": 1}]), on="id").take_all(),
     KeyError, "['number']", "right_on="),
    ("configuration of a trainer misspelt",
     lambda: train.DataParallelTrainer(loop, loop_config={}),  # type: ignore[call-arg]
     TypeError, "'loop_config'", "mean train_loop_config"),
    ("space of a search misspelt", lambda: tune.Tuner(loop, params={}),  # type: ignore[call-arg]
     TypeError, "'params'", "mean param_space"),
    ("ask for the best of a metric that is not there",
     lambda: tuned().get_best_result("los", "min"),
     RuntimeError, "metric: los", "reported were ['loss']"),
    ("number of trials in the words of Optuna",
     lambda: tune.TuneConfig(n_trials=3),  # type: ignore[call-arg]
     TypeError, "'n_trials'", "num_samples"),
    ("kill a task", lambda: skate.kill(add.remote(1)), ValueError, "ObjectRef", "cancel()"),
    ("cancel an actor", lambda: skate.cancel(Counter.remote()), TypeError, "Counter", "kill()"),
    ("time as text", lambda: skate.get(skate.put(1), timeout="1"),
     TypeError, "'1'", "number of seconds"),
    ("runtime_env misspelt", lambda: add.options(runtime_env={"env_var": {}}),
     ValueError, "'env_var'", "env_vars"),
    ("bundles of one", lambda: util.placement_group({"CPU": 1}),
     ValueError, "got {'CPU': 1}", '[{"CPU": 1}'),
    ("no such placement", lambda: util.placement_group([{"CPU": 1}], "PAK"),
     ValueError, "'PAK'", "PACK"),
    ("pool without function", lambda: util.ActorPool([1]).submit(3, 1),
     TypeError, "got 3", "an actor and a value"),
    ("no such column", lambda: rows().select_columns(["idd"]).take_all(),
     Exception, "'idd'", "did you mean 'id'"),
    ("sort by no column", lambda: rows().sort("x").take_all(),
     Exception, "'x'", "the columns are ['id']"),
    ("map to nothing", lambda: rows().map(lambda row: None).take_all(),
     ValueError, "returned None", "`return`"),
    ("map of a missing key", lambda: rows().map(lambda row: row["x"]).take_all(),
     KeyError, "'x'", "{'id': 0}"),
    ("batch that is none", lambda: rows().map_batches(lambda b: 3).take_all(),
     ValueError, "returned 3", "dictionary of"),
    (
        "batch of unequal columns",
        lambda: rows().map_batches(lambda b: {"a": [1, 2], "b": [1]}).take_all(),
        ValueError, "{'a': 2, 'b': 1}", "as many values",
    ),
    ("no such format", lambda: rows().take_batch(batch_format="panda"),
     ValueError, "'panda'", "'pandas'"),
    ("no such file", lambda: data.read_csv("/no/such.csv"),
     FileNotFoundError, "/no/such.csv", "ignore_missing"),
    ("reader's option misspelt",
     lambda: data.read_text(__file__, concurency=1),  # type: ignore[call-arg]
     TypeError, "concurency", "concurrency"),
    ("group by a function", lambda: rows().groupby(len), ValueError, "function", "add_column()"),
    ("items of a dictionary", lambda: data.from_items({"a": [1]}),
     TypeError, "{'a': [1]}", "[{'a': 1}"),
    ("length of a dataset", lambda: len(rows()), TypeError, "no len()", "count()"),
    ("row by number", lambda: rows()[0], TypeError, "[0]", "take(n)"),
    ("iterate over a dataset", lambda: list(rows()), TypeError, "iterate", "iter_rows()"),
    ("zip of unequal length", lambda: rows(3).zip(rows(4)).take_all(),
     ValueError, "3, 4", "limit(3)"),
    ("split into nothing", lambda: rows().split(0), ValueError, "got 0", "at least 1"),
    ("half a row", lambda: rows().limit(1.5),  # type: ignore[arg-type]
     ValueError, "got 1.5", "a whole number"),
    ("limit as text", lambda: rows().limit("2"), TypeError, "'2'", "a whole number"),
    ("expression misspelt", lambda: rows().filter(expr="id >"), ValueError, "'id >'", "x > 3"),
    ("GPU without a batch size", lambda: rows().map_batches(len, num_gpus=1),
     ValueError, "num_gpus=1", "`batch_size`"),
    ("report outside", lambda: train.report({"a": 1}),
     RuntimeError, "inside a training loop", "trainer.fit()"),
    ("no such shard",
     lambda: trained(lambda: train.get_dataset_shard("test"), datasets={"train": rows()}),
     Exception, "'test'", "there are ['train']"),
    ("loop of two arguments", lambda: trained(lambda a, b: None),
     ValueError, "['a', 'b']", "train_loop_config"),
    ("scaling misspelt", lambda: trained(scaling_config={"num_worker": 2}),
     ValueError, "num_worker'", "num_workers"),
    ("negative workers", lambda: scaled(num_workers=-1),
     ValueError, "got -1", "0 or more"),
    ("GPU where there is none", lambda: scaled(num_workers=1, use_gpu=True),
     Exception, "No GPU", "use_gpu=False"),
    ("configuration is a number", lambda: trained(train_loop_config=3),
     TypeError, "got int: 3", "a dict"),
    ("datasets in a list", lambda: trained(datasets=[rows()]), ValueError, "got list", "by name"),
    ("report of a list", lambda: trained(lambda: train.report([1])),
     Exception, "got list", "dict of metrics"),
    ("checkpoint is a path", lambda: trained(lambda: train.report({}, checkpoint="/x")),
     Exception, "got str", "from_directory"),
    ("restore nothing", lambda: train.DataParallelTrainer.restore("/no/run"),
     ValueError, "/no/run", "Result.path"),
    ("failures as text", lambda: train.FailureConfig(max_failures="3"),
     ValueError, "'3'", "whole number"),
    ("no metric", lambda: tuned().get_best_result(), ValueError, "No metric", "TuneConfig"),
    ("metric misspelt", lambda: tuned(tune_config=tune.TuneConfig(metric="los", mode="min")),
     Exception, "'los'", "Report it"),
    ("no such mode", lambda: tune.TuneConfig(mode="maximum"),
     ValueError, "'maximum'", "'min' or 'max'"),
    ("bounds exchanged", lambda: tune.uniform(1, 0),
     ValueError, "(1, 0)", "lower bound comes first"),
    ("logarithm of 0", lambda: tune.loguniform(0, 1), ValueError, "(0, 1)", "above 0"),
    ("no such scheduler", lambda: tune.create_scheduler("ash"), ValueError, "'ash'", "'asha'"),
    ("no such searcher", lambda: tune.create_searcher("optun"), ValueError, "'optun'", "'optuna'"),
    ("space is a list", lambda: tune.Tuner(len, param_space=[1]),
     ValueError, "got [1]", "a dictionary"),
    ("results before", lambda: tune.Tuner(len).get_results(),
     RuntimeError, "no results yet", "fit()"),
    ("half a block", lambda: data.range(5).repartition(2.5),  # type: ignore[arg-type]
     TypeError, "got 2.5", "a whole number"),
    ("bounds that are no numbers", lambda: tune.uniform("a", 2),  # type: ignore[arg-type]
     TypeError, "got ('a', 2)", "two numbers"),
    ("room for some", lambda: Queue(maxsize="some"),  # type: ignore[arg-type]
     TypeError, "got 'some'", "0 for no limit"),
    ("a backend without a name",
     lambda: register_collective_backend("", object),  # type: ignore[arg-type]
     ValueError, "got ''", "the name of a backend"),
    ("call a deployment", lambda: serve.deployment(Plain)(),
     RuntimeError, "cannot be called", "Plain.bind("),
    ("run unbound", lambda: serve.run(serve.deployment(Plain)),
     TypeError, "name='Plain'", "deployment.bind("),
    ("negative replicas", lambda: serve.deployment(num_replicas=-1),
     ValueError, "got -1", "at least 1"),
    ("deployment misspelt", lambda: serve.deployment(num_replica=1),
     TypeError, "'num_replica'", "'num_replicas'"),
    ("batch without async", lambda: serve.batch(len), TypeError, "@serve.batch", "'async def'"),
    ("no such application", lambda: serve.get_app_handle("x"),
     Exception, "no Serve instance", "serve.run("),
    ("take an item of a reference", lambda: skate.put([1])[0],  # type: ignore[index]
     TypeError, "only refers to a value", "skate.get(ref)"),
    ("look at what a reference refers to",
     lambda: skate.put(np.zeros(3)).shape,  # type: ignore[attr-defined]
     AttributeError, "'shape'", "skate.get(ref)"),
    ("wait for a reference as for a future",
     lambda: skate.put(1).result(),  # type: ignore[attr-defined]
     AttributeError, "'result'", "skate.get(ref)"),
    ("count in references", lambda: add.remote(1) + add.remote(2),  # type: ignore[operator]
     TypeError, "+ takes values", "skate.get(ref)"),
    ("get a remote function", lambda: skate.get(add),  # type: ignore[call-overload]
     ValueError, "got RemoteFunction", ".remote(...)"),
    ("get a method", lambda: skate.get(Counter.remote().increase),
     ValueError, "got ActorMethod", ".remote(...)"),
    ("get an array", lambda: skate.get(np.array([skate.put(1)], dtype=object)),
     ValueError, "got ndarray", "make it a list"),
    ("get what wait returns", lambda: skate.get(skate.wait([skate.put(1)])),
     ValueError, "got tuple", "ready, rest = skate.wait(refs)"),
    ("get what is to be awaited", lambda: get_a_coroutine(),
     ValueError, "got coroutine", "await it"),
    ("get a generator of references", lambda: skate.get(add.remote(i) for i in range(2)),
     ValueError, "got generator", "make it a list"),
    ("memory with its unit", lambda: add.options(memory="4GB"), TypeError, "'4GB'", "a number"),
    ("packages as a number", lambda: add.options(runtime_env={"pip": 3}),
     TypeError, "got 3", "list of strings"),
    ("wait for nothing", lambda: skate.wait([skate.put(1)], num_returns=0),
     ValueError, "got 0", "from 1 to 1"),
    ("more bundles than the machine holds",
     lambda: scaled(num_workers=50, resources_per_worker={"CPU": 1}),
     Exception, "50", "Use fewer workers"),
    ("a resource that nobody has declared",
     lambda: skate.get(add.options(resources={"scanner": 1}).remote(1)),
     Exception, "{scanner: 1}", "skate.init(resources={'scanner': 1})"),
    ("find an actor by its class", lambda: skate.get_actor(Counter),  # type: ignore[arg-type]
     TypeError, "got ActorClass(Counter)", "the name of an actor"),
    ("a file system misspelt", lambda: data.read_csv("htps://host/x.csv"),
     ValueError, "htps://", "https://?"),
    ("read a folder without files", lambda: data.read_csv(os.environ["SKATE_STORAGE"]),
     FileNotFoundError, "there is none in", os.path.sep),
    ("aggregate by name", lambda: rows().aggregate("mean"),  # type: ignore[arg-type]
     TypeError, "got 'mean'", "Mean('x')"),
    ("aggregate groups by name", lambda: rows().groupby("id").aggregate("mean"),
     TypeError, "got 'mean'", "Mean('x')"),
    ("join a list to a dataset", lambda: rows().union([1, 2]),  # type: ignore[arg-type]
     TypeError, "got [1, 2]", "from_items()"),
    ("put a list beside a dataset", lambda: rows().zip([1, 2]),  # type: ignore[arg-type]
     TypeError, "got [1, 2]", "from_items()"),
    ("numbers as arrays", lambda: data.from_numpy([1, 2]),
     ValueError, "got [1, 2]", "from_items(numbers)"),
    ("a path as a frame", lambda: data.from_pandas("x.csv"),  # type: ignore[arg-type]
     TypeError, "got 'x.csv'", "a DataFrame"),
    ("add a column of values", lambda: rows().add_column("y", [1, 2, 3]),  # type: ignore[arg-type]
     ValueError, "got [1, 2, 3]", "a function of batches"),
    ("batches of nothing", lambda: rows().map_batches(shift_a_batch, batch_size=0),
     ValueError, "got 0", "at least 1"),
    ("drop what is not there", lambda: rows().drop_columns(["x"]).take_all(),
     KeyError, "'x'", "the columns are ['id']"),
    ("the mean of texts", lambda: data.from_items([{"s": "a"}]).mean("s"),
     TypeError, "column 's' is string", "map_batches"),
    ("texts for torch", lambda: list(data.from_items([{"s": "a"}]).iter_torch_batches()),
     TypeError, "type str", "collate_fn"),
    ("more than all for testing", lambda: rows().train_test_split(1.5),
     ValueError, "got 1.5", "between 0 and 1"),
    ("a part as a loop", lambda: list(rows().iterator()),  # type: ignore[call-overload]
     TypeError, "iterate over a part", "iter_torch_batches()"),
    ("a frame to train on", lambda: trained(datasets={"train": pd.DataFrame({"a": [1]})}),
     ValueError, "not a Dataset but a DataFrame", "from_pandas"),
    ("number of workers as text", lambda: train.ScalingConfig(num_workers="2"),
     ValueError, "got '2'", "a number"),
    ("a loop that was called", lambda: trained(None),  # type: ignore[arg-type]
     ValueError, "got NoneType", "a function"),
    ("ask for a shard outside", lambda: train.get_dataset_shard("train"),
     RuntimeError, "inside a training loop", "trainer.fit()"),
    ("resources of a trial misspelt", lambda: tune.with_resources(loop, {"cpus": 1}),
     ValueError, "'cpus'", "'cpu'"),
    ("a parameter beside those of the loop",
     lambda: tune.Tuner(
         train.DataParallelTrainer(loop), param_space={"lr": tune.uniform(0, 1)}
     ).fit(),
     ValueError, "['lr']", '{"train_loop_config": {"lr": '),
    ("the class of a scheduler",
     lambda: tuned(tune_config=tune.TuneConfig(
         metric="loss", mode="min", scheduler=tune.schedulers.ASHAScheduler)),
     TypeError, "<class ", "a TrialScheduler"),
    ("choose from a number", lambda: tune.choice(3),  # type: ignore[arg-type]
     ValueError, "got 3", "a list of values"),
    ("deploy an object", lambda: serve.deployment(Plain()),  # type: ignore[call-overload]
     TypeError, "Plain object", "bind(...)"),
    ("run a plain class", lambda: serve.run(Plain),  # type: ignore[arg-type]
     TypeError, "Plain", "deployment.bind("),
    ("a route without its slash",
     lambda: serve.run(serve.deployment(Plain).bind(), route_prefix="x"),
     ValueError, "'x'", "'/models'"),
    ("a batch size for single rows", lambda: rows().map(lambda row: row, batch_size=2),
     ValueError, "'batch_size'", "map_batches() has one"),
    ("an argument that no map has", lambda: rows().map_batches(shift_a_batch, workers=2),
     ValueError, "'workers'", "concurrency"),
    ("an argument that no selection has", lambda: rows().select_columns(["id"], workers=2),
     ValueError, "select_columns() has no parameter 'workers'", "concurrency"),
    ("shuffle with a seed misspelt", lambda: rows().random_shuffle(sed=1),
     ValueError, "'sed'", "mean seed"),
    ("groups in the words of batches", lambda: rows().groupby("id").map_groups(len, batch_size=1),
     ValueError, "map_groups() has no parameter 'batch_size'", "map_batches() has one"),
    ("writer's option misspelt", lambda: rows().write_parquet("folder", compresion="zstd"),
     TypeError, "'compresion'", "mean compression"),
    ("write in the words of pandas", lambda: rows().write_csv("folder", index=False),
     TypeError, "write_csv() has no parameter 'index'", "write_options"),
    ("sort in the words of pandas", lambda: rows().sort("id", ascending=False),
     TypeError, "sort() has no parameter 'ascending'", "mean descending"),
    ("write to nowhere", lambda: rows().write_parquet(),
     TypeError, "write_parquet() missing 1 required", "'path'"),
    ("size of batches as text", lambda: list(rows().iter_batches(batch_size="2")),
     TypeError, "got '2'", "a number"),
    ("join columns that are not there",
     lambda: data.preprocessors.Concatenator(["a"]).transform(rows()).take_all(),
     KeyError, "'a'", "the columns are ['id']"),
    ("one argument as all", lambda: rows().map_batches(shift_a_batch, fn_args=3),
     TypeError, "got 3", "a list or tuple"),
    ("a connection as text", lambda: data.read_sql("select 1", "shop.db"),
     TypeError, "'shop.db'", "sqlite3.connect"),
    ("split at names", lambda: rows().split_at_indices(["a"]),  # type: ignore[list-item]
     TypeError, "['a']", "whole numbers"),
    ("a time budget as text", lambda: tune.TuneConfig(time_budget_s="10"),  # type: ignore[arg-type]
     TypeError, "got '10'", "a number of seconds"),
    ("name of skate misspelt", lambda: skate.remot,  # type: ignore[attr-defined]
     AttributeError, "'remot'", "mean 'remote'"),
    ("name of a library misspelt", lambda: train.reprot,  # type: ignore[attr-defined]
     AttributeError, "'reprot'", "mean 'report'"),
    ("a list of rows", lambda: data.from_list([{"a": 1}]),  # type: ignore[attr-defined]
     AttributeError, "'from_list'", "from_items()"),
    ("kill by name", lambda: skate.kill("worker"), ValueError, "'worker'", "get_actor('worker')"),
    ("cancel several", lambda: skate.cancel([add.remote(1)]),
     TypeError, "got [ObjectRef", "one after the other"),
    ("checkpoint misspelt in a report",
     lambda: trained(lambda: train.report({"a": 1}, chekpoint=None)),
     Exception, "'chekpoint'", "mean checkpoint"),
    ("number of workers first", lambda: train.ScalingConfig(2),  # type: ignore[arg-type]
     TypeError, "got 2", "num_workers=2"),
    ("two metrics", lambda: tune.TuneConfig(metric=["a", "b"]),  # type: ignore[arg-type]
     TypeError, "got ['a', 'b']", "one metric"),
    ("scheduler in other words",
     lambda: tune.schedulers.ASHAScheduler(max_epochs=3),  # type: ignore[call-arg]
     TypeError, "'max_epochs'", "max_t"),
    ("option of a search misspelt", lambda: tune.run(loop, num_sample=3),
     TypeError, "'num_sample'", "mean num_samples"),
    ("option of a restored search misspelt", lambda: tune.Tuner.restore("x", resume_error=True),
     TypeError, "'resume_error'", "mean resume_errored"),
    ("number of replicas as text", lambda: serve.deployment(num_replicas="two"),
     TypeError, "'two'", '"auto"'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "kind", "cause", "way_out"),
    [case[1:] for case in MISTAKES],
    ids=[case[0] for case in MISTAKES],
)
def test_a_mistake(
    act: Callable[[], Any], kind: type[Exception], cause: str, way_out: str
) -> None:
    with pytest.raises(kind) as caught:
        act()
    message = str(caught.value)
    assert cause in message
    assert way_out in message


@pytest.mark.parametrize(
    ("act", "kind", "cause"),
    [case[1:4] for case in MISTAKES],
    ids=[case[0] for case in MISTAKES],
)
def test_a_mistake_is_shown_in_one_piece(
    act: Callable[[], Any], kind: type[Exception], cause: str
) -> None:
    with pytest.raises(kind, match=re.escape(cause)) as caught:
        act()
    shown = traceback.TracebackException.from_exception(caught.value)
    assert len(own_frames(shown)) <= MOST_OWN_FRAMES
    assert shown.__cause__ is None or not own_frames(shown.__cause__)
    assert shown.__suppress_context__ or shown.__context__ is None


def test_an_error_of_ours_from_a_task_is_shown_without_our_frames() -> None:
    with pytest.raises(KeyError, match="no such column") as caught:
        rows().sort("x").take_all()
    assert " File " not in str(caught.value)


def test_there_are_many() -> None:
    assert len(MISTAKES) >= 60
