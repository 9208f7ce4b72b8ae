"""Writes that can be resumed: each row exactly once, whatever was killed and how often.

Whoever computes a part of a unit writes it and notes it in the log (`write_log.py`). When all
units are noted, the files are moved to where they belong, and only then seen by readers.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs

from skate.data._arrow.blocks import Block
from skate.data._execution.compute import TaskPoolStrategy
from skate.data._execution.fusing import Fused
from skate.data._execution.partitions import partition_limit
from skate.data._execution.stats import ExecutionStats
from skate.data._execution.units import PartOfUnit, UnitExecution, UnitsChangedError
from skate.data._expressions.steps import FilterStep, WithColumns
from skate.data._io.file_writers import OutputFolder, TaskContext, check_inside, has_whole_files
from skate.data._io.paths import resolve
from skate.data._io.retries import with_retries
from skate.data._io.sinks import Datasink, WriteResult
from skate.data._io.write_log import WriteLog
from skate.data._plan import nodes as plan
from skate.data._plan.fingerprint import (
    changes,
    changes_of_files,
    described,
    files_of,
    shown,
    variables_of,
)
from skate.data._settings.context import DataContext
from skate.data.sources.files import protocol_of
from skate.exceptions import TaskError

if TYPE_CHECKING:
    from skate.data._io.write_log import Record


Write = Callable[[Block, Any, str], None]  # rows, an open file, and the number of the file
Split = Callable[[Block, str, int], Iterator[tuple[str, Block]]]

# Settings that decide where blocks end: those of the first run hold for the following ones.
_SETTINGS = (
    "target_max_block_size", "target_min_block_size", "read_op_min_num_blocks",
    "sort_memory_bytes", "engine_min_bytes",
)  # fmt: skip


class ResumeError(ValueError):
    """A write cannot be resumed."""


class PlanChangedError(ResumeError):
    """What was written until now is of another plan; `changed` says how that differs."""

    def __init__(self, message: str, changed: list[str] | None = None) -> None:
        super().__init__(message)
        self.changed: list[str] = changed or []

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.changed)


class NotRepeatableError(ResumeError):
    """The plan gives other rows, or another order, each time that it runs."""


class WriteUnderWayError(ResumeError):
    """Another write, of this program or of another, has the folder."""


# -- what workers do ----------------------------------------------------------------------------


@dataclass
class PartWriter(ABC):
    """Writes parts of units, wherever they are computed."""

    log: WriteLog
    write_uuid: str

    def write(self, place: PartOfUnit, blocks: Callable[[], Iterator[Block]]) -> Block:
        """Compute and write a part, unless a process that died since has done so."""
        note = self.log.part(place)
        if note is None:
            note = {"rows": 0, "bytes": 0}
            note.update(self.written(place, _counted(blocks(), note)))
            self.log.note_part(place, note)
        return pa.table({"rows": [note["rows"]], "bytes": [note["bytes"]]})

    @abstractmethod
    def written(self, place: PartOfUnit, blocks: Iterator[Block]) -> dict[str, object]:
        """Write the blocks; return what is to be known of it at the end."""


def _counted(blocks: Iterator[Block], note: dict[str, object]) -> Iterator[Block]:
    for block in blocks:
        if block.num_rows:
            note["rows"] += block.num_rows
            note["bytes"] += block.nbytes
            yield block


class FileOutput(NamedTuple):
    """Files that are to be written: `write` puts rows into an open file; `split` says which rows
    of a block go into a file of which name; none has more than `most` rows."""

    folder: OutputFolder
    write: Write
    split: Split
    most: int | None
    stream: dict[str, Any]  # for the file system


@dataclass
class FileParts(PartWriter):
    """Writes files."""

    folder: str
    content: Write
    split: Split
    most: int | None
    stream: dict[str, Any]

    def written(self, place: PartOfUnit, blocks: Iterator[Block]) -> dict[str, object]:
        unit = f"{place.unit.task:06}_{place.unit.block:06}_{place.number:03}"
        files: list[list[str]] = []
        for number, block in enumerate(cut(blocks, self.most)):
            for name, part in self.split(block, f"{self.write_uuid}_{unit}", number):
                files.append(self._file(name, part, f"{unit}_{number:06}"))
        return {"files": files}

    def _file(self, name: str, block: Block, number: str) -> list[str]:
        """Write a file; return where it belongs and where it is, for which no two attempts have
        one name."""
        final = f"{self.folder}/{name}"
        check_inside(self.folder, final)
        whole = has_whole_files(self.log.filesystem)
        place = final if whole else f"{self.log.root}/files/{uuid.uuid4().hex}"

        def write() -> None:
            arguments = {"compression": None, **self.stream}
            with self.log.filesystem.open_output_stream(place, **arguments) as file:
                self.content(block, file, number)

        with_retries(write)
        return [final, place]


@dataclass
class SinkParts(PartWriter):
    """A sink of the user's, which replaces what an earlier call for the same part has written."""

    sink: Datasink[Any]

    def written(self, place: PartOfUnit, blocks: Iterator[Block]) -> dict[str, object]:
        unit = place.unit
        number = (unit.task << 40) + (unit.block << 20) + place.number
        told = {"write_uuid": self.write_uuid}
        return {"returned": self.sink.write(list(blocks), TaskContext(number, "Write", told))}


