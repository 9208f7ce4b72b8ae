"""Which rows are written, by a column of ids, for `DataContext.checkpoint_config`.

`resume=True` of the methods that write needs no ids, and notes where rows come from instead.
"""

from __future__ import annotations

import os
import warnings
from enum import Enum
from typing import TYPE_CHECKING

from skate._core.argument_checks import wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.fs as pafs

__all__ = [
    "CheckpointBackend",
    "CheckpointConfig",
    "InvalidCheckpointingConfig",
]


class CheckpointBackend(Enum):
    """Where ids are kept; it follows from the path."""

    CLOUD_OBJECT_STORAGE = "CLOUD_OBJECT_STORAGE"
    FILE_STORAGE = "FILE_STORAGE"


class InvalidCheckpointingConfig(ValueError):  # noqa: N818 - Ray's name
    """A `CheckpointConfig` cannot be meant as it is written."""


class CheckpointConfig:
    """Note the ids of rows as they are written, and leave them out the next time.

    Files have each row once, also those of `BlockBasedFileDatasink` and `RowBasedFileDatasink`
    whose names follow from what their `FilenameProvider` is given. Other sinks are given each row
    at least once: after a kill those that were under way again.

    Args:
        id_column: The column of ids: each row has another one, and keeps it from where it is read,
            or made, to where it is written. Limits, joins and groups see all rows in each run:
            what is noted is left out after them.
        checkpoint_path: The folder for Parquet files with the ids, an absolute path or an address
            such as "s3://bucket/ids", neither inside of the folder that is written to nor around
            it; None takes "ray_data_checkpoint" in the folder that the variable
            RAY_DATA_CHECKPOINT_PATH_BUCKET names. Files of others there are read as ids, too.
        delete_checkpoint_on_success: Whether the ids that such writes have noted are removed when
            all rows are written; files of others stay.
        override_filesystem: The file system of `checkpoint_path`; None finds it by the path.
        override_backend: What `backend` says; deprecated.
        write_num_threads: Without effect: whoever writes a file notes its ids.
        checkpoint_path_partition_filter: Which files of ids count: a `PathPartitionFilter`, or a
            function of their paths that returns some of them; None takes all.
        checkpoint_filter_cls: None; other ways to compare ids are not supported.
        checkpoint_manager_cls: None; other ways to load ids are not supported.

    Raises:
        InvalidCheckpointingConfig: If something of that is missing or wrong.
    """

    DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR = "RAY_DATA_CHECKPOINT_PATH_BUCKET"
    DEFAULT_CHECKPOINT_PATH_DIR = "ray_data_checkpoint"

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: pafs.FileSystem | None = None,
        override_backend: CheckpointBackend | None = None,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: Callable[[list[str]], list[str]] | None = None,
        checkpoint_filter_cls: type | None = None,
        checkpoint_manager_cls: type | None = None,
    ) -> None:
        if not isinstance(id_column, str) or not id_column:
            raise InvalidCheckpointingConfig(
                "the Checkpoint ID column is the name of a column that is in all rows; got "
                f"id_column={id_column!r}"
            )
        _check_no_classes(checkpoint_filter_cls, checkpoint_manager_cls)
        self.id_column: str = id_column
        self.checkpoint_path: str = checkpoint_path or self._usual_path()
        filesystem, folder = _resolved(self.checkpoint_path, override_filesystem)
        self.filesystem: pafs.FileSystem = filesystem
        self._folder: str = folder
        self.backend: CheckpointBackend = _backend(filesystem, override_backend)
        self.delete_checkpoint_on_success = delete_checkpoint_on_success
        self.write_num_threads = write_num_threads
        self.checkpoint_path_partition_filter = checkpoint_path_partition_filter

    @classmethod
    def _usual_path(cls) -> str:
        variable = cls.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR
        folder = os.environ.get(variable)
        if folder is None:
            raise InvalidCheckpointingConfig(
                f"ids need a folder: set CheckpointConfig.checkpoint_path, or the variable "
                f"{variable}"
            )
        return f"{folder}/{cls.DEFAULT_CHECKPOINT_PATH_DIR}"


def as_checkpoint_config(given: object) -> CheckpointConfig | None:
    """Return a setting as it is meant: a dictionary has the arguments."""
    if given is None or isinstance(given, CheckpointConfig):
        return given
    if not isinstance(given, dict):
        raise wrong_type(
            "checkpoint_config",
            given,
            "a CheckpointConfig, a dictionary of its arguments, or None",
        )
    backend = given.get("override_backend")
    if isinstance(backend, str):
        given = {**given, "override_backend": CheckpointBackend[backend]}
    return CheckpointConfig(**given)


def _check_no_classes(filter_class: type | None, manager_class: type | None) -> None:
    if filter_class is not None or manager_class is not None:
        raise InvalidCheckpointingConfig(
            "checkpoint_filter_cls and checkpoint_manager_cls are not supported: ids are compared "
            "as Arrow does. Leave them out, or filter the dataset yourself"
        )


def _resolved(path: str, filesystem: pafs.FileSystem | None) -> tuple[pafs.FileSystem, str]:
    import pyarrow.fs as pafs

    from skate.data._io.paths import resolve

    problem: Exception | None = None
    if filesystem is not None and not isinstance(filesystem, pafs.FileSystem):
        problem = wrong_type("override_filesystem", filesystem, "a pyarrow.fs.FileSystem")
    elif filesystem is not None or "://" in path or os.path.isabs(path):
        try:
            return resolve(path, filesystem)
        except Exception as error:
            problem = error
    raise InvalidCheckpointingConfig(
        f"Invalid checkpoint path: {path!r}; it takes an absolute path, or the address of a store "
        "such as 's3://bucket/ids'"
    ) from problem


def _backend(filesystem: pafs.FileSystem, given: CheckpointBackend | None) -> CheckpointBackend:
    import pyarrow.fs as pafs

    if given is None:
        local = isinstance(filesystem, pafs.LocalFileSystem)
        return CheckpointBackend.FILE_STORAGE if local else CheckpointBackend.CLOUD_OBJECT_STORAGE
    if not isinstance(given, CheckpointBackend):
        raise InvalidCheckpointingConfig(
            f"override_backend takes a CheckpointBackend; got {given!r}"
        )
    warnings.warn(
        "override_backend is deprecated, and changes nothing: leave it out",
        FutureWarning,
        stacklevel=3,
    )
    return given
