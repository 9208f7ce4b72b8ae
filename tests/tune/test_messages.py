"""What travels between the driver and a worker arrives as it was sent."""

import pickle

import pyarrow.fs as pafs
import pytest

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig
from skate._run.context import SessionInfo
from skate._run.storage import Storage
from skate.tune.execution.events import Began, Ended, Reported, Saved
from skate.tune.execution.messages import (
    packed_events,
    packed_task,
    unpacked_events,
    unpacked_task,
)
from skate.tune.execution.placement_groups import PlacementGroupFactory
from skate.tune.execution.session import TrialTask


def sent(task: TrialTask) -> TrialTask:
    return unpacked_task(pickle.loads(pickle.dumps(packed_task(task))))


def task_in(storage: Storage, **options: object) -> TrialTask:
    resources = options.pop("resources", PlacementGroupFactory([{"CPU": 1}]))
    info = SessionInfo("search", "f_1", "1", storage.path, resources, storage=storage)
    return TrialTask(info, {"x": 1.5, "layers": [1, {"size": 2}]}, **options)


def parts(task: TrialTask) -> tuple[object, ...]:
    """All that is in a task; storages are compared by their folders."""
    storage = task.info.storage
    info = {**vars(task.info), "storage": (storage.folder, storage.experiment_folder)}
    return info, storage.synced, {**vars(task), "info": None}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "stopping_criterion": {"loss": 1},
            "checkpoint_config": CheckpointConfig(num_to_keep=2),
            "checkpoint": Checkpoint("/somewhere"),
            "iteration": 3,
            "seconds": 1.5,
            "totals": {"timesteps_total": 8},
            "next_checkpoint": 4,
            "waits_at": ("training_iteration", (1, 4)),
            "log_files": ("out", "err"),
            "working_directory": "/there",
            "export_formats": ("onnx",),
            "reuse_instance": True,
            "restore_retries": 2,
            "cleanup_seconds": 1.0,
            "signing_key": b"secret",
        },
        {"waits_at": ("training_iteration", (1, 4)), "stopping_criterion": {"loss": 1}},
        {"resources": PlacementGroupFactory([{"CPU": 2.0, "GPU": 0.5}], "SPREAD")},
        {"resources": PlacementGroupFactory([{}, {"CPU": 1}, {"CPU": 2}])},
    ],
)
def test_a_task_arrives_as_it_was_sent(tmp_path, options):
    assert len(vars(task_in(Storage(tmp_path)))) == 17, "a new part needs its place above"
    task = task_in(Storage(tmp_path, "search", durability="power").sub("trial"), **options)
    assert parts(sent(task)) == parts(task)


def test_a_folder_elsewhere_is_found_there(tmp_path):
    elsewhere = Storage(
        str(tmp_path), "search", pafs.SubTreeFileSystem("/", pafs.LocalFileSystem())
    )
    assert not elsewhere.is_local
    assert parts(sent(task_in(elsewhere))) == parts(task_in(elsewhere))


def test_events_arrive_as_they_were_sent():
    events = [
        Ended(),
        Began(7),
        Reported({"a": 1}, "checkpoint_1"),
        Saved(None),
        Ended(stuck=True),
    ]
    assert unpacked_events(pickle.loads(pickle.dumps(packed_events(events)))) == events


def test_what_has_references_inside_is_left_to_the_engine(tmp_path):
    task = task_in(Storage(tmp_path))
    assert isinstance(packed_task(task), bytes)
    task.config["data"] = object()
    assert task.config in packed_task(task)
    (event,) = packed_events([Reported({"data": task})])
    assert event[1]["data"] is task
