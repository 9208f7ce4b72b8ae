"""`FailureConfig(restart="worker")`: workers that die are replaced one by one."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch

import skate
from skate import train
from skate.train import (
    Checkpoint,
    DataParallelTrainer,
    FailureConfig,
    WorkerGroupError,
    _replacing,
)
from skate.train.torch import ResilientState, TorchTrainer

STEPS = 30


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fit(loop: Any, run_config: Any, workers: int = 2, config: Any = None, **settings: Any) -> Any:
    return TorchTrainer(
        loop,
        train_loop_config=config or {},
        scaling_config={"num_workers": workers, "resources_per_worker": {"CPU": 0.5}},
        run_config=run_config,
        **settings,
    ).fit()


class Doom:
    """Kills workers in some of their steps, each once, at one of several places in it."""

    def __init__(self, tally: Any, plan: dict[int, tuple[int, str]]) -> None:
        self._tally = tally
        self._plan = plan  # the rank and the place, by step

    def __call__(self, step: int, place: str) -> None:
        number = len(self._tally)
        due = sorted(self._plan)[number : number + 1] == [step]
        if due and self._plan[step] == (train.world_rank(), place):
            self._tally.add()
            die()


def resilient_loop(config: dict[str, Any]) -> None:
    """A model with dropout and batch norm, an optimizer with state, a seed."""
    doom = config["doom"]
    train.torch.enable_reproducibility(3)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2),
        torch.nn.ReLU(), torch.nn.Linear(16, 1),
    )  # fmt: skip
    model = train.torch.prepare_model(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = ResilientState(model=model, optimizer=optimizer, step=0)

    def steps(state: ResilientState) -> None:
        while state.step < STEPS:
            step = state.step
            doom(step, "begin")
            where = torch.Generator().manual_seed(100 * step + train.world_rank())
            x = torch.rand(8, 6, generator=where)
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            doom(step, "backward")
            loss.backward()
            doom(step, "update")
            optimizer.step()
            if step % 5 == 4:
                train.report({"step": step, "loss": loss.item()})
                doom(step, "reported")
            state.step += 1
            state.commit()
            doom(step, "committed")

    state.run(steps)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    train.report({"step": state.step}, checkpoint=Checkpoint.from_dict({"model": weights}))


def weights_of(result: Any) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = result.checkpoint.to_dict()["model"]
    return weights


KILLS = {
    2: {0: (0, "backward"), 4: (1, "reported"), 9: (0, "update"), 17: (0, "committed"),
        23: (1, "begin"), 29: (0, "begin")},
    3: {1: (2, "update"), 14: (1, "reported"), 21: (0, "backward")},
}  # fmt: skip


@pytest.fixture
def run_config(run_config: Any) -> Any:
    """Has workers replaced one by one, unless a test says otherwise."""
    failure = FailureConfig(restart="worker")
    return lambda **settings: run_config(**{"failure_config": failure, **settings})


@pytest.mark.parametrize("workers", [2, 3])
def test_weights_are_those_of_an_undisturbed_run(run_config, tally, workers):
    calm, doomed = (
        fit(resilient_loop, run_config(name=name), workers, {"doom": Doom(tally, deaths)})
        for name, deaths in (("calm", {}), ("doomed", KILLS[workers]))
    )
    assert len(tally) == len(KILLS[workers])
    assert list(doomed.metrics_dataframe["step"]) == [4, 9, 14, 19, 24, 29, 30]
    assert list(doomed.metrics_dataframe["training_iteration"]) == list(range(1, 8))
    one, other = weights_of(calm), weights_of(doomed)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_survivors_keep_their_processes(run_config, tally, tmp_path):
    starts = tmp_path / "starts"

    def loop():
        with open(starts, "a") as file:
            file.write(f"{os.getpid()}\n")
        state = ResilientState(step=0, seen=[])

        def steps(state):
            while state.step < 4:
                torch.distributed.barrier()
                state.step += 1
                state.seen.append(state.step)
                state.commit()
                if state.step == 2 and train.world_rank() == 1 and tally.add() == 1:
                    die()

        state.run(steps)
        train.report({"seen": state.seen, "survivor": os.getpid()})

    result = fit(loop, run_config())
    first = starts.read_text().split()
    assert len(first) == 3
    assert str(result.metrics["survivor"]) in first[:2]
    assert result.metrics["seen"] == [1, 2, 3, 4]


def test_several_die_at_once(run_config, tally):
    def loop():
        state = ResilientState(step=0)

        def steps(state):
            while state.step < 4:
                torch.distributed.barrier()
                if state.step == 2 and train.world_rank() != 1 and tally.add() <= 2:
                    die()
                state.step += 1
                state.commit()

        state.run(steps)
        train.report({"step": state.step})

    assert fit(loop, run_config(), workers=3).metrics["step"] == 4
    assert len(tally) >= 2  # rank 1 may have had a commit of that step, and given it to them


def test_a_survivor_that_waits_for_ever_is_replaced_too(run_config, tally, monkeypatch):
    monkeypatch.setattr(_replacing, "STUCK_SECONDS", 0)

    def loop():
        state = ResilientState(step=0)

        def steps(state):
            while state.step < 3:
                torch.distributed.barrier()
                if state.step == 1 and train.world_rank() and tally.add() <= 2:
                    if train.world_rank() == 1:
                        torch.futures.Future().wait()
                    die()
                state.step += 1
                state.commit()

        state.run(steps)
        train.report({"step": state.step})

    assert fit(loop, run_config(), workers=3).metrics["step"] == 3
    assert len(tally) >= 2


def test_rows_of_a_dataset_and_of_a_loader_are_read_once(run_config, tally, tmp_path):
    """What is committed is written down; what was read and not committed is read again."""

    def loop(config):
        loader = torch.utils.data.DataLoader(range(48), batch_size=4, shuffle=True)
        loader = train.torch.prepare_data_loader(loader)
        shard = train.get_dataset_shard("train")
        state = ResilientState(epoch=0, rows=[], ids=[])

        def steps(state):
            while state.epoch < 2:
                batches = shard.iter_torch_batches(batch_size=4)
                for number, (rows, ids) in enumerate(zip(loader, batches, strict=True)):
                    total = torch.tensor(1.0)
                    torch.distributed.all_reduce(total)
                    assert total == 2
                    due = (state.epoch, number) in ((0, 3), (1, 5))
                    if due and train.world_rank() == state.epoch and tally.add() <= 2:
                        die()
                    gathered: list[Any] = [None, None]
                    both = (rows.tolist(), ids["id"].tolist())
                    torch.distributed.all_gather_object(gathered, both)
                    state.rows += [row for one, _ in gathered for row in one]
                    state.ids += [row for _, one in gathered for row in one]
                    state.commit()
                state.epoch += 1
                state.commit()

        state.run(steps)
        train.report({"rows": state.rows, "ids": state.ids})

    datasets = {"train": skate.data.range(48)}
    result = fit(loop, run_config(), datasets=datasets)
    assert len(tally) == 2
    for name in ("rows", "ids"):
        seen = result.metrics[name]
        assert sorted(seen[:48]) == sorted(seen[48:]) == list(range(48)), name


def test_a_newcomer_is_told_what_was_answered_before(run_config, tally):
    """Before `run` it is alone: collectives do nothing, and meetings are repeated to it."""

    def loop():
        token = train.collective.broadcast_from_rank_zero(
            tally.add() if train.world_rank() == 0 else None
        )
        train.report({"stage": "before"})
        torch.distributed.barrier()
        state = ResilientState(step=0)

        def steps(state):
            while state.step < 3:
                everybody = train.collective.broadcast_from_rank_zero(state.step)
                assert everybody == state.step
                checkpoint = Checkpoint.from_dict({"step": state.step})
                train.report({"stage": state.step}, checkpoint=checkpoint)
                if state.step == 1 and train.world_rank() == 1 and len(tally) == 1:
                    tally.add()
                    die()
                state.step += 1
                state.commit()

        state.run(steps)
        train.report({"stage": "after", "token": token})

    result = fit(loop, run_config())
    assert list(result.metrics_dataframe["stage"]) == ["before", 0, 1, 2, "after"]
    assert result.metrics["token"] == 1
    assert result.checkpoint.to_dict() == {"step": 2}


def test_errors_of_the_loop_are_not_taken_for_deaths(run_config, tally):
    def loop():
        def steps(state):
            state.commit()
            if train.world_rank() == 1:
                raise ValueError("mine")
            torch.distributed.barrier()

        tally.add()
        ResilientState().run(steps)

    failure = FailureConfig(restart="worker", max_failures=1)
    with pytest.raises(WorkerGroupError, match="mine"):
        fit(loop, run_config(failure_config=failure))
    assert len(tally) == 4


@pytest.mark.parametrize("place", ["before", "after"])
def test_where_the_state_is_not_shared_the_whole_group_begins_again(run_config, tally, place):
    def loop():
        if place == "before" and train.world_rank() == 1 and tally.add() == 1:
            die()
        ResilientState(step=0).run(lambda state: state.commit())
        if place == "after" and train.world_rank() == 1 and tally.add() == 1:
            die()
        train.report({"rank": train.world_rank()})

    result = fit(loop, run_config())
    assert result.metrics["rank"] == 0
    assert len(tally) == 2


def test_a_worker_that_dies_at_the_same_place_again_and_again(run_config, tally):
    def loop():
        def steps(state):
            state.commit()
            tally.add()
            die()

        def others(state):
            state.commit()
            torch.distributed.barrier()

        ResilientState().run(steps if train.world_rank() else others)

    with pytest.raises(WorkerGroupError, match="rank 1: its process is dead"):
        fit(loop, run_config(failure_config=FailureConfig(restart="worker", max_failures=2)))
    assert len(tally) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"restart": "rank"}, r"restart is one of \('group', 'worker'\); got 'rank'"),
        ({"restart": "worker", "fail_fast": True}, "restart must be 'group'"),
    ],
)
def test_what_cannot_be_asked_for(settings, message):
    with pytest.raises(ValueError, match=message):
        FailureConfig(**settings)


def test_who_cannot_replace_workers(run_config):
    trainer = DataParallelTrainer(lambda: None, run_config=run_config())
    with pytest.raises(ValueError, match=r"BackendConfig cannot be replaced one by one.*Torch"):
        trainer.fit()


def test_a_state_refuses_what_it_cannot_share(run_config):
    def loop():
        state = ResilientState(step=0)
        with pytest.raises(AttributeError, match=r"are \['step'\]; give it 'epoch' when"):
            state.epoch = 1
        with pytest.raises(AttributeError, match=r"no 'epoch'; it has \['step'\]"):
            state.epoch  # noqa: B018
        with pytest.raises(ValueError, match=r"no room for the names \['commit'\]"):
            ResilientState(commit=1)
        net = torch.nn.Linear(1, 1)
        with pytest.raises(TypeError, match="prepare_model, whose wrapper can be connected anew"):
            ResilientState(net=torch.nn.parallel.DistributedDataParallel(net))
        state.run(lambda state: None)
        with pytest.raises(RuntimeError, match="one function in a training loop"):
            state.run(lambda state: None)

    fit(loop, run_config())


def test_elsewhere_the_function_is_just_called(run_config):
    def loop():
        state = ResilientState(step=0)

        def steps(state):
            state.step += 1
            state.commit()
            return state.step

        train.report({"returned": state.run(steps)})

    group = run_config(failure_config=FailureConfig())
    assert fit(loop, group).metrics["returned"] == 1
    assert fit(loop, group, workers=0).metrics["returned"] == 1