def cut(blocks: Iterable[Block], most: int | None) -> Iterator[Block]:
    """Cut the blocks so that none has more rows than `most`."""
    for block in blocks:
        step = most or max(1, block.num_rows)
        yield from (block.slice(start, step) for start in range(0, block.num_rows, step))


# -- what the driver does -----------------------------------------------------------------------


@dataclass
class ResumableWrite:
    """One call of a method that writes, in one of the runs that it may take."""

    node: plan.Node
    context: DataContext
    log: WriteLog
    arguments: dict[str, str]
    stage: Fused | None  # for the writes alone

    def run(
        self,
        stats: ExecutionStats,
        prepare: Callable[[], list[str] | None],
        writer: Callable[[str], PartWriter],
        finish: Callable[[list[Record]], None],
    ) -> None:
        """Do what is left to do. `prepare` is asked before the first run for the files that the
        new ones replace, None if there is nothing to do; `finish` is given what was written, at
        the end of the last."""
        self._check()
        asked = self._asked()
        replaced: list[str] | None = []
        if self.log.plan() is None:
            replaced = prepare()
        if replaced is None:
            return
        with self._alone():
            known = self.log.plan()
            if known is None:
                known = {**asked, "replaced": replaced}
                self.log.begin(known)
            self._go_on(known, asked, stats, writer, finish)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as lock:
            try:
                lock.enter_context(self.log.locked())
            except BlockingIOError:
                raise WriteUnderWayError(
                    f"another write with resume=True to {self.log.folder!r} has not ended. Wait "
                    "for it, end it, or write to another folder"
                ) from None
            yield

    def _go_on(
        self,
        known: Record,
        asked: Record,
        stats: ExecutionStats,
        writer: Callable[[str], PartWriter],
        finish: Callable[[list[Record]], None],
    ) -> None:
        self._check_same(known, asked)
        end = self.log.end()
        if end is not None:
            self._check_there(end)
            return
        files = self.log.written()
        if files is None:
            files = self._write(known, stats, writer(known["write_uuid"]))
        self._publish(files, known["replaced"], finish)

    def _check(self) -> None:
        if self.context.max_errored_blocks:
            raise ResumeError(
                f"max_errored_blocks={self.context.max_errored_blocks} leaves out blocks that "
                "fail, and a resumed write would write them after all: set it to 0"
            )
        for node in plan.walk(self.node):
            if not plan.keeps_order(node) or not _same_each_time(node):
                raise NotRepeatableError(
                    f"{node.name} gives other rows, or another order, each time that it runs, so "
                    "that nobody can tell which rows are written already. Give a seed (and "
                    "reseed_after_execution=False, where there is one), leave it out, or write "
                    "without resume=True"
                )

    def _asked(self) -> dict[str, object]:
        files = files_of(self.node)
        for path in files:
            if path.startswith(f"{self.log.folder}/"):
                raise ResumeError(
                    f"{path} is read, and in the folder {self.log.folder} that is written to: a "
                    "run that goes on would read what is written already. Use another folder"
                )
        return {
            "version": 1,
            "write_uuid": uuid.uuid4().hex,
            "plan": [{"step": "Write", **self.arguments}, *described(self.node)],
            "files": files,
            "settings": {
                **{name: getattr(self.context, name) for name in _SETTINGS},
                "partition_min_bytes": partition_limit(self.context),
            },
        }

    def _check_same(self, known: Record, asked: Record) -> None:
        found = changes(known["plan"], asked["plan"])
        found += changes_of_files(known["files"], asked["files"])
        if found:
            raise self._changed(found)

    def _check_there(self, files: list[str]) -> None:
        gone = [
            info.path
            for info in self.log.filesystem.get_file_info(files)
            if info.type == pafs.FileType.NotFound
        ]
        if gone:
            raise self._changed([f"the file {gone[0]}, which was written, is gone"])

    def _changed(self, found: list[str]) -> PlanChangedError:
        return PlanChangedError(
            f"{self.log.root} is of a write that this one cannot resume: {'; '.join(found)}. "
            "Write to another folder; or run what it was to its end; or, to begin anew, remove "
            "that one together with the files that were written",
            found,
        )

    def _write(
        self, known: Record, stats: ExecutionStats, writer: PartWriter
    ) -> list[tuple[str, str]]:
        """Write what is missing; return where all files belong, and where they are."""
        context = self.context.copy()
        for name in {*_SETTINGS, "partition_min_bytes"} & known["settings"].keys():
            setattr(context, name, known["settings"][name])
        self.log.load()
        execution = UnitExecution(stats, context, self.log, writer)
        try:
            for bundle in execution.run(self.node, self.stage):
                stats.rows += bundle.get()["rows"][0].as_py()
        except UnitsChangedError as error:
            reason = error.cause if isinstance(error, TaskError) else error
            raise self._changed([str(reason)]) from error
        parts = self.log.parts()
        files = [(final, place) for part in parts for final, place in part.get("files", ())]
        self.log.note("written.json", files)
        return files

    def _publish(
        self,
        files: list[tuple[str, str]],
        replaced: list[str],
        finish: Callable[[list[Record]], None],
    ) -> None:
        """Move the files to where they belong; anew after a kill."""
        self._check_own(files, replaced)
        twice = [name for name, count in Counter(final for final, _ in files).items() if count > 1]
        if twice:
            raise ResumeError(
                f"two files would be called {twice[0]!r}, and the rows of one be lost: the "
                "FilenameProvider must make names of write_uuid and task_index"
            )
        made: set[str] = set()
        for final, place in files:
            folder = final.rpartition("/")[0]
            if folder not in made:
                self.log.filesystem.create_dir(folder, recursive=True)
                made.add(folder)
            if place != final:
                with suppress(FileNotFoundError):  # it is there since the run before
                    self.log.filesystem.move(place, final)
        for old in set(replaced) - {final for final, _ in files}:
            with suppress(FileNotFoundError):
                self.log.filesystem.delete_file(old)
        finish(self.log.parts())
        self.log.keep_end({"files": [final for final, _ in files]})

    def _check_own(self, files: list[tuple[str, str]], replaced: list[str]) -> None:
        try:
            self.log.check_own(*replaced, *(place for pair in files for place in pair))
        except ValueError as error:
            raise ResumeError(
                f"{self.log.root} was not written by skate for this folder, or was changed: "
                f"{error}. Nothing was moved; remove it to begin anew, or write to another folder"
            ) from None


