"""WebDataset: tar files in which the files of one sample share a name."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skate._imports import try_import
from skate.data._blocks import Block, block_of_rows
from skate.data.sources.files import FileSource

ROWS_PER_BLOCK = 1024
IMAGES = {"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "webp"}


@dataclass(frozen=True)
class WebDatasetSource(FileSource):
    """A row per sample: `__key__`, and a column per extension."""

    decoder: bool | str | Callable[[dict[str, Any]], dict[str, Any]] | None = True
    suffixes: tuple[str, ...] | None = None
    name = "WebDataset"
    runs_python = True

    def read_file(self, path: str) -> Iterator[Block]:
        rows = []
        with self.place.filesystem.open_input_stream(path, compression="detect") as stream:
            for sample in samples_in(stream, self.suffixes):
                rows.append(self._decoded(sample))
                if len(rows) == ROWS_PER_BLOCK:
                    yield block_of_rows(rows)
                    rows = []
        if rows:
            yield block_of_rows(rows)

    def _decoded(self, sample: dict[str, Any]) -> dict[str, Any]:
        if callable(self.decoder):
            return self.decoder(sample)
        if not self.decoder:
            return sample
        keep_images = self.decoder == "pil"
        return {name: decoded(name, value, keep_images) for name, value in sample.items()}


def samples_in(stream: Any, suffixes: tuple[str, ...] | None) -> Iterator[dict[str, Any]]:
    sample: dict[str, Any] = {}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not member.isfile():
                continue
            folder, _, file = member.name.rpartition("/")
            stem, _, extension = file.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            sample.setdefault("__key__", key)
            if suffixes is None or extension in suffixes:
                content = archive.extractfile(member)
                assert content is not None
                sample[extension] = content.read()
    if sample:
        yield sample


def decoded(name: str, value: Any, keep_images: bool = False) -> Any:
    """What the extension says the bytes are."""
    kind = name.rpartition(".")[2].lower()
    if name.startswith("__") or not isinstance(value, bytes):
        return value
    if kind in ("txt", "text", "transcript"):
        return value.decode()
    if kind in ("cls", "cls2", "index", "count", "inx", "id"):
        return int(value)
    if kind in ("json", "jsn"):
        return json.loads(value)
    if kind == "npy":
        return np.load(io.BytesIO(value))
    if kind in IMAGES:
        image = try_import("PIL.Image", "data").open(io.BytesIO(value))
        return image.copy() if keep_images else np.asarray(image)
    return value


def encoded(name: str, value: Any) -> bytes:
    """The bytes of a value for a file with this extension."""
    kind = name.rpartition(".")[2].lower()
    if isinstance(value, bytes):
        return value
    if kind == "npy":
        file = io.BytesIO()
        np.save(file, value)
        return file.getvalue()
    if kind in IMAGES:
        images = try_import("PIL.Image", "data")
        image = images.fromarray(value) if isinstance(value, np.ndarray) else value
        file = io.BytesIO()
        image.save(file, format={"jpg": "jpeg"}.get(kind, kind))
        return file.getvalue()
    if isinstance(value, str):
        return value.encode()
    if kind in ("json", "jsn") or isinstance(value, (dict, list)):
        return json.dumps(value).encode()
    if isinstance(value, (int, float, np.number)):
        return str(value).encode()
    raise TypeError(f"cannot write a {type(value).__name__} as .{name}; give bytes or text")


def archive_of(rows: Iterator[Mapping[str, Any]], number: int) -> bytes:
    """A tar file with the samples; those without `__key__` are numbered."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for count, row in enumerate(rows):
            key = row.get("__key__") or f"{number:06}{count:06}"
            for name, value in row.items():
                if name.startswith("__") or value is None:
                    continue
                data = encoded(name, value)
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()
