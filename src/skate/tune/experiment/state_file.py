"""The state of an experiment: lines that are only ever added, so that a cut at any byte loses the
last line at most.

    {"kind": "run", "fresh": …}             a program began, or took up, the experiment
    {"kind": "trial", "trial_id": …}        a trial was made: its configuration and its folder
    {"kind": "config", …}                   it goes on with another configuration
    {"kind": "checkpoint", "name": …}       a checkpoint of it is complete, after so many results
    {"kind": "progress", "status": …}       it began, paused or ended, and with what results

All folders are named relative to the experiment's, so that it can be moved.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate._core import notices
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate._run.pickles import signed_pickle, unpickle
from skate._run.values import as_lines, is_plain, shortened
from skate.exceptions import UnreadablePickleError, UntrustedPickleError
from skate.tune.error import ExperimentLeftOutError

if TYPE_CHECKING:
    from skate._run.config import CheckpointConfig
    from skate._run.storage import Storage
    from skate._run.stored_references import LostReference
    from skate.tune.experiment.trial import Trial

Record = dict[str, Any]  # a line of the file

STATE_FILE = "experiment_state.jsonl"
_UPLOAD_EVERY_SECONDS = 1.0  # where a file cannot be added to


def packed(value: Any) -> Record:
    """Pack a value as JSON if that brings it back, else pickled, with as much as JSON can show for
    those who only look at it; what cannot be pickled as text."""
    if is_plain(value):
        return {"json": value}
    try:
        data = base64.b64encode(signed_pickle(value)).decode()
        return {"pickle": data, "shown": shortened(value)}
    except Exception:
        return {"json": {str(key): repr(inner) for key, inner in dict(value).items()}}


def unpacked(
    value: Mapping[str, Any],
    storage: Storage | None,
    looking: bool = False,
    lost: list[LostReference] | None = None,
) -> Any:
    """Undo `packed`.

    Args:
        value: What `packed` returned, before or after it was in a file.
        storage: The experiment's folder, for errors.
        looking: Whether what JSON can say of it will do, where it may not or cannot be unpickled.
        lost: Gets the references to objects of other sessions, which are no error then.
    """
    if "json" in value:
        return _dictionary(value["json"])
    place = f"{storage.path}/{STATE_FILE}" if storage is not None else STATE_FILE
    try:
        return unpickle(base64.b64decode(value["pickle"]), place, lost=lost)
    except (UntrustedPickleError, UnreadablePickleError):
        if looking and "shown" in value:
            return _dictionary(value["shown"])
        raise


def _dictionary(value: object) -> Record:
    """Return what a file says a dictionary is.

    Raises:
        TypeError: If it is something else.
    """
    if not isinstance(value, dict):
        raise TypeError(f"a dictionary was expected; got {value!r}")
    return value


def _checkpoint_record(trial: Trial, recorded: RecordedCheckpoint) -> Record:
    """Describe a checkpoint in the trial's folder, by its place in there."""
    return {
        "trial_id": trial.trial_id,
        "name": recorded.checkpoint.path[len(trial.path) :].lstrip("/"),
        "metrics": packed(recorded.metrics),
        "results": recorded.results,
    }


def read_states(storage: Storage) -> Iterator[Record]:
    """Yield all complete lines; one that is damaged is passed over."""
    yield from (record for record in storage.lines(STATE_FILE) if "kind" in record)


def trainable_of(storage: Storage) -> str | None:
    """Return the name of what an experiment runs, as its last program knew it."""
    names = [line.get("trainable") for line in read_states(storage) if line["kind"] == "run"]
    return names[-1] if names else None


def trials_of(
    storage: Storage,
    keeping: Callable[[str, int], CheckpointConfig] | None = None,
    stub: bool = False,
) -> list[Trial]:
    """Read all trials of an experiment, as far as they had come.

    Args:
        storage: The experiment's folder.
        keeping: Tells, by the trainable and the number of a trial's experiment, which checkpoints
            stay; by default those that stayed before.
        stub: Whether the trials are only looked at.
    """
    from skate.tune.experiment.trial import Trial

    trials: dict[str, Trial] = {}
    damaged: list[Exception] = []
    refused: list[Exception] = []
    for record in read_states(storage):
        kind = record["kind"]
        try:
            if kind == "run" and record.get("fresh"):  # another experiment of the same name
                trials = {}
                refused = []
            elif kind == "trial":
                which = record["trainable_name"], record.get("experiment_number", 0)
                config = keeping(*which) if keeping is not None else None
                trial = Trial.from_record(record, storage, checkpoint_config=config, stub=stub)
                trials[trial.trial_id] = trial
            elif kind != "run" and record["trial_id"] in trials:
                _apply(trials[record["trial_id"]], kind, record)
        except (UntrustedPickleError, UnreadablePickleError, ExperimentLeftOutError) as error:
            refused.append(error)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            damaged.append(error)
    if refused:
        raise refused[0]
    if damaged:
        place, first = f"{storage.path}/{STATE_FILE}", damaged[0]
        notices.warn(
            f"{len(damaged)} lines of {place} are not as they are written, and were passed over: "
            f"{type(first).__name__}: {first}"
        )
    return list(trials.values())


