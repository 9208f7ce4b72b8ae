"""Datasets of sound and moving pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skate._core.plain_errors import failing_plainly
from skate._core.signature import showing_keywords
from skate.data._io.read import dataset_of, file_options
from skate.data._io.read_keywords import ReadKeywords, meanings
from skate.data.dataset import Dataset
from skate.data.sources.recordings import AudioSource, VideoSource

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.data._io.paths import Paths

AUDIO_EXTENSIONS = (
    "mp3", "wav", "aac", "flac", "ogg", "m4a", "wma", "alac", "aiff", "pcm", "amr", "opus", "ra",
    "rm", "au", "mid", "midi", "caf",
)  # fmt: skip
VIDEO_EXTENSIONS = (
    "mp4", "mkv", "mov", "avi", "wmv", "flv", "webm", "m4v", "3gp", "mpeg", "mpg", "ts", "ogv",
    "rm", "rmvb", "vob", "asf", "f4v", "m2ts", "mts", "divx", "xvid", "mxf",
)  # fmt: skip


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_audio(paths: Paths, **options: Unpack[ReadKeywords]) -> Dataset:
    """Read recordings, one per row: `amplitude`, an array of (channels, samples) of float32, and
    `sample_rate`, in samples per second.

    Args:
        paths: A file, a folder or several of them, on any file system.
        **options: Those of `read_csv`, without others; `include_paths=True` adds the column
            `path`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.
        UnreadableFileError: If a file is no recording that libsndfile knows, when it is read.
    """
    given = dict(options)
    return dataset_of(AudioSource(file_options(paths, given, **_of(AUDIO_EXTENSIONS))), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_videos(
    paths: Paths,
    *,
    include_timestamps: bool = False,
    fps: int | None = None,
    resize: Sequence[int] | None = None,
    **options: Unpack[ReadKeywords],
) -> Dataset:
    """Read videos, a frame per row: `frame`, an array of (height, width, 3) of uint8, and
    `frame_index`, its number in the file. Frames are upright, and all of a file have the size of
    its first one.

    Args:
        paths: A file, a folder or several of them, on any file system.
        include_timestamps: Whether the column `frame_timestamp` says when each frame begins and
            ends, in seconds.
        fps: How many frames of a second are kept, about: each second one, third one and so on.
            None keeps all.
        resize: (height, width) of the frames; None is the size of the first one.
        **options: Those of `read_csv`, without others; `include_paths=True` adds the column
            `path`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        ValueError: If `fps` is not a positive whole number, or `resize` not two of them; or if a
            file is no video, when it is read.
        FileNotFoundError: If there is no such file, when it is looked for.
    """
    given = dict(options)
    if fps is not None and not _is_positive(fps):
        raise ValueError(f"Expected `fps` to be a positive integer or None; got {fps!r}")
    if resize is not None and not _is_size(resize):
        raise ValueError(f"resize takes (height, width), two positive integers; got {resize!r}")
    files = file_options(paths, given, **_of(VIDEO_EXTENSIONS))
    size = None if resize is None else (resize[0], resize[1])
    return dataset_of(VideoSource(files, include_timestamps, fps, size), given)


def _of(extensions: Sequence[str]) -> dict[str, Sequence[str]]:
    return {"file_extensions": extensions}


def _is_size(given: object) -> bool:
    return isinstance(given, (list, tuple)) and len(given) == 2 and all(map(_is_positive, given))


def _is_positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


__all__ = ["read_audio", "read_videos"]
