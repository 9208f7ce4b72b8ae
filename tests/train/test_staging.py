"""Checkpoints that are written while the loop goes on."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from skate import train
from skate.train import Checkpoint, CheckpointUploadMode, DataParallelTrainer, FailureConfig
from tests.support import PATIENCE, Program, eventually, run_program

ASYNC = CheckpointUploadMode.ASYNC


class WrittenWhen:
    """Is pickled in the process that made it; in others, as the one that writes, when a file is
    there."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.maker = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        if os.getpid() != self.maker:
            eventually(self.file.exists)
        return self.__dict__


def fit(loop: Any, run_config: Any, workers: int = 2) -> Any:
    return DataParallelTrainer(
        loop, scaling_config={"num_workers": workers}, run_config=run_config
    ).fit()


@pytest.mark.parametrize("mode", [CheckpointUploadMode.SYNC, ASYNC])
@pytest.mark.parametrize("origin", ["the loop's", "somebody's"])
def test_links_are_followed_if_the_loop_has_made_them(run_config, tmp_path, mode, origin):
    """A model in a cache is a folder of links; the one that a training resumes from is given."""
    secret = tmp_path / "secret"
    secret.write_text("weights")

    def linked(folder: Path) -> Checkpoint:
        folder.mkdir()
        (folder / "model").symlink_to(secret)
        return Checkpoint.from_directory(folder)

    given = linked(tmp_path / "given")

    def loop():
        own = linked(tmp_path / "own")
        begun = train.get_checkpoint()
        reported = own if origin == "the loop's" else begun
        train.report({}, reported, checkpoint_upload_mode=mode)

    trainer = DataParallelTrainer(
        loop,
        scaling_config={"num_workers": 1},
        run_config=run_config(),
        resume_from_checkpoint=given,
    )
    if origin == "the loop's":
        copy = Path(trainer.fit().checkpoint.path, "model")
        assert copy.read_text() == "weights"
        assert not copy.is_symlink()
        return
    with pytest.raises(Exception, match=r"given/model' is a link to .*secret'"):
        trainer.fit()
    copies = [one for one in tmp_path.rglob("model") if not one.is_symlink()]
    assert copies == []


def test_the_loop_goes_on_while_a_checkpoint_is_written(run_config, tmp_path):
    ready = tmp_path / "ready"

    def loop():
        weights = torch.zeros(1000)
        for step in range(3):
            weights += 1
            held = WrittenWhen(ready) if step == 1 else None
            checkpoint = Checkpoint.from_dict({"weights": weights, "held": held, "step": step})
            train.report({"step": step}, checkpoint, checkpoint_upload_mode=ASYNC)
        train.report({"step": 3})
        ready.touch()

    result = fit(loop, run_config())
    assert list(result.metrics_dataframe["step"]) == [0, 1, 2, 3]
    assert result.checkpoint.to_dict()["step"] == 2
    for checkpoint, metrics in result.best_checkpoints:
        assert (checkpoint.to_dict()["weights"] == metrics["step"] + 1).all()


def test_the_summary_has_what_was_written_last(run_config, tmp_path, capsys):
    ready = tmp_path / "ready"

    def loop():
        held = Checkpoint.from_dict({"held": WrittenWhen(ready)})
        train.report({"loss": 0.5}, held, checkpoint_upload_mode=ASYNC)
        ready.touch()

    fit(loop, run_config(), workers=1)
    assert "loss 0.5  (iteration 1" in capsys.readouterr().err


def test_what_is_staged_is_among_the_reported_ones(run_config, tmp_path):
    ready = tmp_path / "ready"

    def loop():
        held = Checkpoint.from_dict({"held": WrittenWhen(ready)})
        train.report({"step": 0}, held, checkpoint_upload_mode=ASYNC)
        assert train.get_all_reported_checkpoints(timeout_s=0) == []
        train.collective.barrier()
        ready.touch()
        for mode in train.CheckpointConsistencyMode:
            (only,) = train.get_all_reported_checkpoints(mode)
            assert only.metrics == {"step": 0}

    assert fit(loop, run_config()).error is None


def test_what_is_to_be_written_at_once_waits_for_what_was_staged(run_config):
    def loop():
        for step in range(4):
            mode = ASYNC if (step + train.world_rank()) % 2 else CheckpointUploadMode.SYNC
            checkpoint = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, checkpoint, checkpoint_upload_mode=mode)
            assert train.get_checkpoint().to_dict()["step"] == step

    assert len(fit(loop, run_config()).best_checkpoints) == 4


