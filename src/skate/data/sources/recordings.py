"""Sound and moving pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block
from skate.data._arrow.tensors import column_of_values
from skate.data.sources.files import FileSource, UnreadableFileError

EXTRA = "recordings"
_SAMPLES_AT_A_TIME = 1 << 20  # a file may claim any number of them
_BLOCK_BYTES = 16 << 20  # of frames that are decoded one after another
# A file that is a list of others, such as a playlist, must not make FFmpeg open these.
_ONLY_THIS_FILE = {"protocol_whitelist": "none"}


@dataclass(frozen=True)
class AudioSource(FileSource):
    """One recording per row: its `amplitude`, of (channels, samples), and its `sample_rate`."""

    name = "Audio"
    rows_per_file: ClassVar[int | None] = 1
    runs_python = True
    imports = ("soundfile",)
    growth: ClassVar[float] = 8.0

    def read_file(self, path: str) -> Iterator[Block]:
        sounds = try_import("soundfile", EXTRA)
        with sounds.SoundFile(io.BytesIO(self.bytes_of(path))) as file:
            parts = [np.empty((0, file.channels), np.float32)]
            while len(part := file.read(_SAMPLES_AT_A_TIME, dtype="float32", always_2d=True)):
                parts.append(part)
            amplitude = np.ascontiguousarray(np.concatenate(parts).T)
            rate = pa.array([file.samplerate])
        yield pa.table({"amplitude": column_of_values([amplitude]), "sample_rate": rate})


@dataclass(frozen=True)
class VideoSource(FileSource):
    """One frame per row: `frame`, its number `frame_index` and, if wanted, `frame_timestamp`."""

    include_timestamps: bool = False
    fps: int | None = None
    resize: tuple[int, int] | None = None  # height, width
    name = "Video"
    runs_python = True
    imports = ("av",)
    growth: ClassVar[float] = 50.0

    def read_file(self, path: str) -> Iterator[Block]:
        errors = try_import("av.error", EXTRA)
        try:
            yield from self._frames(path)
        except errors.FFmpegError as error:
            raise UnreadableFileError(f"cannot read {path} as Video: {error.strerror}") from error

    def _frames(self, path: str) -> Iterator[Block]:
        av = try_import("av", EXTRA)
        with self._seekable(path) as file, av.open(file, options=_ONLY_THIS_FILE) as video:
            stream = video.streams.best("video")  # not the picture on the cover
            if stream is None:
                raise ValueError(f"{path} has no pictures; read_audio reads its sound")
            rate = float(stream.average_rate or 0)
            step = max(1, round(rate / self.fps)) if self.fps else 1
            size = self.resize
            frames: list[Any] = []
            numbers: list[int] = []
            times: list[Any] = []
            for number, frame in enumerate(video.decode(stream)):
                if number % step:
                    continue
                size = size or _upright_size(frame)
                frames.append(_picture(frame, size))
                numbers.append(number)
                times.append(_times(frame, rate))
                if len(frames) * frames[0].nbytes >= _BLOCK_BYTES:
                    yield self._block(frames, numbers, times)
                    frames, numbers, times = [], [], []
            if frames:
                yield self._block(frames, numbers, times)

    def _seekable(self, path: str) -> Any:
        if self.options.arrow_open_stream_args:
            return io.BytesIO(self.bytes_of(path))
        return self.place.filesystem.open_input_file(path)

    def _block(self, frames: list[Any], numbers: list[int], times: list[Any]) -> Block:
        columns = {"frame": column_of_values(frames), "frame_index": pa.array(numbers)}
        if self.include_timestamps:
            columns["frame_timestamp"] = column_of_values(times)
        return pa.table(columns)


def _upright_size(frame: Any) -> tuple[int, int]:
    return (frame.width, frame.height) if _turns(frame) % 2 else (frame.height, frame.width)


def _turns(frame: Any) -> int:
    """Return how many quarters of a turn to the left put a frame upright, as its camera said."""
    turns: int = round(frame.rotation / 90)
    return turns


def _picture(frame: Any, size: tuple[int, int]) -> Any:
    """Return the pixels of a frame, upright and in this size."""
    turns = _turns(frame)
    height, width = reversed(size) if turns % 2 else size
    pixels = frame.reformat(width=width, height=height, format="rgb24").to_ndarray()
    return np.ascontiguousarray(np.rot90(pixels, turns))


def _times(frame: Any, rate: float) -> Any:
    """Return when a frame begins and ends, in seconds."""
    begin = frame.time or 0.0
    seconds = frame.duration * float(frame.time_base) if frame.duration else 0.0
    return np.array([begin, begin + (seconds or (1 / rate if rate else 0.0))], np.float32)
