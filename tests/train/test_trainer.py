"""The Trainer of Ray 1.x: started once, and given one loop after the other."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import skate
from skate import train, tune
from skate.train import CheckpointStrategy, Trainer
from skate.train.backend import BackendConfig
from skate.train.callbacks import (
    JsonLoggerCallback,
    PrintCallback,
    TBXLoggerCallback,
    TrainingCallback,
)

pytestmark = pytest.mark.usefixtures("_session")


@pytest.fixture
def trainer(tmp_path):
    made = Trainer(BackendConfig(), num_workers=2, logdir=tmp_path / "logs")
    made.start()
    yield made
    made.shutdown()


class Collecting(TrainingCallback):
    def __init__(self):
        self.results, self.events = [], []

    def start_training(self, logdir, config, **info):
        self.events.append(("start", Path(logdir).name, config))

    def handle_result(self, results, **info):
        self.results.append([(one["rank"], one["step"]) for one in results])

    def finish_training(self, error=False, **info):
        self.events.append(("finish", error))


def counting(config):
    for step in range(config.get("steps", 2)):
        train.report(step=step, rank=train.world_rank())
    return train.world_rank() * 10


class TestRun:
    def test_what_each_worker_returned_and_reported(self, trainer):
        told = Collecting()
        assert trainer.run(counting, {"steps": 3}, callbacks=[told]) == [0, 10]
        assert told.results == [[(0, step), (1, step)] for step in range(3)]
        assert told.events == [("start", "run_001", {"steps": 3}), ("finish", False)]
        assert trainer.run(lambda: "again") == ["again", "again"]
        assert trainer.latest_run_dir == trainer.logdir / "run_002"

    def test_an_iterator(self, trainer):
        reports = trainer.run_iterator(counting, {})
        assert reports.get_final_results() is None
        first = next(reports)
        assert [one["_training_iteration"] for one in first] == [1, 1]
        assert not reports.is_finished()
        assert [one[0]["step"] for one in reports] == [1]
        assert reports.is_finished()
        assert reports.get_final_results() == [0, 10]
        forced = trainer.run_iterator(counting, {})
        assert forced.get_final_results(force=True) == [0, 10]
        with pytest.raises(StopIteration):
            next(forced)

    def test_what_a_loop_raises_is_raised_once(self, trainer, tmp_path):
        def failing():
            with (tmp_path / "tries").open("a") as file:
                file.write(f"{train.world_rank()}\n")
            raise NotImplementedError("not yet")

        told = Collecting()
        with pytest.raises(NotImplementedError, match="not yet"):
            trainer.run(failing, callbacks=[told])
        assert told.events[-1] == ("finish", True)
        assert sorted((tmp_path / "tries").read_text().split()) == ["0", "1"]
        assert trainer.run(lambda: 1) == [1, 1]

    def test_workers_that_die_are_replaced(self, trainer, tmp_path):
        def dying():
            start = (train.load_checkpoint() or {"step": 0})["step"]
            for step in range(start, 3):
                if step == 1 and start == 0 and train.world_rank() == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                train.save_checkpoint(step=step + 1)
            return start

        assert trainer.run(dying) == [1, 1]

    def test_datasets(self, trainer):
        def rows():
            return sorted(row["id"] for row in train.get_dataset_shard().iter_rows())

        first, second = trainer.run(rows, dataset=skate.data.range(10))
        assert sorted(first + second) == list(range(10))

    def test_a_hook_is_called_in_each_worker(self, tmp_path):
        def hook():
            os.environ["HOOKED"] = "yes"

        trainer = Trainer(BackendConfig(), 2, logdir=tmp_path)
        trainer.start(initialization_hook=hook)
        assert trainer.run(lambda: os.environ["HOOKED"]) == ["yes", "yes"]

    def test_torch(self, tmp_path):
        def loop():
            import torch

            model = train.torch.prepare_model(torch.nn.Linear(1, 1))
            return type(model).__name__, torch.distributed.get_world_size()

        trainer = Trainer("torch", 2, logdir=tmp_path)
        trainer.start()
        assert trainer.run(loop) == [("DistributedDataParallel", 2)] * 2


class TestCheckpoints:
    def test_the_latest_and_going_on(self, trainer):
        def saving():
            assert train.load_checkpoint() is None
            for epoch in range(3):
                train.save_checkpoint(epoch=epoch)

        assert trainer.latest_checkpoint is None
        trainer.run(saving)
        assert trainer.latest_checkpoint == trainer.best_checkpoint == {"epoch": 2}
        path = trainer.best_checkpoint_path
        assert Trainer.load_checkpoint_from_path(path) == {"epoch": 2}
        for given in (path, str(path), {"epoch": 2}):
            assert trainer.run(lambda: train.load_checkpoint()["epoch"], checkpoint=given) == [
                2,
                2,
            ]

    def test_the_best_by_a_strategy(self, trainer):
        def saving():
            for loss in (5, 3, 7, 4):
                train.save_checkpoint(loss=loss)
                train.report(loss=loss)

        strategy = CheckpointStrategy(2, "loss", "min")
        trainer.run(saving, checkpoint_strategy=strategy)
        assert trainer.best_checkpoint == {"loss": 3}
        assert trainer.latest_checkpoint == {"loss": 4}
        assert len(list(trainer.latest_checkpoint_dir.glob("checkpoint_*"))) == 2

    def test_runs_of_an_earlier_program_are_left_alone(self, trainer):
        def saving():
            assert train.load_checkpoint() is None
            train.save_checkpoint(epoch=1)

        trainer.run(saving)
        another = Trainer(BackendConfig(), 2, logdir=trainer.logdir)
        another.start()
        another.run(saving)
        assert another.latest_run_dir.name == "run_002"


class TestCallbacks:
    def test_json(self, trainer, tmp_path):
        first, all_of_them = JsonLoggerCallback(), JsonLoggerCallback(tmp_path, "all.json", None)
        trainer.run(counting, callbacks=[first, all_of_them])
        rows = json.loads((trainer.latest_run_dir / "results.json").read_text())
        assert [[one["step"] for one in row] for row in rows] == [[0], [1]]
        rows = json.loads((tmp_path / "all.json").read_text())
        assert [[one["rank"] for one in row] for row in rows] == [[0, 1], [0, 1]]
        assert first.log_path == trainer.latest_run_dir / "results.json"

    def test_print(self, trainer, capsys):
        trainer.run(counting, {"steps": 1}, callbacks=[PrintCallback()])
        printed = json.loads(capsys.readouterr().out)
        assert [one["rank"] for one in printed] == [0, 1]

    def test_tensorboard(self, trainer, tmp_path):
        (tmp_path / "board").mkdir()
        trainer.run(counting, callbacks=[TBXLoggerCallback(tmp_path / "board", 1)])
        assert list(trainer.latest_run_dir.glob("events.out.tfevents.*"))
        (events,) = (tmp_path / "board").glob("events.out.tfevents.*")
        assert b"ray/tune/rank" in events.read_bytes()


class TestOtherUses:
    def test_as_a_trainable(self, tmp_path):
        def loop(config):
            train.save_checkpoint(lr=config["lr"])
            train.report(loss=config["lr"] * train.world_size())

        trainer = Trainer(BackendConfig(), num_workers=2)
        analysis = tune.run(
            trainer.to_tune_trainable(loop), config={"lr": tune.grid_search([1, 2])},
            metric="loss", mode="min", storage_path=tmp_path, verbose=0,
        )  # fmt: skip
        assert analysis.best_config == {"lr": 1}
        assert analysis.best_result["loss"] == 2
        assert analysis.best_checkpoint.to_dict() == {"lr": 1}
        assert analysis.best_trial.trainable_name == "loop"

    def test_actors_of_ones_own(self):
        class Adding:
            def __init__(self, start, step=1):
                self.value, self.step = start, step

            def add(self):
                self.value += self.step
                return self.value

        workers = Trainer(BackendConfig(), 2).to_worker_group(Adding, 5, step=2)
        try:
            assert skate.get([worker.add.remote() for worker in workers]) == [7, 7]
            assert skate.get(workers[1].add.remote()) == 9
            assert len(workers) == 2
        finally:
            workers.shutdown()


def test_mistakes(tmp_path):
    with pytest.raises(TypeError, match="got 5"):
        Trainer(5, num_workers=2)
    with pytest.raises(ValueError, match="Ray has dropped 'horovod'"):
        Trainer("horovod", num_workers=2)
    with pytest.raises(ValueError, match="above 0; got 0"):
        Trainer("torch", num_workers=0)
    trainer = Trainer(BackendConfig(), 1, logdir=tmp_path)
    with pytest.raises(RuntimeError, match=r"start\(\)"):
        trainer.run(lambda: 1)
    trainer.start()
    with pytest.raises(ValueError, match="one: its configuration"):
        trainer.run(lambda a, b: 1)
    with pytest.raises(RuntimeError, match="not active"):
        trainer.to_tune_trainable(lambda config: 1)
