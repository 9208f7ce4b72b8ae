"""Writes that leave out rows whose ids an earlier run has written (`skate.data.checkpoint`).

    <checkpoint_path>/<write>_<block>.pending.parquet   ids of rows that are being written, with
                                                        the names of their files
                      <write>_<block>.parquet           … and are written

A run begins by removing what is pending, with its files: nobody knows whether they are complete.
Other Parquet files in the folder count as ids, too, as those that another program has noted; they
are read, and never removed.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from skate.data._arrow.blocks import Block
from skate.data._execution.exchange import Union
from skate.data._io.file_writers import check_really_inside
from skate.data._io.known_ids import WithoutIds, without_ids
from skate.data._io.retries import with_retries
from skate.data._plan import nodes as plan
from skate.data._plan.static_schema import SAME_ROWS, static_schema

if TYPE_CHECKING:
    from skate.data._io.file_writers import OutputFolder
    from skate.data._settings.context import DataContext
    from skate.data.checkpoint import CheckpointConfig

_Part = TypeVar("_Part", bound=tuple[str, Block])
_log = logging.getLogger("skate.data")
_ENDING, _PENDING = ".parquet", ".pending.parquet"
_FILES = b"skate.files"
_OWN = re.compile(
    r"[0-9a-f]{32}_\d{6,}(\.pending)?\.parquet"
)  # what `_pending` and `_commit` name


@dataclass
class WriteRun:
    """One run of a write: what is left to write, and who is told of it."""

    node: plan.Node
    write_uuid: str
    file_by_file = False  # whether files are to be seen before all are written

    def noted(self, block: Block, number: int, parts: Iterable[_Part]) -> Iterator[_Part]:
        """Yield the files of a block, to be written one after the other."""
        yield from parts

    @contextmanager
    def noting(
        self, block: Block, number: int, names: Callable[[], Sequence[str]]
    ) -> Iterator[None]:
        """Note a block that is written meanwhile, to files of these names."""
        yield

    def finish(self) -> None:
        """Note that all is written."""


@dataclass
class RunWithIds(WriteRun):
    """One that notes ids."""

    config: CheckpointConfig
    output: OutputFolder | None
    file_by_file = True

    def noted(self, block: Block, number: int, parts: Iterable[_Part]) -> Iterator[_Part]:
        known = list(parts)
        with self.noting(block, number, lambda: [name for name, _ in known]):
            yield from known

    @contextmanager
    def noting(
        self, block: Block, number: int, names: Callable[[], Sequence[str]]
    ) -> Iterator[None]:
        if self.output is None:  # there is nothing that could be taken back
            yield
            self._commit(self._pending(block, number, []))
            return
        files = list(names())
        self.output.announce(files)  # a note names only what is its own to take back
        pending = self._pending(block, number, files)
        yield
        self._commit(pending)

    def finish(self) -> None:
        if not self.config.delete_checkpoint_on_success:
            return
        try:
            self._remove_ids()
        except OSError:
            _log.warning("The ids in %s could not be removed.", self._folder, exc_info=True)

    def begin(self) -> None:
        """Clean up after a run that was cut short, and leave out what others have written."""
        if self.output is not None:
            self._check_apart(self.output)
        self._system.create_dir(self._folder, recursive=True)
        for place in self._own_places():
            if place.endswith(_PENDING):
                self._undo(place)
        places = [place for place in self._places() if not place.endswith(_PENDING)]
        chosen = self.config.checkpoint_path_partition_filter
        places = places if chosen is None else chosen(places)
        if places:
            self.node = _without(self.node, self._step(places))

    @property
    def _system(self) -> pafs.FileSystem:
        return self.config.filesystem

    @property
    def _folder(self) -> str:
        return self.config._folder.rstrip("/")

    def _check_apart(self, output: OutputFolder) -> None:
        """Raise if rows would be taken for ids, or ids for rows."""
        if output.filesystem != self._system:
            return
        ids, rows = f"{self._folder}/", f"{output.path.rstrip('/')}/"
        if ids.startswith(rows) or rows.startswith(ids):
            raise ValueError(
                f"checkpoint_path {self._folder!r} and the folder {output.path!r} that is written "
                "to are one inside of the other, so that ids would be read as rows, or rows as "
                "ids: take a checkpoint_path of its own, beside it"
            )

    def _places(self) -> list[str]:
        return self._found(recursive=True)

    def _own_places(self) -> list[str]:
        """Find what runs have noted: only that may be removed."""
        found = self._found(recursive=False)
        return [place for place in found if _OWN.fullmatch(place.rpartition("/")[2])]

    def _found(self, *, recursive: bool) -> list[str]:
        selector = pafs.FileSelector(self._folder, recursive=recursive, allow_not_found=True)
        infos = with_retries(lambda: self._system.get_file_info(selector))
        return sorted(info.path for info in infos if info.path.endswith(_ENDING))

    def _pending(self, block: Block, number: int, files: list[str]) -> str:
        from pyarrow import parquet

        name = self.config.id_column
        if name not in block.column_names:
            raise ValueError(
                f"ID column {name} is absent in the block to be written, which has "
                f"{block.column_names}: keep the column that CheckpointConfig(id_column=...) names"
            )
        ids = block.select([name]).replace_schema_metadata({_FILES: json.dumps(files)})
        place = f"{self._folder}/{self.write_uuid}_{number:06}{_PENDING}"
        with_retries(lambda: parquet.write_table(ids, place, filesystem=self._system))
        return place

    def _commit(self, pending: str) -> None:
        self._system.move(pending, pending.removesuffix(_PENDING) + _ENDING)

    def _undo(self, place: str) -> None:
        names, output = self._names_in(place), self.output
        if names and output is None:
            return  # the next run that writes files needs it
        for name in names:
            assert output is not None
            written = output.place_of(name)
            check_really_inside(output.filesystem, output.path, written)
            with suppress(FileNotFoundError):
                output.filesystem.delete_file(written)
        self._system.delete_file(place)

    def _names_in(self, place: str) -> list[str]:
        from pyarrow import parquet

        with suppress(pa.ArrowInvalid):  # cut short before any of its files was begun
            metadata = parquet.read_schema(place, filesystem=self._system).metadata or {}
            return _names_of(metadata.get(_FILES, b"[]"), place)
        return []

    def _step(self, places: list[str]) -> WithoutIds:
        from pyarrow import dataset

        files = dataset.dataset(places, filesystem=self._system, format="parquet")
        ids = files.to_table(columns=[self.config.id_column]).column(0)
        return without_ids(self.config.id_column, ids)

    def _remove_ids(self) -> None:
        for place in self._own_places():
            self._system.delete_file(place)
        if not self._system.get_file_info(pafs.FileSelector(self._folder, allow_not_found=True)):
            self._system.delete_dir(self._folder)


def _names_of(noted: bytes, place: str) -> list[str]:
    try:
        names = json.loads(noted)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{place} is no note of a write: it names the files {noted!r}; remove it")
    return names


def run_of_write(
    node: plan.Node, context: DataContext, write_uuid: str, output: OutputFolder | None = None
) -> WriteRun:
    """Begin to write, as `DataContext.checkpoint_config` says; `output` is the folder of files."""
    config = context.checkpoint_config
    if config is None:
        return WriteRun(node, write_uuid)
    if not all(isinstance(each, plan.Read) or each.inputs for each in plan.walk(node)):
        warn_without_ids(context, "rows that are not read from somewhere")
        return WriteRun(node, write_uuid)
    run = RunWithIds(node, write_uuid, config, output)
    run.begin()
    return run


def warn_without_ids(context: DataContext, what: str) -> None:
    """Warn that no ids are noted, if some should be."""
    if context.checkpoint_config is not None:
        warnings.warn(
            f"DataContext.checkpoint_config doesn't support {what}: all rows are written, and no "
            "ids are noted",
            stacklevel=5,
        )


def _without(node: plan.Node, step: WithoutIds) -> plan.Node:
    """Return the plan with rows left out as early as that changes no others: limits, joins and
    groups have to see all rows, and a read may lack the ids that a function makes."""
    passes = isinstance(node, (plan.Map, Union, *SAME_ROWS))
    if passes and all(_may_have(each, step.column) for each in node.inputs):
        return plan.with_inputs(node, lambda below: _without(below, step))
    return plan.Map(node, step, "CheckpointFilter")


def _may_have(node: plan.Node, column: str) -> bool:
    schema = static_schema(node)
    return schema is None or column in schema.names
