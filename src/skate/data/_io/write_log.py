"""The log of a write that can be resumed: what is written, so that another run goes on from there.

    <folder>/_resume/plan.json            what was asked for: the plan, its files, the settings
                     choice.json          into how many pieces the input is cut
                     tasks/<task>-<n>     the task has n units
                     units/<part>.json    this part of a unit is written, into these files
                     files/<random>       … which are here until all are written
                     written.json         all files, which are now moved to where they belong
                     complete.json        they are there; nothing else is left of this folder

Each file of the log appears complete, by a rename, and says nothing that is not true for ever. So
a kill between any two steps loses only what was under way, and a part that two processes write,
because one of them was taken for dead, is noted twice with the same rows.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeGuard

import pyarrow.fs as pafs

from skate._core.folder_locks import locked_folder
from skate.data._execution.units import PartOfUnit, Unit, UnitLog
from skate.data._io.file_writers import check_really_inside

FOLDER = "_resume"
_TASK = re.compile(r"(\d{6,9})-(\d{1,9})")
_PART = re.compile(r"(\d{6,9})-(\d{6,9})-(\d{1,18})-(\d{6,9})(-last)?\.json")  # as `_name_of`

Record = dict[str, Any]  # as a file of the log has it, in JSON


class WriteLog(UnitLog):
    """The log in a folder; copies of it are in all processes that write."""

    def __init__(self, filesystem: pafs.FileSystem, folder: str) -> None:
        self.filesystem = filesystem
        self.folder: str = folder.rstrip("/")
        self.root: str = f"{self.folder}/{FOLDER}"
        self._tasks: dict[int, int] = {}
        self._done: dict[int, dict[int, int]] = {}

    # -- notes ----------------------------------------------------------------------------------

    def note(self, name: str, content: object) -> None:
        """Write a note, which appears complete."""
        place = f"{self.root}/{name}"
        first = f"{self.root}/{uuid.uuid4().hex}.tmp"
        with self.filesystem.open_output_stream(first, compression=None) as file:
            file.write(json.dumps(content).encode())
        self.filesystem.move(first, place)

    def read(self, name: str) -> Any:
        """Read the content of a note; None if there is none, or it was lost with the power."""
        place = f"{self.root}/{name}"
        try:
            with self.filesystem.open_input_stream(place, compression=None) as file:
                return json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return None

    def plan(self) -> Record | None:
        """Read what was asked for; None if that is not known."""
        found = self.read("plan.json")
        return found if _is_plan(found) else None

    def written(self) -> list[tuple[str, str]] | None:
        """Read where all files belong, and where they are; None if some are not written yet."""
        found = self.read("written.json")
        return [(final, place) for final, place in found] if _are_pairs(found) else None

    def end(self) -> list[str] | None:
        """Read which files there are; None if not all are where they belong."""
        found = self.read("complete.json")
        files = found.get("files") if isinstance(found, dict) else None
        return files if _are_texts(files) else None

    def check_own(self, *places: str) -> None:
        """Raise for a file that this write has not made: whoever may write to the folder may have
        written its notes, and these say what is moved and removed.

        Raises:
            ValueError: If one is outside of the folder, also by a link.
        """
        for place in places:
            check_really_inside(self.filesystem, self.folder, place)

    def locked(self) -> AbstractContextManager[None]:
        """Make the folder and have it for this program alone; elsewhere than on this machine
        there are no locks."""
        self.filesystem.create_dir(self.folder, recursive=True)
        is_here = isinstance(self.filesystem, pafs.LocalFileSystem)
        return locked_folder(self.folder) if is_here else nullcontext()

    def begin(self, content: object) -> None:
        """Make an empty log for what is asked for."""
        self.remove()
        for name in ("tasks", "units", "files"):
            self.filesystem.create_dir(f"{self.root}/{name}", recursive=True)
        self.note("plan.json", content)

    def remove(self) -> None:
        """Forget everything, with files that are not where they belong yet."""
        if self.filesystem.get_file_info(self.root).type != pafs.FileType.NotFound:
            self.filesystem.delete_dir(self.root)

    def keep_end(self, content: object) -> None:
        """Note that all is done, and what there was to do it is not needed any more."""
        self.note("complete.json", content)
        for info in self._inside(""):
            if info.type == pafs.FileType.Directory:
                self.filesystem.delete_dir(info.path)
            elif info.base_name not in ("plan.json", "complete.json"):
                self.filesystem.delete_file(info.path)

    def _inside(self, name: str) -> list[pafs.FileInfo]:
        place = f"{self.root}/{name}".rstrip("/")
        selector = pafs.FileSelector(place, allow_not_found=True)
        return sorted(self.filesystem.get_file_info(selector), key=lambda info: info.path)

    # -- units ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Find out what is done."""
        names = [info.base_name for info in self._inside("tasks")]
        found = filter(None, map(_TASK.fullmatch, names))
        self._tasks = {int(one[1]): int(one[2]) for one in found}
        parts: dict[Unit, set[int]] = {}
        last: dict[Unit, int] = {}
        for place in self._noted_parts():
            parts.setdefault(place.unit, set()).add(place.number)
            if place.is_last:
                last[place.unit] = place.number
        self._done = {}
        for unit, number in last.items():
            if parts[unit].issuperset(range(number + 1)):
                self._done.setdefault(unit.task, {})[unit.block] = unit.rows

    def done(self, task: int) -> Mapping[int, int]:
        return self._done.get(task, {})

    def is_over(self, task: int) -> bool:
        return self._tasks.get(task) == len(self.done(task))

    def end_task(self, task: int, units: int) -> None:
        self.note(f"tasks/{task:06}-{units}", None)

    def choice(self, number: int) -> int:
        known = self.read("choice.json")
        if isinstance(known, int):
            return known
        self.note("choice.json", number)
        return number

    def note_part(self, place: PartOfUnit, content: dict[str, object]) -> None:
        """Note what was written of a part: the last step of it."""
        self.note(f"units/{_name_of(place)}", content)

    def part(self, place: PartOfUnit) -> Record | None:
        """Read what was written of a part; None if it is not done."""
        found = self.read(f"units/{_name_of(place)}")
        return found if _is_part(found) else None

    def parts(self) -> list[Record]:
        """List what was written, in the order of the rows."""
        places = sorted(self._noted_parts())
        return [note for place in places if (note := self.part(place)) is not None]

    def _noted_parts(self) -> Iterator[PartOfUnit]:
        for info in self._inside("units"):
            if (name := _PART.fullmatch(info.base_name)) is not None:
                unit = Unit(int(name[1]), int(name[2]), int(name[3]))
                yield PartOfUnit(unit, int(name[4]), bool(name[5]))


