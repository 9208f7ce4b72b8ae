"""Files of which each is a row, or a few: text, bytes, arrays, images."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate._core.untrusted_images import COMMON_PLUGINS, open_image
from skate.data._arrow.blocks import Block
from skate.data._arrow.foreign import arrays_without_pickle
from skate.data._arrow.tensors import column_of_array, column_of_values
from skate.data._execution.transforms import SourceTask
from skate.data._io.retries import with_retries
from skate.data.sources.files import FileSource


@dataclass(frozen=True)
class TextSource(FileSource):
    """One row per line, in the column `text`."""

    encoding: str = "utf-8"
    drop_empty_lines: bool = True
    name = "Text"
    imports = ("pandas",)

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            lines = stream.read().decode(self.encoding).split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        lines = [line.removesuffix("\r") for line in lines]
        if self.drop_empty_lines:
            lines = [line for line in lines if line.strip()]
        yield pa.table({"text": pa.array(lines, pa.string())})


@dataclass(frozen=True)
class BinarySource(FileSource):
    """One row per file, in the column `bytes`."""

    name = "Binary"
    rows_per_file: ClassVar[int | None] = 1
    growth: ClassVar[float] = 1.0

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            yield pa.table({"bytes": pa.array([stream.read()], pa.binary())})


@dataclass(frozen=True)
class NumpySource(FileSource):
    """One row per entry of the first axis, in the column `data`."""

    arguments: tuple[tuple[str, Any], ...] = ()
    allow_pickle: bool = False
    name = "Numpy"
    growth: ClassVar[float] = 1.0

    def read_file(self, path: str) -> Iterator[Block]:
        content = io.BytesIO(self.bytes_of(path))
        array = arrays_without_pickle(content, path, self.allow_pickle, **dict(self.arguments))
        if not isinstance(array, np.ndarray):
            raise ValueError(
                f"{path} is an archive of several arrays; read_numpy reads .npy files"
            )
        yield pa.table({"data": column_of_array(array)})


# Pixels of one task, and how many tasks that may make: decoding takes so long that whoever waits
# for the first batch should not have to wait for a block of the largest size.
_TASK_BYTES, _MOST_SMALL_TASKS = 8 << 20, 1000
# Images; tasks of more are whole multiples. Most batches then are within one block, and nobody
# has to put them together.
_USUAL_BATCH = 32


@dataclass(frozen=True)
class ImageSource(FileSource):
    """One image per row, in the column `image`; of one size and mode if they are given."""

    size: tuple[int, int] | None = None
    mode: str | None = None
    name = "Images"
    rows_per_file: ClassVar[int | None] = 1
    runs_python = True
    imports = COMMON_PLUGINS
    growth: ClassVar[float] = 8.0

    def read_file(self, path: str) -> Iterator[Block]:
        yield pa.table({"image": column_of_values([self.decode(path)])})

    def read(self) -> Iterator[Block]:
        """Read all images of a task into one column: one by one costs more than decoding small
        ones."""
        if self.options.on_bad_files != "raise" or self.options.partitioning is not None:
            yield from super().read()
            return
        images = []
        for file in self.place.files:
            try:
                images.append(with_retries(partial(self.decode, file.path)))
            except Exception as error:
                named = self.named(error, file)
                if named is error:
                    raise
                raise named from error
        columns = {"image": column_of_values(images)}
        if self.options.include_paths:
            columns["path"] = pa.array([file.path for file in self.place.files])
        yield pa.table(columns)

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        files = len(self.place.files)
        free = parallelism is None and self.multiple == 1
        if free and files > _USUAL_BATCH * self._wanted(files):
            return self.aligned(_USUAL_BATCH).read_tasks(None)
        return super().read_tasks(parallelism)

    def _wanted(self, pieces: int) -> int:
        small = min(self.size_bytes() // _TASK_BYTES, _MOST_SMALL_TASKS)
        return max(super()._wanted(pieces), small)

    def decode(self, path: str) -> Any:
        with open_image(self.bytes_of(path), path) as image:
            if self.size is not None:
                images = try_import("PIL.Image", "data")
                height, width = self.size
                image = image.resize((width, height), resample=images.Resampling.BILINEAR)
            if self.mode is not None:
                image = image.convert(self.mode)
            return np.asarray(image)
