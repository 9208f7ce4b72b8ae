"""`RunConfig(durability=...)`: what is acknowledged survives a power cut at any moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train, tune
from skate._run import syncing
from skate._run.folders import LocalFolder
from skate._run.storage import Storage
from skate.train import Checkpoint, CheckpointConfig, Result, RunConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.tune.experiment.state_file import trials_of
from tests.run.power_cuts import IMAGES, Disk


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Disk]]:
    """Check every image of the place of runs, at each sync and whenever it is asked for."""
    disks = []
    problems = []

    def begin(check: Callable[[Path], None]) -> Disk:
        def check_all(disk: Disk) -> None:
            for kind in IMAGES:
                try:
                    check(disk.image(kind, tmp_path / "image"))
                except Exception as error:  # not the matter of whoever syncs
                    problems.append(f"{kind}, at sync {disk.syncs}: {error!r}")

        (tmp_path / "runs").mkdir()
        disk = Disk(tmp_path / "runs", check_all)
        disks.append(disk)
        monkeypatch.setattr(os, "fsync", disk.fsync)
        return disk

    yield begin
    for disk in disks:
        disk.close()
    assert not problems


def training(tmp_path: Path, loop: Any, **more: Any) -> Result:
    config = RunConfig(
        name="run",
        storage_path=str(tmp_path / "runs"),
        checkpoint_config=CheckpointConfig(num_to_keep=1),
        **more,
    )
    trainer = DataParallelTrainer(loop, scaling_config={"num_workers": 0}, run_config=config)
    return trainer.fit()


@pytest.mark.parametrize("name", [None, "last"])
def test_a_training_finds_its_last_acknowledged_checkpoint(
    tmp_path: Path, watch: Callable[..., Disk], name: str | None
) -> None:
    acknowledged: list[int] = []

    def check(image: Path) -> None:
        if not acknowledged:
            return
        left = Result.from_path(image / "run")
        assert left.checkpoint is not None
        step = left.checkpoint.to_dict()["step"]
        assert step in (acknowledged[-1], acknowledged[-1] + 1)
        assert [row["step"] for row in left._history()][: step + 1] == list(range(step + 1))

    def loop() -> None:
        before = train.get_checkpoint()
        first = before.to_dict()["step"] + 1 if before else 0
        for step in range(first, 3):
            checkpoint = Checkpoint.from_dict({"step": step})
            train.report({"step": step}, checkpoint=checkpoint, checkpoint_dir_name=name)
            acknowledged.append(step)
            if step == 1:
                train.report({"step": "to be taken back"})
                raise RuntimeError("the history is to be written anew")

    disk = watch(check)
    with pytest.raises(RuntimeError, match="anew"):
        training(tmp_path, loop, durability="power")
    result = training(tmp_path, loop, durability="power")
    assert [row["step"] for row in result._history()] == acknowledged == [0, 1, 2]
    assert disk.syncs > 20
    for kind in IMAGES:
        check(disk.image(kind, tmp_path / "image"))


ACKNOWLEDGED: dict[int, int] = {}  # by trials, which know this module by its name


def trial(config: dict[str, Any]) -> None:
    for step in range(2):
        tune.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
        ACKNOWLEDGED[config["x"]] = step


def test_a_search_finds_what_its_trials_have_saved(
    tmp_path: Path, watch: Callable[..., Disk]
) -> None:
    finished: set[int] = set()
    ACKNOWLEDGED.clear()

    def check(image: Path) -> None:
        if not ACKNOWLEDGED:
            return
        trials = {t.config["x"]: t for t in trials_of(Storage.at(image / "search"))}
        for x, step in ACKNOWLEDGED.items():
            assert (trials[x].checkpoint or Checkpoint.from_dict({})).to_dict()["step"] in (
                step,
                step + 1,
            )
            assert len(trials[x].storage.lines("result.json")) > step
        assert {x for x, trial in trials.items() if trial.is_finished()} >= finished

    class Ends(tune.Callback):
        def on_step_begin(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
            finished.update(t.config["x"] for t in trials if t.is_finished())

    skate.init(engine="inline")
    disk = watch(check)
    grid = tune.Tuner(
        trial,
        param_space={"x": tune.grid_search([0, 1])},
        run_config=RunConfig(
            name="search",
            storage_path=str(tmp_path / "runs"),
            durability="power",
            callbacks=[Ends()],
            verbose=0,
        ),
    ).fit()
    skate.shutdown()
    assert [(result.metrics or {})["step"] for result in grid] == [1, 1]
    assert ACKNOWLEDGED == {0: 1, 1: 1}
    assert disk.syncs > 20


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_file_that_is_written_is_there_under_its_name(
    tmp_path: Path, watch: Callable[..., Disk], before: bytes | None
) -> None:
    disk = watch(lambda image: None)
    folder = LocalFolder(tmp_path / "runs", synced=True)
    for content in (before, b"new"):
        if content is not None:
            folder.write("tuner.pkl", content)
    assert (disk.image("nothing more", tmp_path / "image") / "tuner.pkl").read_bytes() == b"new"


def test_without_it_nothing_waits_for_the_disk(tmp_path: Path, watch: Callable[..., Disk]) -> None:
    disk = watch(lambda image: None)

    def loop() -> None:
        train.report({"step": 0}, checkpoint=Checkpoint.from_dict({"step": 0}))

    training(tmp_path, loop)
    assert disk.syncs == 0
    assert not (disk.image("nothing more", tmp_path / "image") / "run").exists()


def test_the_environment_says_it_for_all_runs(
    tmp_path: Path, watch: Callable[..., Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = watch(lambda image: None)
    monkeypatch.setenv("SKATE_DURABILITY", "power")
    training(tmp_path, lambda: train.report({"step": 0}))
    assert disk.syncs
    assert Storage(tmp_path, "x", durability="process").synced is False


def test_what_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"durability.*process.*power.*'disk'"):
        RunConfig(durability="disk")
    monkeypatch.setenv("SKATE_DURABILITY", "disk")
    with pytest.raises(ValueError, match="SKATE_DURABILITY"):
        RunConfig()


def test_a_file_system_that_cannot_sync_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(errno.EINVAL, "not for folders")

    monkeypatch.setattr(os, "fsync", refuse)
    syncing.sync_folder(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="not for folders"):
        syncing.sync_file(str(tmp_path / "file"))
