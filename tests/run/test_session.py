"""Reports, in all their spellings; and what is said outside of a run."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import skate.air
import skate.train
import skate.train.collective
import skate.tune
from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo
from skate._run.reporting import CheckpointUploadMode, ResultClock, read_report
from skate._run.session import RunSession, SessionMisuseError, activated, in_session, report
from tests.support import error_in_a_fork


class Collecting(RunSession):
    def __init__(self, **where):
        super().__init__(SessionInfo(**where))
        self.reports = []

    def report(self, report):
        self.reports.append(report)


@pytest.fixture
def session():
    with activated(Collecting(world_size=4, world_rank=3, trial_name="t")) as found:
        yield found


CHECKPOINT = Checkpoint.from_dict({})


@pytest.mark.parametrize(
    ("args", "kwargs", "metrics"),
    [
        (({"loss": 1},), {}, {"loss": 1}),
        ((), {"metrics": {"loss": 1}}, {"loss": 1}),
        ((), {"loss": 1, "metrics": 2}, {"loss": 1, "metrics": 2}),
        ((0.5,), {}, {"_metric": 0.5}),
        ((np.float32(0.5),), {}, {"_metric": 0.5}),
        ((None,), {"loss": 1}, {"loss": 1}),
        ((), {}, {}),
    ],
)
def test_spellings_of_metrics(args, kwargs, metrics):
    assert read_report(args, kwargs).metrics == metrics


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [(({"a": 1},), {"chekpoint": None}), ((), {"metrics": {"a": 1}, "chekpoint": None})],
)
def test_what_is_beside_a_dict_of_metrics_is_no_metric(session, args, kwargs):
    with pytest.raises(TypeError, match="'chekpoint'; did you mean checkpoint"):
        report(*args, **kwargs)
    assert not session.reports


def test_numbers_are_reported_without_what_they_were_computed_from(session):
    torch = pytest.importorskip("torch")
    loss = torch.ones((), requires_grad=True) * 2
    report({"loss": loss, "nested": {"loss": loss}, "array": np.zeros(2)})
    (reported,) = session.reports
    assert type(reported.metrics["loss"]) is type(reported.metrics["nested"]["loss"]) is float
    assert isinstance(reported.metrics["array"], np.ndarray)


def test_a_misspelt_checkpoint_is_no_metric():
    with pytest.raises(TypeError, match="got one as 'chekpoint'"):
        read_report(({"loss": 1},), {"chekpoint": CHECKPOINT})


def test_spellings_of_checkpoints():
    assert read_report(({},), {"checkpoint": CHECKPOINT}).checkpoint is CHECKPOINT
    assert read_report(({}, CHECKPOINT), {}).checkpoint is CHECKPOINT
    report = read_report(
        ({},), {"checkpoint": CHECKPOINT, "checkpoint_upload_mode": CheckpointUploadMode.ASYNC}
    )
    assert report.upload_mode is CheckpointUploadMode.ASYNC
    assert report.metrics == {}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("loss",), {}, "str: 'loss'"),
        (({},), {"checkpoint": {"a": 1}}, "from_dict"),
        (({}, CHECKPOINT, 3), {}, "3 arguments"),
        (({},), {"checkpoint_upload_mode": "later"}, "later"),
    ],
)
def test_what_cannot_be_reported(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        read_report(args, kwargs)


def test_one_session_behind_all_names(session):
    skate.train.report(loss=1)
    skate.air.session.report({"loss": 2})
    skate.train.save_checkpoint(epoch=3)
    assert [r.metrics for r in session.reports] == [{"loss": 1}, {"loss": 2}, None]
    assert session.reports[2].checkpoint.to_dict() == {"epoch": 3}
    assert skate.train.world_size() == skate.air.session.get_world_size() == 4
    assert skate.train.get_context().get_world_rank() == skate.train.world_rank() == 3
    assert skate.air.session.get_trial_name() == "t"
    assert skate.train.load_checkpoint() is skate.train.get_checkpoint() is None


def test_other_threads_of_the_loop_have_its_session(session):
    thread = threading.Thread(target=skate.train.report, kwargs={"loss": 1})
    thread.start()
    thread.join()
    assert session.reports[0].metrics == {"loss": 1}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "call",
    [
        skate.train.report,
        skate.train.save_checkpoint,
        skate.tune.save_checkpoint,
        skate.train.collective.barrier,
    ],
)
def test_a_forked_process_cannot_reach_the_run(session, call):
    said = error_in_a_fork(call)
    assert "SessionMisuseError" in said
    assert f"forked off by process {os.getpid()}" in said
    assert error_in_a_fork(skate.train.world_rank) == ""


def test_an_inner_session_gives_way_to_the_outer_one(session):
    with activated(Collecting()) as inner:
        skate.train.report(a=1)
    skate.train.report(b=1)
    assert [r.metrics for r in inner.reports] == [{"a": 1}]
    assert [r.metrics for r in session.reports] == [{"b": 1}]


@pytest.mark.parametrize(
    "call",
    [
        skate.train.report,
        skate.train.get_checkpoint,
        skate.train.get_context,
        skate.train.world_size,
        skate.train.load_checkpoint,
        skate.train.save_checkpoint,
        skate.train.get_dataset_shard,
        skate.air.session.get_trial_id,
    ],
)
def test_outside_of_a_run(call):
    assert not in_session()
    with pytest.raises(SessionMisuseError, match="inside a training loop"):
        call()


def test_datasets_by_name(session):
    with pytest.raises(RuntimeError, match="datasets="):
        skate.train.get_dataset_shard("train")
    session.datasets = {"train": 1, "valid": 2}
    assert skate.train.get_dataset_shard("valid") == 2
    with pytest.raises(KeyError, match="valid"):
        skate.train.get_dataset_shard("test")
    with pytest.raises(RuntimeError, match="several"):
        skate.train.get_dataset_shard()


def test_results_are_numbered_and_timed():
    clock = ResultClock("id", {"lr": 1}, iteration=5, seconds=100.0)
    first, second = clock.fill({"loss": 1}), clock.fill({"loss": 2, "trial_id": "mine"})
    assert (first["training_iteration"], second["training_iteration"]) == (6, 7)
    assert second["time_total_s"] > first["time_total_s"] >= 100
    assert first["config"] == {"lr": 1}
    assert (first["trial_id"], second["trial_id"]) == ("id", "mine")


def test_steps_in_an_environment_are_summed_up():
    from skate._run.reporting import ResultClock

    clock = ResultClock("trial", totals={"timesteps_total": 100})
    for _ in range(2):
        filled = clock.fill({"timesteps_this_iter": 3})
    assert filled["timesteps_since_restore"] == 6
    assert filled["timesteps_total"] == 106
    clock.go_on_from(filled, 2)
    assert clock.fill({"timesteps_this_iter": 1})["timesteps_since_restore"] == 1
    assert "timesteps_since_restore" not in ResultClock("trial").fill({"loss": 1})
