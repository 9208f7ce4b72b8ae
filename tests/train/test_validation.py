"""Checkpoints that are validated beside the training."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import train
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate._run.ledger import Ledger
from skate._run.storage import Storage
from skate.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    DataParallelTrainer,
    ReportedCheckpointStatus,
    Result,
    ScalingConfig,
    ValidationConfig,
    ValidationTaskConfig,
    WorkerGroupError,
    _reported,
)

DEADLINE = 60.0


def _wait_for(file: Path) -> None:
    end = time.monotonic() + DEADLINE
    while not file.exists():
        assert time.monotonic() < end, f"{file} has not appeared"
        time.sleep(0.01)


def _score(checkpoint: Checkpoint, factor: int = 10) -> dict[str, Any]:
    return {"score": checkpoint.to_dict()["step"] * factor}


def _three_steps(config: dict[str, Any]) -> None:
    for step in range(3):
        train.report(
            {"score": -step},
            checkpoint=Checkpoint.from_dict({"step": step}),
            validation=config["asks"][step],
        )


def _fit(run_config: Any, loop: Any, fn: Any, **settings: Any) -> Result:
    validation = ValidationConfig(fn, **settings.pop("validation", {}))
    return DataParallelTrainer(
        loop, run_config=run_config(**settings.pop("run", {})), validation_config=validation,
        scaling_config=ScalingConfig(num_workers=settings.pop("workers", 1)), **settings,
    ).fit()  # fmt: skip


def test_what_a_validation_returns_is_added_to_its_checkpoint(run_config: Any) -> None:
    asks = [True, False, ValidationTaskConfig(fn_kwargs={"factor": 7})]
    result = _fit(run_config, _three_steps, _score, train_loop_config={"asks": asks}, workers=2)
    assert result.best_checkpoints is not None
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [0, -1, 14]
    assert result.metrics is not None
    assert result.metrics["score"] == 14
    again = Result.from_path(result.path)
    assert again.best_checkpoints is not None
    assert [metrics["score"] for _, metrics in again.best_checkpoints] == [0, -1, 14]


def test_defaults_of_the_trainer_and_what_a_report_adds(run_config: Any) -> None:
    def fn(checkpoint: Checkpoint, **given: Any) -> dict[str, Any]:
        return {"given": given}

    def loop() -> None:
        train.report(
            {"x": 1},
            checkpoint=Checkpoint.from_dict({}),
            validation=ValidationTaskConfig({"b": 3}),
        )

    default = ValidationTaskConfig({"a": 1, "b": 2})
    result = _fit(run_config, loop, fn, validation={"task_config": default})
    assert result.metrics is not None
    assert result.metrics["given"] == {"a": 1, "b": 3}


def test_which_checkpoints_stay_is_decided_by_their_validation(run_config: Any) -> None:
    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score")

    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        return {"score": {0: 1, 1: 9, 2: 5}[checkpoint.to_dict()["step"]]}

    config = {"asks": [True] * 3}
    run = {"checkpoint_config": keep}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that no report has the score is as it should be
        result = _fit(run_config, _three_steps, fn, train_loop_config=config, run=run)
    assert result.best_checkpoints is not None
    assert [c.to_dict()["step"] for c, _ in result.best_checkpoints] == [1]
    names = {path.name for path in Path(result.path).glob("checkpoint_0*")}
    assert names == {"checkpoint_000001", "checkpoint_000002"}  # the last stays, too


def test_the_loop_can_wait_for_validations(run_config: Any, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"

    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        _wait_for(go_on)
        return {"checked": True}

    def loop() -> None:
        train.report({"x": 1}, checkpoint=Checkpoint.from_dict({}), validation=True)
        for committed in (
            train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED),
            train.get_all_reported_checkpoints(timeout_s=0.01),
        ):
            assert [c.status for c in committed] == [ReportedCheckpointStatus.PENDING_VALIDATION]
            assert "checked" not in committed[0].metrics
        go_on.touch()
        (validated,) = train.get_all_reported_checkpoints()
        assert validated.status is ReportedCheckpointStatus.VALIDATED
        assert validated.metrics == {"x": 1, "checked": True}

    _fit(run_config, loop, fn)


def test_a_validation_that_fails_or_takes_too_long_ends_nothing(
    run_config: Any, tmp_path: Path
) -> None:
    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        if checkpoint.to_dict()["step"] == 0:
            raise ValueError("a bad checkpoint")
        _wait_for(tmp_path / "never")
        return {}

    def loop(config: dict[str, Any]) -> None:
        tasks: list[bool | ValidationTaskConfig] = [True, ValidationTaskConfig(timeout_s=0.2)]
        for step, task in enumerate(tasks):
            saved = Checkpoint.from_dict({"step": step})
            train.report({"x": step}, checkpoint=saved, validation=task)
        found = [c.status for c in train.get_all_reported_checkpoints()]
        assert found == [
            ReportedCheckpointStatus.VALIDATION_FAILED,
            ReportedCheckpointStatus.VALIDATION_TIMEOUT,
        ]

    with pytest.warns(UserWarning, match="has failed") as warned:
        result = _fit(run_config, loop, fn)
    assert result.metrics == {"x": 1}
    reasons = " ".join(str(warning.message) for warning in warned)
    assert "a bad checkpoint" in reasons
    assert "not done after 0.2 s" in reasons


def test_a_run_that_is_taken_up_validates_what_was_left(run_config: Any, tmp_path: Path) -> None:
    hangs = tmp_path / "hangs"
    hangs.touch()

    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        while hangs.exists():
            time.sleep(0.01)
        return {"checked": checkpoint.to_dict()["step"]}

    def loop() -> None:
        if train.get_checkpoint() is None:
            saved = Checkpoint.from_dict({"step": 5})
            train.report({"x": 1}, checkpoint=saved, validation=True)
            raise RuntimeError("the run ends while the validation runs")

    with pytest.raises(WorkerGroupError):
        _fit(run_config, loop, fn)
    hangs.unlink()
    result = _fit(run_config, loop, fn)
    assert result.best_checkpoints is not None
    assert [metrics["checked"] for _, metrics in result.best_checkpoints] == [5]
    lines = Path(result.path, "validations.json").read_text().splitlines()
    assert json.loads(lines[-1])["status"] == "VALIDATED"


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("waits", [True, False])
def test_outcomes_that_cannot_be_written_end_the_run(
    run_config: Any, monkeypatch: Any, workers: int, waits: bool
) -> None:
    append = Storage.append

    def full(storage: Storage, name: str, record: Any) -> None:
        if record.get("status") == "VALIDATED":
            raise OSError("no space left")
        append(storage, name, record)

    def loop() -> None:
        train.report({"x": 1}, checkpoint=Checkpoint.from_dict({"step": 1}), validation=True)
        if waits:
            train.get_all_reported_checkpoints()

    monkeypatch.setattr(Storage, "append", full)
    monkeypatch.setattr("skate.train._workers.monitor.LOOK_SECONDS", 0.05)
    with pytest.raises(OSError, match="no space left"):
        _fit(run_config, loop, _score, workers=workers)
    monkeypatch.undo()
    result = _fit(run_config, lambda: None, _score, workers=workers)
    assert result.best_checkpoints is not None
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [10]


def test_who_waits_for_a_validation_looks_less_and_less_often(
    run_config: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    looks: list[Any] = []

    class Counting(Ledger):
        def checkpoints(self, *args: Any) -> list[RecordedCheckpoint]:
            looks.append(args)
            return super().checkpoints(*args)

    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        _wait_for(tmp_path / "go_on")
        return {}

    def loop() -> None:
        train.report({"x": 1}, checkpoint=Checkpoint.from_dict({}), validation=True)
        train.get_all_reported_checkpoints(timeout_s=1)
        (tmp_path / "go_on").touch()

    monkeypatch.setattr(_reported, "Ledger", Counting)
    _fit(run_config, loop, fn, workers=0)
    assert 2 <= len(looks) < 10


def test_in_the_calling_process(run_config: Any) -> None:
    asks = [True, True, True]
    result = _fit(run_config, _three_steps, _score, train_loop_config={"asks": asks}, workers=0)
    assert result.best_checkpoints is not None
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [0, 10, 20]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"validation": True}, "requires a checkpoint"),
        ({"validation": {"lr": 1}, "checkpoint": Checkpoint.from_dict({})}, "got dict"),
        ({"validation": True, "checkpoint": Checkpoint.from_dict({})}, "validation_config"),
    ],
)
def test_requests_that_make_no_sense(run_config: Any, report: Any, message: str) -> None:
    def loop() -> None:
        train.report({"x": 1}, **report)

    with pytest.raises(WorkerGroupError, match=message):
        DataParallelTrainer(loop, run_config=run_config()).fit()


def test_arguments_are_what_a_run_that_is_taken_up_can_read() -> None:
    assert ValidationTaskConfig({"sizes": (1, 2)}).fn_kwargs == {"sizes": [1, 2]}
    with pytest.raises(TypeError, match=r"what JSON can express.*Path\('rows'\)"):
        ValidationTaskConfig({"place": Path("rows")})


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="-1"):
        ValidationTaskConfig(timeout_s=-1)
    with pytest.raises(TypeError, match="function"):
        ValidationConfig(fn=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ValidationConfig"):
        DataParallelTrainer(lambda: None, validation_config=len)  # type: ignore[arg-type]


def test_options_of_the_task(run_config: Any) -> None:
    def fn(checkpoint: Checkpoint) -> dict[str, Any]:
        return {"cpus": skate.get_runtime_context().get_assigned_resources().get("CPU", 0)}

    def loop() -> None:
        train.report({"x": 1}, checkpoint=Checkpoint.from_dict({}), validation=True)

    options = {"ray_remote_kwargs": {"num_cpus": 1}}
    result = _fit(run_config, loop, fn, validation=options)
    assert result.metrics is not None
    assert result.metrics["cpus"] == 1


def test_a_report_may_bring_its_function_along(run_config: Any, tmp_path: Path) -> None:
    """As with Ray 2.52, without a validation_config; a run that was cut short asks again."""

    def fn(checkpoint: Checkpoint, config: Any) -> dict[str, Any]:
        if config is None:
            return {"score": 1}
        _wait_for(config["file"])
        return {"score": checkpoint.to_dict()["step"] + config["more"]}

    def loop(config: dict[str, Any]) -> None:
        if train.get_checkpoint() is not None:
            return
        train.report({"a": 1}, checkpoint=Checkpoint.from_dict({"step": 1}), validate_fn=fn)
        more = {"file": tmp_path / "go", "more": 10}
        train.report(
            {"a": 2},
            checkpoint=Checkpoint.from_dict({"step": 2}),
            validate_fn=fn,
            validate_config=more,
        )
        raise KeyError("cut short")

    def fit() -> Result:
        return DataParallelTrainer(loop, run_config=run_config()).fit()

    with pytest.raises(KeyError):
        fit()
    (tmp_path / "go").touch()
    result = fit()
    assert result.best_checkpoints is not None
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [1, 12]


def test_mistakes_of_a_function_brought_along(run_config: Any) -> None:
    def loop() -> None:
        checkpoint = Checkpoint.from_dict({})
        with pytest.raises(ValueError, match="not both"):
            train.report({}, checkpoint=checkpoint, validation=True, validate_fn=len)
        with pytest.raises(ValueError, match="requires a checkpoint"):
            train.report({"a": 1}, validate_fn=len)
        train.report(validate_fn=0.5)  # a metric

    result = DataParallelTrainer(loop, run_config=run_config()).fit()
    assert result.metrics is not None
    assert result.metrics["validate_fn"] == 0.5
