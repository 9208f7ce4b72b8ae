"""`ScalingConfig(num_workers=(least, most))`: workers come and go as resources do."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import skate
from skate import train
from skate.experimental import set_resource
from skate.train import Checkpoint, DataParallelTrainer, FailureConfig, ScalingConfig
from skate.train._workers.elastic import fitting_size
from skate.train.torch import ResilientState, TorchTrainer
from skate.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

GUARD_SECONDS = 120.0
REPLACED = FailureConfig(restart="worker")


@pytest.fixture(autouse=True)
def _seats(_session: None) -> Iterator[None]:
    """Each worker takes one; there is one at first."""
    set_resource("seat", 1)
    yield
    set_resource("seat", 0)


def scaling(least: int, most: int) -> ScalingConfig:
    return ScalingConfig(
        num_workers=(least, most),
        resources_per_worker={"CPU": 0.1, "seat": 1},
        elastic_resize_monitor_interval_s=0.1,
    )


def fit(trainer: Any, loop: Any, run_config: Any, least: int, most: int, **settings: Any) -> Any:
    return trainer(
        loop, scaling_config=scaling(least, most), run_config=run_config, **settings
    ).fit()


def until_the_size_changes(state: ResilientState) -> None:
    """Do steps together until the group is formed anew, which raises."""
    last = time.monotonic() + GUARD_SECONDS
    while time.monotonic() < last:
        torch.distributed.barrier()
        state.commit()
        time.sleep(0.01)
    raise TimeoutError(f"there are still {train.world_size()} workers")


@pytest.mark.parametrize(
    ("size", "free", "waiting", "wanted"),
    [
        (1, {}, [], 1),
        (1, {"CPU": 0.9}, [], 1),
        (1, {"CPU": 2.0}, [], 3),
        (1, {"CPU": 9.0}, [], 4),
        (4, {"CPU": -1.0}, [], 3),
        (4, {"CPU": -1.5}, [], 2),
        (2, {"CPU": -9.0}, [], 1),
        (4, {}, [{"CPU": 2.0}], 2),
        (4, {"CPU": 0.5}, [{"CPU": 2.0}], 2),
        (4, {}, [{"CPU": 4.0}, {"CPU": 3.0}], 1),
        (4, {}, [{"CPU": 4.0}], 4),
        (4, {}, [{"GPU": 1.0}], 4),
        (2, {"CPU": 2.0}, [{"GPU": 1.0}], 2),
        (2, {"CPU": 1.0}, [{"CPU": 1.0}], 2),
    ],
)
def test_how_many_there_should_be(size, free, waiting, wanted):
    assert fitting_size(size, (1, 4), {"CPU": 1.0}, free, waiting) == wanted


def test_workers_come_and_go_and_the_others_keep_what_they_have(run_config, tmp_path):
    starts = tmp_path / "starts"

    def loop():
        with open(starts, "a") as file:
            file.write(f"{os.getpid()}\n")
        model = train.torch.prepare_model(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = ResilientState(model=model, optimizer=optimizer, sizes=[])

        def steps(state):
            while True:
                state.sizes.append(train.world_size())
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                others = torch.tensor([model.module.bias.item()] * 2)
                torch.distributed.broadcast(others, 0)
                assert others[0] == model.module.bias
                train.report({"size": train.world_size(), "first": os.getpid()})
                state.commit()
                then = {1: 3, 3: 2, 2: None}[train.world_size()]
                if then is None:
                    return
                if train.world_rank() == 0:
                    set_resource("seat", then)
                until_the_size_changes(state)

        state.run(steps)
        train.report({"sizes": state.sizes, "first": os.getpid()})

    result = fit(TorchTrainer, loop, run_config(failure_config=REPLACED), 1, 3)
    assert result.metrics["sizes"] == [1, 3, 2]
    assert list(result.metrics_dataframe["size"])[:3] == [1, 3, 2]
    assert result.metrics_dataframe["first"].nunique() == 1
    assert len(starts.read_text().split()) == 3


def test_a_worker_whose_place_is_lost_is_left_out_and_the_others_move_up(run_config, tmp_path):
    """As when its node is gone, and no other has room."""
    numbers = tmp_path / "numbers"

    def loop():
        state = ResilientState(sizes=[])
        number = train.world_rank()

        def steps(state):
            state.sizes.append(train.world_size())
            state.commit()
            if state.sizes == [3, 2]:
                with open(numbers, "a") as file:
                    file.write(f"{number}-{train.world_rank()}\n")
                return
            own = placement_group_table(skate.util.get_current_placement_group())["name"]
            names = [""] * 3
            torch.distributed.all_gather_object(names, own)
            if number == 0:
                remove_placement_group(get_placement_group(names[1]))
                set_resource("seat", 2)
            until_the_size_changes(state)

        state.run(steps)
        train.report({"sizes": state.sizes})

    set_resource("seat", 3)
    result = fit(TorchTrainer, loop, run_config(failure_config=REPLACED), 1, 3)
    assert result.metrics["sizes"] == [3, 2]
    assert sorted(numbers.read_text().split()) == ["0-0", "2-1"]


def test_all_begin_again_where_the_place_of_one_that_must_be_there_is_lost(run_config, tally):
    def loop():
        state = ResilientState(sizes=[])

        def steps(state):
            state.sizes.append(train.world_size())
            state.commit()
            if tally.add() == 1:
                remove_placement_group(skate.util.get_current_placement_group())
                until_the_size_changes(state)

        state.run(steps)
        train.report({"sizes": state.sizes})

    result = fit(TorchTrainer, loop, run_config(failure_config=REPLACED), 1, 3)
    assert result.metrics["sizes"] == [1]
    assert len(tally) == 2


def test_rows_are_read_once_while_workers_come_and_go(run_config):
    """Of a dataset and of a loader, in both epochs."""

    def loop():
        loader = torch.utils.data.DataLoader(range(48), batch_size=2, shuffle=True)
        loader = train.torch.prepare_data_loader(loader)
        shard = train.get_dataset_shard("train")
        state = ResilientState(epoch=0, number=0, rows=[], ids=[])

        def steps(state):
            while state.epoch < 2:
                batches = shard.iter_torch_batches(batch_size=2)
                for rows, ids in zip(loader, batches, strict=True):
                    size = train.world_size()
                    gathered: list[Any] = [None] * size
                    both = (rows.tolist(), ids["id"].tolist())
                    torch.distributed.all_gather_object(gathered, both)
                    state.rows += [row for one, _ in gathered for row in one]
                    state.ids += [row for _, one in gathered for row in one]
                    state.number += 1
                    state.commit()
                    then = {3: 2, 6: 3, 9: 2, 16: 1, 20: 2}.get(state.number, size)
                    if then != size:
                        if train.world_rank() == 0:
                            set_resource("seat", then)
                        until_the_size_changes(state)
                state.epoch += 1
                state.commit()

        state.run(steps)
        train.report({"rows": state.rows, "ids": state.ids})

    result = fit(
        TorchTrainer,
        loop,
        run_config(failure_config=REPLACED),
        1,
        3,
        datasets={"train": skate.data.range(48, override_num_blocks=5)},
    )
    for name in ("rows", "ids"):
        seen = result.metrics[name]
        assert sorted(seen[:48]) == sorted(seen[48:]) == list(range(48)), name


def test_a_loop_without_a_state_goes_on_from_its_next_checkpoint(run_config, tmp_path):
    def loop():
        shard = train.get_dataset_shard("train")
        before = train.get_checkpoint()
        seen, sizes = before.to_dict().values() if before else ([], [])
        sizes.append(train.world_size())
        last = time.monotonic() + GUARD_SECONDS
        with tempfile.TemporaryDirectory(dir=tmp_path):
            for batch in shard.iter_batches(batch_size=3):
                (tmp_path / f"rows-{batch['id'][0]}").write_text(" ".join(map(str, batch["id"])))
                seen.append(len(seen))
                then = {2: 2, 4: 1}.get(len(seen), train.world_size())
                if train.world_rank() == 0:
                    set_resource("seat", then)
                while True:
                    kept = Checkpoint.from_dict({"seen": seen, "sizes": sizes})
                    train.report({"sizes": sizes}, checkpoint=kept)
                    if then == train.world_size():
                        break
                    assert time.monotonic() < last

    datasets = {"train": skate.data.range(36)}
    result = fit(DataParallelTrainer, loop, run_config(), 1, 2, datasets=datasets)
    assert result.metrics["sizes"] == [1, 2, 1]
    rows = [int(row) for part in tmp_path.glob("rows-*") for row in part.read_text().split()]
    assert sorted(rows) == list(range(36))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []
    iterations = list(result.metrics_dataframe["training_iteration"])
    assert iterations == list(range(1, len(iterations) + 1))


def test_a_placement_group_that_waits_gets_its_room(run_config):
    def loop():
        state = ResilientState(sizes=[])

        def steps(state):
            while len(state.sizes) < 3:
                state.sizes.append(train.world_size())
                state.commit()
                if len(state.sizes) < 3:
                    if train.world_rank() == 0:
                        if train.world_size() == 2:
                            placement_group([{"seat": 1}], name="others")
                        else:
                            others = get_placement_group("others")
                            assert others.wait(GUARD_SECONDS)
                            remove_placement_group(others)
                    until_the_size_changes(state)

        state.run(steps)
        train.report({"sizes": state.sizes})

    set_resource("seat", 2)
    result = fit(TorchTrainer, loop, run_config(failure_config=REPLACED), 1, 2)
    assert result.metrics["sizes"] == [2, 1, 2]


def test_new_workers_that_fail_disturb_nobody(run_config, tally):
    def loop():
        if train.world_size() > 1:
            tally.add()
            os.kill(os.getpid(), signal.SIGKILL)
        state = ResilientState(began=0)

        def steps(state):
            state.began += 1
            set_resource("seat", 2)
            last = time.monotonic() + GUARD_SECONDS
            while not len(tally):
                train.report({"began": state.began, "size": train.world_size()})
                assert time.monotonic() < last
            for _ in range(3):
                train.report({"began": state.began, "size": train.world_size()})
                state.commit()

        state.run(steps)

    result = fit(TorchTrainer, loop, run_config(failure_config=REPLACED), 1, 2)
    assert len(tally) == 1
    assert set(result.metrics_dataframe["began"]) == set(result.metrics_dataframe["size"]) == {1}


def test_a_group_begins_with_what_is_free(run_config):
    set_resource("seat", 3)
    others = placement_group([{"seat": 1}])
    assert others.wait(GUARD_SECONDS)

    def loop():
        train.report({"size": train.world_size()})

    try:
        assert fit(DataParallelTrainer, loop, run_config(), 1, 3).metrics["size"] == 2
    finally:
        remove_placement_group(others)


@pytest.mark.parametrize("interval", [-1, "1", None])
def test_seconds_that_make_no_sense(interval):
    with pytest.raises(ValueError, match="elastic_resize_monitor_interval_s is a number"):
        ScalingConfig(elastic_resize_monitor_interval_s=interval)