def _name_of(place: PartOfUnit) -> str:
    unit = place.unit
    last = "-last" if place.is_last else ""
    return f"{unit.task:06}-{unit.block:06}-{unit.rows}-{place.number:06}{last}.json"


# -- what notes look like: one that does not is as good as none -----------------------------------


def _is_plan(found: object) -> TypeGuard[Record]:
    return (
        isinstance(found, dict)
        and isinstance(found.get("plan"), list)
        and all(isinstance(step, dict) and "step" in step for step in found["plan"])
        and isinstance(found.get("files"), dict)
        and all(isinstance(about, list) and len(about) == 2 for about in found["files"].values())
        and isinstance(found.get("settings"), dict)
        and isinstance(found.get("write_uuid"), str)
        and _are_texts(found.get("replaced"))
    )


def _is_part(found: object) -> TypeGuard[Record]:
    return (
        isinstance(found, dict)
        and isinstance(found.get("rows"), int)
        and isinstance(found.get("bytes"), int)
        and ("files" not in found or _are_pairs(found["files"]))
    )


def _are_texts(found: object) -> TypeGuard[list[str]]:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _are_pairs(found: object) -> TypeGuard[list[list[str]]]:
    return isinstance(found, list) and all(_are_texts(each) and len(each) == 2 for each in found)