@pytest.mark.parametrize("in_place", [0, 1])
@pytest.mark.parametrize("other", [ASYNC, CheckpointUploadMode.SYNC])
def test_parts_that_are_in_place_and_others_make_one(run_config, tmp_path, in_place, other):
    def loop():
        rank = train.world_rank()
        folder, mode = tmp_path / f"mine-{rank}", other
        if rank == in_place:
            storage = train.get_context().get_storage()
            folder = Path(storage.build_checkpoint_path_from_name("whole"))
            mode = CheckpointUploadMode.NO_UPLOAD
        folder.mkdir(exist_ok=True)
        (folder / f"rank-{rank}").write_text("mine")
        checkpoint = Checkpoint(str(folder))
        train.report({}, checkpoint, checkpoint_upload_mode=mode, checkpoint_dir_name="whole")

    result = fit(loop, run_config())
    assert sorted(os.listdir(result.checkpoint.path)) == ["rank-0", "rank-1"]


@pytest.mark.parametrize("keep", [False, True])
def test_folders_of_all_ranks_are_taken_over(run_config, tmp_path, keep):
    def loop():
        rank = train.world_rank()
        folder = tmp_path / f"mine-{rank}"
        folder.mkdir()
        (folder / f"rank-{rank}").write_text("mine")
        train.report(
            {"rank": rank},
            checkpoint=Checkpoint.from_directory(folder),
            checkpoint_upload_mode=ASYNC,
            delete_local_checkpoint_after_upload=not keep,
        )
        assert folder.exists() is keep

    result = fit(loop, run_config())
    assert sorted(os.listdir(result.checkpoint.path)) == ["rank-0", "rank-1"]
    assert not list(tmp_path.rglob("*.staged"))


def test_a_worker_that_dies_begins_from_what_was_staged(run_config, tally):
    def loop():
        before = train.get_checkpoint()
        first = before.to_dict()["step"] + 1 if before else 0
        for step in range(first, 3):
            if step == 2 and train.world_rank() == 1 and tally.add() == 1:
                os._exit(1)
            checkpoint = Checkpoint.from_dict({"step": step})
            train.report({"step": step, "first": first}, checkpoint, checkpoint_upload_mode=ASYNC)

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    assert list(result.metrics_dataframe["step"]) == [0, 1, 2]
    assert result.metrics["first"] == 2


def test_a_write_that_fails_ends_the_run(run_config):
    class Unwritable:
        def __reduce__(self) -> Any:
            return Unwritten, (os.getpid(),)

    class Unwritten:
        def __init__(self, maker: int) -> None:
            pass

        def __reduce__(self) -> Any:
            raise ValueError("no room")

    def loop():
        checkpoint = Checkpoint.from_dict({"bad": Unwritable()})
        train.report({"step": 0}, checkpoint, checkpoint_upload_mode=ASYNC)

    with pytest.raises(train.TrainingFailedError, match="no room"):
        fit(loop, run_config(), workers=1)


def test_a_driver_that_dies_meanwhile_goes_on_from_the_last_that_is_whole(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import os
            import threading
            from pathlib import Path
            import skate
            from skate import train
            from skate.train import Checkpoint, CheckpointUploadMode, RunConfig

            class NeverWritten:
                def __init__(self):
                    self.maker = os.getpid()

                def __getstate__(self):
                    if os.getpid() != self.maker:
                        threading.Event().wait()
                    return self.__dict__

            def loop():
                before = train.get_checkpoint()
                if before is not None:
                    train.report({{"from": before.to_dict()["step"]}})
                    return
                for step in range(2):
                    held = NeverWritten() if step else None
                    checkpoint = Checkpoint.from_dict({{"step": step, "held": held}})
                    mode = CheckpointUploadMode.ASYNC
                    train.report({{"step": step}}, checkpoint, checkpoint_upload_mode=mode)
                Path({str(tmp_path)!r}, "reported").touch()
                train.collective.barrier()

            skate.init(num_cpus=2)
            run = RunConfig(name="run", storage_path={str(tmp_path)!r})
            trainer = train.DataParallelTrainer(
                loop, scaling_config={{"num_workers": 1}}, run_config=run
            )
            print(trainer.fit().metrics["from"])
            """
        )
    )
    command = [sys.executable, str(program)]
    with Program(command) as first:
        eventually((tmp_path / "reported").exists, 2 * PATIENCE)
        result = tmp_path / "run" / "result.json"  # it counts with its line there
        eventually(lambda: result.exists() and "checkpoint_000000" in result.read_text())
        first.kill_group()
    assert not (tmp_path / "run" / "checkpoint_000001").exists()
    assert run_program(command, check=True).stdout.split() == ["0"]
