"""`StorageContext` and its functions: a run's folder as Ray's own modules and tests see it."""

from __future__ import annotations

from typing import Any

from skate._run.folders import folder_at
from skate._run.storage import Storage


class StorageContext(Storage):
    """The folder of a run, `storage_path/experiment_dir_name`, and of a trial inside of it."""

    def __init__(
        self,
        storage_path: object,
        experiment_dir_name: str,
        sync_config: object = None,
        storage_filesystem: object = None,
        trial_dir_name: str | None = None,
    ) -> None:
        super().__init__(storage_path, experiment_dir_name, storage_filesystem)
        self.sync_config = sync_config
        self._trial_dir_name = trial_dir_name
        self.current_checkpoint_index = 0

    @property
    def trial_dir_name(self) -> Any:
        """The name of the trial's folder, or None."""
        return self._trial_dir_name

    @trial_dir_name.setter
    def trial_dir_name(self, name: str | None) -> None:
        self._trial_dir_name = name

    @property
    def trial_fs_path(self) -> str:
        """The trial's folder, on the file system."""
        return self.folder.sub(self.trial_dir_name).path if self.trial_dir_name else self.path

    @property
    def checkpoint_dir_name(self) -> str:
        """The name of the checkpoint that `current_checkpoint_index` says."""
        return self._make_checkpoint_dir_name(self.current_checkpoint_index)

    @property
    def checkpoint_fs_path(self) -> str:
        """The place of that checkpoint, on the file system."""
        return f"{self.trial_fs_path}/{self.checkpoint_dir_name}"

    @staticmethod
    def _make_checkpoint_dir_name(index: int) -> str:
        return f"checkpoint_{index:06d}"


def get_fs_and_path(storage_path: object, storage_filesystem: object = None) -> tuple[Any, str]:
    """Return the file system of a place, and the path on it."""
    place = folder_at(storage_path, storage_filesystem)
    return place.filesystem, place.path


def _download_from_fs_path(fs: Any, fs_path: str, local_path: str, filelock: bool = True) -> None:
    """Copy a folder, or a file, to this machine."""
    import os

    from pyarrow.fs import FileType, LocalFileSystem, copy_files

    is_file = fs.get_file_info(fs_path).type is FileType.File
    os.makedirs(os.path.dirname(local_path) if is_file else local_path, exist_ok=True)
    copy_files(fs_path, local_path, source_filesystem=fs, destination_filesystem=LocalFileSystem())


def _upload_to_fs_path(local_path: str, fs: Any, fs_path: str, exclude: object = None) -> None:
    """Copy a folder, or a file, from this machine."""
    import os

    from pyarrow.fs import LocalFileSystem, copy_files

    if exclude:
        raise ValueError(f"exclude is not supported here; got {exclude!r}")
    folder = os.path.dirname(fs_path) if os.path.isfile(local_path) else fs_path
    if folder:
        fs.create_dir(folder, recursive=True)
    copy_files(local_path, fs_path, source_filesystem=LocalFileSystem(), destination_filesystem=fs)


def _list_at_fs_path(fs: Any, fs_path: str) -> list[str]:
    """List the names in a folder; none if it is not there."""
    from pyarrow.fs import FileSelector

    selector = FileSelector(fs_path, allow_not_found=True)
    return [info.base_name for info in fs.get_file_info(selector)]


def _exists_at_fs_path(fs: Any, fs_path: str) -> bool:
    from pyarrow.fs import FileType

    return bool(fs.get_file_info(fs_path).type is not FileType.NotFound)


def _is_directory(fs: Any, fs_path: str) -> bool:
    from pyarrow.fs import FileType

    return bool(fs.get_file_info(fs_path).type is FileType.Directory)


def _create_directory(fs: Any, fs_path: str) -> None:
    fs.create_dir(fs_path, recursive=True)


def _delete_fs_path(fs: Any, fs_path: str) -> None:
    if _is_directory(fs, fs_path):
        fs.delete_dir(fs_path)
    elif _exists_at_fs_path(fs, fs_path):
        fs.delete_file(fs_path)


delete_fs_path = _delete_fs_path