def aim_of(storage: Storage) -> tuple[str | None, str | None]:
    """Return the metric and the mode of an experiment's search, as far as it has them."""
    runs = [record for record in read_states(storage) if record["kind"] == "run"]
    return (runs[-1].get("metric"), runs[-1].get("mode")) if runs else (None, None)


def _apply(trial: Trial, kind: str, record: Mapping[str, Any]) -> None:
    if kind == "config":
        lost: list[LostReference] = []
        trial.config = unpacked(record["config"], trial.experiment_storage, trial.stub, lost)
        trial.lost_references = lost
        trial.experiment_tag = record["tag"]
    elif kind == "progress":
        trial.take_progress(record)
    elif kind == "checkpoint":
        _take_checkpoint(trial, record)
    elif kind == "reset":
        trial.begin_anew()


def _take_checkpoint(trial: Trial, record: Mapping[str, Any]) -> None:
    name = record["name"]
    folder = name.partition("/")[0]
    trial.next_checkpoint = max(trial.next_checkpoint, int(folder.rpartition("_")[2]) + 1)
    if trial.storage.exists(folder):
        place = trial.storage.checkpoint(name)
        metrics = unpacked(record["metrics"], trial.experiment_storage, trial.stub, [])
        trial.on_checkpoint(RecordedCheckpoint(place, metrics, results=record.get("results")))


# -- writing --------------------------------------------------------------------------------------


class StateLog:
    """Adds lines; on this machine at once, elsewhere the whole file once a second.

    Args:
        storage: The experiment's folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._all: bytearray | None = None
        self._uploaded = float("-inf")
        self._changed = False

    def run(self, **about: object) -> None:
        """Note that a program begins or takes up the experiment."""
        self._add("run", {"time": time.time(), **about})

    def trials(self, trials: Sequence[Trial]) -> None:
        """Note that trials were made."""
        self._add("trial", *(trial.record() for trial in trials))

    def config(self, trial: Trial) -> None:
        """Note that a trial has another configuration."""
        record = {
            "trial_id": trial.trial_id,
            "config": packed(trial.config),
            "tag": trial.experiment_tag,
        }
        self._add("config", record)

    def checkpoint(self, trial: Trial, recorded: RecordedCheckpoint) -> None:
        """Note that a checkpoint is complete."""
        self._add("checkpoint", _checkpoint_record(trial, recorded))

    def reset(self, trial: Trial) -> None:
        """Note that a trial begins anew, without its checkpoints."""
        self._add("reset", {"trial_id": trial.trial_id})

    def progress(self, trial: Trial) -> None:
        """Note how far a trial is: it has ended, or is where it was."""
        self._add("progress", trial.progress())

    def _add(self, kind: str, *records: Mapping[str, object]) -> None:
        lines = [{"kind": kind, **record} for record in records]
        if self._storage.is_local:
            self._storage.append(STATE_FILE, *lines)
            return
        if self._all is None:
            exists = self._storage.exists(STATE_FILE)
            data = self._storage.read(STATE_FILE) if exists else b""
            self._all = bytearray(data[: data.rfind(b"\n") + 1])
        self._all += as_lines(lines)
        self._changed = True
        if kind == "checkpoint":
            self.flush()
        else:
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Upload what has not been, if it is time."""
        if time.monotonic() - self._uploaded > _UPLOAD_EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Upload what has not been."""
        if self._changed and self._all is not None:
            self._storage.write(STATE_FILE, bytes(self._all))
            self._uploaded = time.monotonic()
            self._changed = False


class StateLogs:
    """The lines of several experiments; those of a trial go to the folder that it is in.

    Args:
        storages: The folders, each once.
    """

    def __init__(self, storages: Sequence[Storage]) -> None:
        self._logs = {storage.path: StateLog(storage) for storage in storages}

    def at(self, storage: Storage) -> StateLog:
        """Return the lines of one folder."""
        return self._logs[storage.path]

    def _of(self, trial: Trial) -> StateLog:
        return self._logs[trial.experiment_storage.path]

    def trials(self, trials: Sequence[Trial]) -> None:
        """Note that trials were made."""
        for log in self._logs.values():
            mine = [trial for trial in trials if self._of(trial) is log]
            if mine:
                log.trials(mine)

    def config(self, trial: Trial) -> None:
        """Note that a trial has another configuration."""
        self._of(trial).config(trial)

    def checkpoint(self, trial: Trial, recorded: RecordedCheckpoint) -> None:
        """Note that a checkpoint is complete."""
        self._of(trial).checkpoint(trial, recorded)

    def progress(self, trial: Trial) -> None:
        """Note how far a trial is."""
        self._of(trial).progress(trial)

    def flush_if_due(self) -> None:
        """Upload what has not been, if it is time."""
        for log in self._logs.values():
            log.flush_if_due()

    def flush(self) -> None:
        """Upload what has not been."""
        for log in self._logs.values():
            log.flush()
