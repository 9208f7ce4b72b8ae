"""Tasks and events as they travel between the driver and a worker: tuples of what pickle knows by
itself. It takes ten times as long for objects of classes, and a search sends thousands. Where
nothing else is inside, they are pickled here: the engine would look for references in them."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

from skate._run.config import CheckpointConfig
from skate._run.context import SessionInfo
from skate._run.folders import LocalFolder
from skate._run.storage import Storage
from skate._run.values import is_plain
from skate.tune.execution.events import Began, Ended, Reported, Saved, TrialEvent
from skate.tune.execution.placement_groups import PlacementGroupFactory
from skate.tune.execution.session import TrialTask

Parts = tuple[Any, ...]
TaskMessage = bytes | Parts
EventsMessage = bytes | list[Parts]

_USUAL_KEEPING = CheckpointConfig()


def packed_task(task: TrialTask) -> TaskMessage:
    """Return a task as it travels."""
    info = task.info
    keeping = task.checkpoint_config
    parts = (
        info.experiment_name,
        info.trial_name,
        info.trial_id,
        info.trial_dir,
        _packed_resources(info.trial_resources),
        _packed_storage(info.storage),
        task.config,
        task.stopping_criterion,
        None if keeping is _USUAL_KEEPING or keeping == _USUAL_KEEPING else keeping,
        task.checkpoint,
        task.iteration,
        task.seconds,
        task.totals,
        task.next_checkpoint,
        task.waits_at,
        task.log_files,
        task.working_directory,
        task.export_formats,
        task.reuse_instance,
        task.restore_retries,
        task.cleanup_seconds,
        task.signing_key,
    )
    resources, storage, config, stop, *rare = parts[4:10]
    alone = type(resources) is type(storage) is tuple and rare == [None, None]
    return pickle.dumps(parts, 5) if alone and is_plain([config, stop]) else parts


def unpacked_task(message: TaskMessage) -> TrialTask:
    """Undo `packed_task`."""
    parts = pickle.loads(message) if isinstance(message, bytes) else message
    experiment, name, trial_id, folder, resources, storage, config, stop, keeping, *rest = parts
    info = SessionInfo(
        experiment_name=experiment,
        trial_name=name,
        trial_id=trial_id,
        trial_dir=folder,
        trial_resources=_resources_of(*resources) if type(resources) is tuple else resources,
        storage=_storage_of(*storage) if type(storage) is tuple else storage,
    )
    return TrialTask(info, config, stop, keeping or _USUAL_KEEPING, *rest)


def packed_events(events: Sequence[TrialEvent]) -> EventsMessage:
    """Return events as they travel."""
    parts = [(type(event).__name__, *vars(event).values()) for event in events]
    alone = all(is_plain(event.result) for event in events if isinstance(event, Reported))
    return pickle.dumps(parts, 5) if alone else parts


def unpacked_events(message: EventsMessage) -> list[TrialEvent]:
    """Undo `packed_events`."""
    parts: Iterable[Parts] = pickle.loads(message) if isinstance(message, bytes) else message
    return [_EVENTS[name](*values) for name, *values in parts]


_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in (Began, Reported, Saved, Ended)}


# -- parts of a task ------------------------------------------------------------------------------


def _packed_resources(resources: Any) -> object:
    """Return what makes resources, if these are of one bundle, as those of most trials."""
    if type(resources) is not PlacementGroupFactory or len(resources.bundles) != 1:
        return resources
    if resources.head_bundle_is_empty or resources._args or resources._kwargs:
        return resources
    return resources.strategy, *resources.bundles[0].items()


@functools.lru_cache(maxsize=64)
def _resources_of(strategy: str, *bundle: tuple[str, float]) -> PlacementGroupFactory:
    return PlacementGroupFactory([dict(bundle)], strategy)


def _packed_storage(storage: Storage) -> object:
    """Return the places of folders on this machine; others know how to get there."""
    folder, experiment = storage.folder, storage.experiment_folder
    if isinstance(folder, LocalFolder) and isinstance(experiment, LocalFolder):
        return folder.path, experiment.path, folder.synced
    return storage


def _storage_of(path: str, experiment: str, synced: bool) -> Storage:
    storage = Storage.__new__(Storage)
    storage.__setstate__(
        {
            "folder": LocalFolder.known(path, synced),
            "experiment_folder": LocalFolder.known(experiment, synced),
        }
    )
    return storage