def _same_each_time(node: plan.Node) -> bool:
    """Return whether no expression of the node makes values that nobody can make again."""
    step = getattr(node, "step", None)
    if isinstance(step, FilterStep):
        return step.expression.repeatable
    columns = step.columns if isinstance(step, WithColumns) else ()
    return all(expression.repeatable for _, expression in columns)


# -- the two kinds of output --------------------------------------------------------------------


def resumed_files(
    output: FileOutput,
    format_: str,
    node: plan.Node,
    context: DataContext,
    stats: ExecutionStats,
    write: Fused | None,
) -> None:
    """Write files, or go on with it."""
    folder = output.folder
    _check_shared(folder.filesystem, folder.path)
    said = {**variables_of(output.write), **variables_of(output.split)}
    arguments = {"format": format_, "max_rows_per_file": str(output.most), **said}
    log = WriteLog(folder.filesystem, folder.path)
    task = ResumableWrite(node, context, log, arguments, write)

    def old() -> list[str] | None:
        if not folder.prepare():
            return None
        return [info.path for info in folder.old if info.type == pafs.FileType.File]

    def writer(write_uuid: str) -> PartWriter:
        path = folder.path.rstrip("/")
        return FileParts(
            log, write_uuid, path, output.write, output.split, output.most, output.stream
        )

    task.run(stats, old, writer, lambda parts: None)


def resumed_sink(
    sink: Datasink[object],
    node: plan.Node,
    context: DataContext,
    stats: ExecutionStats,
    write: Fused | None,
) -> None:
    """Write to a sink, or go on with it."""
    place = sink.resume_folder
    if place is None:
        raise ResumeError(
            f"{type(sink).__name__} cannot resume a write: its class says no resume_folder"
        )
    if sink.min_rows_per_write is not None or sink.min_bytes_per_write is not None:
        raise ResumeError(
            f"{type(sink).__name__} wants several blocks at a time (min_rows_per_write, "
            "min_bytes_per_write), which resume=True notes one by one"
        )
    filesystem, path = resolve(place)
    _check_shared(filesystem, path)
    log = WriteLog(filesystem, path)
    task = ResumableWrite(node, context, log, {"sink": shown(type(sink))}, write)

    def begin() -> list[str]:
        sink.on_write_start(None)
        return []

    try:
        task.run(
            stats,
            begin,
            lambda write_uuid: SinkParts(log, write_uuid, sink),
            lambda parts: sink.on_write_complete(_result(parts)),
        )
    except BaseException as error:
        sink.on_write_failed(error)
        raise


def _result(parts: list[Record]) -> WriteResult[object]:
    """Collect what a sink is told at the end."""
    return WriteResult(
        sum(part["rows"] for part in parts),
        sum(part["bytes"] for part in parts),
        [part["returned"] for part in parts],
    )


def write_stage(concurrency: int | None, remote_args: dict[str, object] | None) -> Fused | None:
    """Make a stage of its own for the writes; None: they are done where the last function runs."""
    if concurrency is None and not remote_args:
        return None
    return Fused([], ["Write"], TaskPoolStrategy(concurrency), dict(remote_args or {}))


def _check_shared(filesystem: pafs.FileSystem, path: str) -> None:
    """Raise for a file system that is in the memory of one process."""
    if protocol_of(getattr(filesystem, "handler", None)) == "memory":
        raise ResumeError(
            f"{path!r} is in the memory of this process, which other processes do not see and "
            "which ends with it: there is nothing to resume"
        )
