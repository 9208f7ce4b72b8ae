"""Datasets of a trainer: disjoint, equal, streaming parts; preprocessors."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest

import skate.data
from skate import train
from skate.air import DatasetConfig
from skate.data import RandomSeedConfig
from skate.data.preprocessors import MinMaxScaler, StandardScaler
from skate.train import Checkpoint, DataConfig, DataParallelTrainer, FailureConfig
from tests.support import Tally


def fit(loop, run_config, datasets, **settings):
    return DataParallelTrainer(
        loop,
        scaling_config={"num_workers": 2},
        run_config=run_config,
        datasets=datasets,
        **settings,
    ).fit()


def reading(place, epochs=1):
    """A loop that notes which rows each rank gets."""

    def loop():
        shard = train.get_dataset_shard("train")
        tally = Tally(place / f"rank-{train.world_rank()}")
        for _ in range(epochs):
            for batch in shard.iter_batches(batch_size=4):
                for number in batch["id"]:
                    tally.add(number)

    return loop


def rows(place, rank):
    return [int(word) for word in Tally(place / f"rank-{rank}").words()]


def test_parts_are_disjoint_and_equal(run_config, tmp_path):
    fit(reading(tmp_path, epochs=2), run_config(), {"train": skate.data.range(20)})
    first, second = rows(tmp_path, 0), rows(tmp_path, 1)
    assert sorted(first[:10] + second[:10]) == list(range(20))
    assert sorted(first[10:] + second[10:]) == list(range(20))


@pytest.mark.parametrize("times", [None, 3])
def test_epochs_of_a_pipeline(run_config, tmp_path, times):
    """As loops of older versions of Ray ask for them, each to be read to its end."""

    def loop():
        epochs = train.get_dataset_shard("train").iter_epochs()
        whole = train.get_dataset_shard("whole").iter_epochs()
        tally = Tally(tmp_path / f"rank-{train.world_rank()}")
        for _ in range(2):
            for row in next(epochs).iter_rows():
                tally.add(row["id"])
            assert [row["id"] for row in next(whole).iter_rows()] == [0, 1]

    datasets = {
        "train": skate.data.range(20).repeat(times).random_shuffle_each_window(),
        "whole": skate.data.range(2).repeat(times),
    }
    fit(loop, run_config(), datasets, dataset_config=DataConfig(datasets_to_split=["train"]))
    first, second = rows(tmp_path, 0), rows(tmp_path, 1)
    assert sorted(first[:10] + second[:10]) == list(range(20))
    assert sorted(first[10:] + second[10:]) == list(range(20))


@pytest.mark.parametrize(("uneven", "each", "distinct"), [("repeat", 11, 21), ("drop", 10, 20)])
def test_what_does_not_divide(run_config, tmp_path, uneven, each, distinct):
    config = DataConfig(uneven=uneven)
    dataset = {"train": skate.data.range(21)}
    fit(reading(tmp_path), run_config(), dataset, dataset_config=config)
    first, second = rows(tmp_path, 0), rows(tmp_path, 1)
    assert len(first) == len(second) == each
    assert len({*first, *second}) == distinct


@pytest.mark.parametrize("spelling", [DataConfig(["other"]), {"train": {"split": False}}])
def test_whole_datasets_for_each(run_config, tmp_path, spelling):
    fit(reading(tmp_path), run_config(), {"train": skate.data.range(6)}, dataset_config=spelling)
    assert rows(tmp_path, 0) == rows(tmp_path, 1) == list(range(6))


def test_the_older_settings_of_datasets(run_config, tmp_path):
    data = {"train": skate.data.range(6), "valid": skate.data.range(4)}
    settings = {"valid": {"split": False}}
    fit(reading(tmp_path), run_config(), data, dataset_config=settings)
    assert len(rows(tmp_path, 0)) == len(rows(tmp_path, 1)) == 3
    with pytest.raises(ValueError, match=r"\['other'\]; the datasets are"):
        fit(lambda: None, run_config(), data, dataset_config={"other": {"split": True}})
    with pytest.raises(ValueError, match=r"no \['spilt'\]"):
        fit(lambda: None, run_config(), data, dataset_config={"train": {"spilt": True}})


def test_the_older_settings_of_preprocessing_and_order(run_config, tmp_path):
    numbers = {name: skate.data.range(64) for name in ("train", "valid")}
    scaler = MinMaxScaler(["id"])

    def loop():
        shards = {name: train.get_dataset_shard(name) for name in ("train", "valid")}
        epochs = [[row["id"] for row in shards["train"].iter_rows()] for _ in range(2)]
        assert sorted(epochs[0]) == sorted(epochs[1]) == [n / 63 for n in range(64)]
        assert epochs[0] != epochs[1]
        assert [row["id"] for row in shards["valid"].iter_rows()] == list(range(64))

    settings = {
        "train": DatasetConfig(global_shuffle=True, use_stream_api=True, required=True),
        "valid": DatasetConfig(fit=True, transform=False),
    }
    trainer = DataParallelTrainer(
        loop,
        scaling_config={"num_workers": 1},
        run_config=run_config(),
        datasets=numbers,
        preprocessor=scaler,
        dataset_config=settings,
    )
    trainer.fit()
    assert trainer.get_dataset_config()["train"].split
    with pytest.raises(ValueError, match=r"\['train'\]; the datasets are \['valid'\]"):
        DataParallelTrainer(loop, datasets={"valid": numbers["valid"]}, dataset_config=settings)


@pytest.mark.parametrize("spelling", ["for all", "by name"])
def test_data_is_computed_with_the_options_of_its_config(spelling):
    from skate.data import ExecutionOptions, ExecutionResources

    mine = ExecutionOptions(resource_limits=ExecutionResources(cpu=2))
    given = mine if spelling == "for all" else {"train": mine}
    config = DataConfig(datasets_to_split=[], execution_options=given)
    dataset = skate.data.range(1).with_column("limit", limit_of_cpus())
    ((share,), (other,)) = (config.configure({name: dataset}, 1) for name in ("train", "test"))
    assert [row["limit"] for row in share["train"].iter_rows()] == [2]
    if spelling == "by name":
        assert [row["limit"] for row in other["test"].iter_rows()] == [float("inf")]
    assert [row["limit"] for row in dataset.iter_rows()] == [float("inf")]


def limit_of_cpus():
    """A column of what the settings say while it is computed, in this process."""
    from skate.data import DataContext
    from skate.data._expressions.expression import Expr

    def ask(block):
        limits = DataContext.get_current().execution_options.resource_limits
        return pa.array([limits.cpu] * block.num_rows)

    return Expr(ask, "limit_of_cpus", ())


def test_workers_have_the_settings_of_the_program(run_config):
    from skate.data import DataContext

    def loop():
        assert DataContext.get_current().get_config("mine") == 7

    settings = DataContext.get_current().copy()
    settings.set_config("mine", 7)
    with DataContext.current(settings):
        fit(loop, run_config(), {"train": skate.data.range(1)})


def test_options_where_nothing_is_said():
    from skate.data import DataContext, ExecutionResources

    settings = DataContext.get_current().copy()
    settings.execution_options.preserve_order = True
    settings.execution_options.resource_limits = ExecutionResources(cpu=3)
    with DataContext.current(settings):
        found = DataConfig.default_ingest_options()
    assert (found.preserve_order, found.resource_limits.cpu) == (True, 3)
    found.preserve_order = False
    assert settings.execution_options.preserve_order


def test_a_config_of_ones_own(run_config):
    class Mine(DataConfig):
        def configure(self, datasets, world_size, worker_handles, worker_node_ids, **info):
            assert len(worker_handles) == world_size == 2
            return [{"train": rank} for rank in range(world_size)]

    def loop():
        assert train.get_dataset_shard("train") == train.world_rank()

    for given in ({"train": skate.data.range(1)}, {}):  # it may bring all of them itself
        fit(loop, run_config(), given, dataset_config=Mine())


def test_a_preprocessor_is_fitted_once_and_travels_in_the_checkpoint(run_config):
    frame = [{"x": float(n)} for n in range(8)]
    scaler = StandardScaler(["x"])

    def loop():
        values = [row["x"] for row in train.get_dataset_shard("train").iter_rows()]
        train.report({"n": len(values)}, checkpoint=Checkpoint.from_dict({"sum": sum(values)}))

    datasets = {"train": skate.data.from_items(frame), "test": skate.data.from_items(frame[:2])}
    result = fit(loop, run_config(), datasets, preprocessor=scaler)
    assert result.metrics["n"] == 4
    kept = result.checkpoint.get_preprocessor()
    assert kept.stats_ == scaler.stats_
    assert kept.transform_batch({"x": [3.5]})["x"][0] == 0


def test_a_killed_worker_goes_on_behind_the_rows_it_has_read(run_config, tmp_path, tally):
    def loop():
        shard = train.get_dataset_shard("train")
        notes = Tally(tmp_path / f"rank-{train.world_rank()}")
        before = train.get_checkpoint()
        done = before.to_dict()["batches"] if before else 0
        for epoch in range(done // 4, 2):
            for batch in shard.iter_batches(batch_size=5):
                if done == 6 and train.world_rank() == 1 and len(tally) == 0:
                    tally.add()
                    os.kill(os.getpid(), signal.SIGKILL)
                done += 1
                for number in batch["id"]:
                    notes.add(number)
                train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict({"batches": done}))

    failures = FailureConfig(max_failures=1)
    fit(loop, run_config(failure_config=failures), {"train": skate.data.range(40)})
    killed, other = rows(tmp_path, 1), rows(tmp_path, 0)
    assert len(killed) == 40
    assert killed[:20] == killed[20:]  # two epochs, no row twice, none left out
    assert 40 <= len(other) <= 45  # the batch that it may have begun as the other was killed
    assert sorted({*killed, *other}) == list(range(40))


SHUFFLED = {
    "with one seed": lambda ds: ds.random_shuffle(seed=1),
    "rows": lambda ds: ds.random_shuffle(),
    "rows, with other seeds": lambda ds: ds.random_shuffle(seed=RandomSeedConfig(1)),
    "blocks": lambda ds: ds.randomize_block_order(),
}


@pytest.mark.parametrize("how", SHUFFLED)
def test_an_epoch_in_an_order_of_its_own_begins_anew(run_config, tmp_path, how):
    def loop():
        before = train.get_checkpoint()
        notes = Tally(tmp_path / f"rank-{'again' if before else 'first'}")
        for batch in train.get_dataset_shard("train").iter_batches(batch_size=5):
            for number in batch["id"]:
                notes.add(number)
            train.report({}, checkpoint=Checkpoint.from_dict({}))
            if before is None and len(notes) == 20:
                raise RuntimeError("once")

    DataParallelTrainer(
        loop,
        run_config=run_config(failure_config=FailureConfig(max_failures=1)),
        datasets={"train": SHUFFLED[how](skate.data.range(40, override_num_blocks=8))},
    ).fit()
    first, again = rows(tmp_path, "first"), rows(tmp_path, "again")
    assert sorted({*first, *again}) == list(range(40))
    assert len(again) == (20 if how == "with one seed" else 40)


@pytest.mark.usefixtures("_session")
def test_positions_in_parts_that_are_dealt_out_as_they_are_asked_for_mean_nothing():
    for uneven in ("repeat", "drop", "keep"):
        shares = DataConfig(uneven=uneven).configure({"train": skate.data.range(4)}, 2)
        assert [share["train"]._keeps_order() for share in shares] == [uneven != "keep"] * 2


def test_what_is_not_a_dataset(run_config):
    with pytest.raises(ValueError, match="not a Dataset but a list"):
        fit(lambda: None, run_config(), {"train": [1, 2]})
    with pytest.raises(ValueError, match="dict of datasets"):
        fit(lambda: None, run_config(), skate.data.range(2))


def test_restored_runs_need_their_datasets_again(run_config, tmp_path):
    def loop():
        train.report(rows=sum(1 for _ in train.get_dataset_shard("train").iter_rows()))

    result = fit(loop, run_config(), {"train": skate.data.range(8)})
    with pytest.raises(ValueError, match="datasets="):
        DataParallelTrainer.restore(result.path)
    again = DataParallelTrainer.restore(result.path, datasets={"train": skate.data.range(4)})
    assert again.fit().metrics["rows"] == 2


def test_a_shard_can_do_what_a_dataset_can(run_config):
    def loop():
        shard = train.get_dataset_shard("train")
        evens = shard.filter(lambda row: row["id"] % 2 == 0)
        total = sum(batch["id"].sum() for batch in shard.iter_batches())
        train.report(rows=shard.count(), evens=evens.count(), total=int(total))
        with pytest.raises(AttributeError, match="'colour'"):
            shard.colour  # noqa: B018

    trainer = DataParallelTrainer(
        loop, datasets={"train": skate.data.range(8)}, run_config=run_config(),
        scaling_config={"num_workers": 1},
    )  # fmt: skip
    metrics = trainer.fit().metrics
    assert (metrics["rows"], metrics["evens"], metrics["total"]) == (8, 4, 28)


@pytest.mark.parametrize("datasets", ["invalid", True, {"train": "invalid"}, {"train": [1]}])
def test_what_is_no_dataset_is_refused_at_once(datasets):
    with pytest.raises(ValueError, match="datasets"):
        DataParallelTrainer(lambda: None, datasets=datasets)


def test_a_shard_tells_the_settings_of_its_dataset(run_config):
    from skate.data import DataContext, ExecutionOptions, ExecutionResources

    def loop():
        for name, cpus in (("train", 2), ("valid", float("inf"))):
            options = train.get_dataset_shard(name).get_context().execution_options
            assert options.resource_limits.cpu == cpus

    few = ExecutionOptions(resource_limits=ExecutionResources(cpu=2))
    datasets = {"train": skate.data.range(4), "valid": skate.data.range(4)}
    config = DataConfig(datasets_to_split=["train"], execution_options={"train": few})
    fit(loop, run_config(), datasets, dataset_config=config)
    context = DataContext.get_current()
    assert DataConfig.default_ingest_options() == ExecutionOptions(
        preserve_order=context.execution_options.preserve_order,
        verbose_progress=context.execution_options.verbose_progress,
    )


def test_another_number_of_workers_goes_on_where_the_loaders_were(run_config, tmp_path):
    """The state of one rank stands for all, which take equally many batches."""

    def loop(config):
        batches = train.get_dataset_shard("train").iter_torch_batches(batch_size=4)
        if config["state"] is not None:
            batches.load_state_dict(config["state"])
        tally = Tally(tmp_path / "rows")
        for number, batch in enumerate(batches, 1):
            for row in batch["id"].tolist():
                tally.add(row)
            if number == config["stop"]:
                train.report({"state": batches.state_dict()})
                return

    def run(workers, stop, state):
        trainer = DataParallelTrainer(
            loop,
            train_loop_config={"stop": stop, "state": state},
            scaling_config={"num_workers": workers},
            run_config=run_config(),
            datasets={"train": skate.data.range(48)},
        )
        return trainer.fit().metrics

    state = run(2, 3, None)["state"]
    run(3, -1, state)
    assert sorted(map(int, Tally(tmp_path / "rows").words())) == list(range(48))


def test_another_number_of_workers_gets_the_rows_that_were_left_at_the_checkpoint(
    run_config, tmp_path
):
    """Of an epoch, also when their number changes twice."""

    def loop(config):
        tally = Tally(tmp_path / "rows")
        for number, batch in enumerate(
            train.get_dataset_shard("train").iter_batches(batch_size=4)
        ):
            for row in batch["id"]:
                tally.add(row)
            train.report({}, checkpoint=Checkpoint.from_dict({}))
            if number + 1 == config["stop"]:
                return

    for workers, stop in ((2, 3), (3, 1), (1, -1)):
        DataParallelTrainer(
            loop,
            train_loop_config={"stop": stop},
            scaling_config={"num_workers": workers},
            run_config=run_config(),
            datasets={"train": skate.data.range(48, override_num_blocks=5)},
        ).fit()
    assert sorted(map(int, Tally(tmp_path / "rows").words())) == list(range(48))


@pytest.mark.parametrize("near", [True, False])
def test_datasets_of_others_share_themselves_out(near):
    class Foreign:
        def streaming_split(self, n, *, equal, locality_hints):
            return [(rank, equal, locality_hints) for rank in range(n)]

    config = DataConfig(["train"], enable_shard_locality=near)
    whole = Foreign()
    places = ["a", "b"]
    shares = config.configure({"train": Foreign(), "test": whole}, 2, worker_node_ids=places)
    hints = places if near else None
    assert [share["train"] for share in shares] == [(0, True, hints), (1, True, hints)]
    assert [share["test"] for share in shares] == [whole, whole]
