"""Checkpoints: a folder somewhere, or a dict that is not written yet. One class for all libraries
and for all eras of the API.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from skate._run.folders import (
    LocalFolder,
    StorageFolder,
    TemporaryFolder,
    copy_tree,
    copy_whole,
    folder_at,
)
from skate._run.links import check_links, note_foreign_folder
from skate._run.own_files import note_foreign_models
from skate._run.pickles import PICKLE_START, is_allowed, signed_pickle, unpickle
from skate._run.shared_copies import TEMPORARY_PREFIX, copy_to_read, kept_copy

if TYPE_CHECKING:
    import pyarrow.fs as pafs


DICT_FILE = "dict_checkpoint.pkl"
METADATA_FILE = ".metadata.json"
PREPROCESSOR_FILE = "preprocessor.pkl"
PREPROCESSOR_KEY = "_preprocessor"
MODEL_KEY = "model"  # in a dict: a model, or its weights
FILES_KEY = "_files"  # in the dict of a checkpoint that is a folder: the folder, as a tar archive

AnyCheckpoint = TypeVar("AnyCheckpoint", bound="Checkpoint")


class Checkpoint:
    """Hold what a run has learned so far, as a folder on some file system.

    `from_dict` makes one that holds a dict instead. It becomes a folder where it is reported, and
    `to_dict` gives the dict back.

    Dicts and preprocessors are pickles in the folder. They are read if this user's programs wrote
    them on this machine; those of others with `allow_pickle=True`, which runs what they contain.

    Args:
        path: The folder, or its URI.
        filesystem: The Arrow file system that `path` is on, if not this machine's.

    Example:
        >>> from skate.train import Checkpoint
        >>> Checkpoint.from_dict({"epoch": 3}).to_dict()
        {'epoch': 3}
    """

    _temporary: TemporaryFolder | None = None  # its folder, if that is to end with it
    _allow_pickle = False  # whether it was made where pickles of others are allowed
    _identity = ""  # by which processes share a copy of it; a dict has none

    def __init__(self, path: str | os.PathLike[str], filesystem: object = None) -> None:
        self._folder: StorageFolder | None = folder_at(path, filesystem)
        self._data: dict[str, Any] | None = None
        self._identity = uuid.uuid4().hex
        if is_allowed():
            self._allow_pickle = True

    # -- where it is ----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Its place on `filesystem`. A dict that was not written yet has none."""
        return self._place().path

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The Arrow file system it is on."""
        return self._place().filesystem

    @property
    def value(self) -> Any:
        """Its place, or the dict itself while it has none."""
        return self._data if self._folder is None else self._folder.path

    @property
    def dir_or_data(self) -> Any:
        """The same as `value`: the name that checkpoints of trials have for it in Ray."""
        return self.value

    @property
    def _local_path(self) -> str | None:
        """Its place if that is on this machine, else None; programs for older Rays read it."""
        return self._folder.path if isinstance(self._folder, LocalFolder) else None

    def to_air_checkpoint(self) -> Checkpoint:
        """Return itself: what trials have and what trainers take is one class."""
        return self

    @property
    def uri(self) -> str | None:
        """Its place as a URI; None while it has none."""
        place = self._folder
        if place is None:
            return None
        if isinstance(place, LocalFolder):
            return f"file://{place.path}"
        return f"{_scheme(place.filesystem)}://{place.path}"

    def _place(self) -> StorageFolder:
        if self._folder is None:
            raise ValueError(
                "this checkpoint is a dict and is not in a folder yet; "
                "report it, or write it with to_directory() or to_uri()"
            )
        return self._folder

    def _place_inside(self, name: str) -> str:
        """Return where it is once it was copied into a folder of this name: a file is in it."""
        local = self._local_path
        is_file = local is not None and os.path.isfile(local)
        return f"{name}/{os.path.basename(local)}" if local and is_file else name

    # -- folders --------------------------------------------------------------------------------

    @classmethod
    def from_directory(cls: type[AnyCheckpoint], path: str | os.PathLike[str]) -> AnyCheckpoint:
        """Make a checkpoint of a local folder, which is not copied.

        Args:
            path: The folder.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = pathlib.Path(folder, "weights.txt").write_text("1 2 3")
            ...     checkpoint = skate.train.Checkpoint.from_directory(folder)
            ...     with checkpoint.as_directory() as content:
            ...         pathlib.Path(content, "weights.txt").read_text()
            '1 2 3'
        """
        return cls(path)

    @classmethod
    def _in_temporary(cls: type[AnyCheckpoint], folder: TemporaryFolder) -> AnyCheckpoint:
        """Make a checkpoint of a folder that is deleted with the last checkpoint that is in it.
        One that travels stays, because nobody knows then which is the last."""
        checkpoint = cls.from_directory(folder.path)
        checkpoint._temporary = folder
        return checkpoint

    def __getstate__(self) -> dict[str, Any]:
        if self._temporary is not None:
            self._folder = LocalFolder(self._temporary.give_up())
        return {name: value for name, value in vars(self).items() if name != "_temporary"}

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the content into a local folder.

        The copy is the caller's, to keep or to delete; `as_directory` cleans up by itself.

        Args:
            path: The folder; None is a temporary one, which all processes of this machine share
                that copy the same checkpoint, so that it is downloaded once.

        Returns:
            The path of the folder.

        Raises:
            OutsideLinkError: If its folder has a link that leads out of it.

        Example:
            >>> import os, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     copy = skate.train.Checkpoint.from_dict({"epoch": 3}).to_directory(folder)
            ...     os.path.samefile(copy, folder)
            True
        """
        self._check_there()
        if path is None and self._identity:
            return kept_copy(self._identity, self._write_into)
        target = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX) if path is None else os.fspath(path)
        target = os.path.expanduser(target)
        self._write_into(target)
        return target

    def _write_into(self, target: str, follow_links: bool = False) -> None:
        """Write its content into a folder; links out of its own only for those who made them."""
        if self._folder is None:
            _write_dict(self._data or {}, target)
        elif os.path.isfile(self._folder.path) and isinstance(self._folder, LocalFolder):
            os.makedirs(target, exist_ok=True)
            name = os.path.basename(self._folder.path)
            copy_whole(self._folder.path, os.path.join(target, name))
        elif follow_links and isinstance(self._folder, LocalFolder):
            copy_tree(self._folder.path, target)
        else:
            self._folder.download(target)
        if self._folder is not None and not isinstance(self._folder, LocalFolder):
            note_foreign_models(target)

    def _note_foreign(self) -> None:
        """Remember that its content is not the loop's that is given it: models in it get no
        signatures, and links out of it are not followed. What is elsewhere comes with a
        download."""
        if self._local_path is not None:
            note_foreign_models(self._local_path)
            note_foreign_folder(self._local_path)

    def _check_there(self) -> None:
        folder = self._folder
        if isinstance(folder, LocalFolder) and not os.path.exists(folder.path):
            raise FileNotFoundError(f"the checkpoint {folder.path!r} is gone, or was never there")

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give the content as a local folder, to be read only, for a `with` statement.

        It is the checkpoint's own folder if that is local, else a copy that is deleted afterwards.

        Yields:
            The path of the folder.

        Example:
            >>> import os
            >>> with skate.train.Checkpoint.from_dict({"epoch": 3}).as_directory() as folder:
            ...     os.path.isdir(folder)
            True
        """
        if isinstance(self._folder, LocalFolder):
            self._check_there()
            yield self._folder.path
            return
        if self._identity:
            with copy_to_read(self._identity, self._write_into) as copy:
                yield copy
            return
        copy = self.to_directory()
        try:
            yield copy
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    # -- URIs -----------------------------------------------------------------------------------

    @classmethod
    def from_uri(cls: type[AnyCheckpoint], uri: str) -> AnyCheckpoint:
        """Make a checkpoint of a folder on any file system, which is not copied.

        Args:
            uri: The folder, such as "s3://bucket/folder".
        """
        return cls(uri)

    def to_uri(self, uri: str) -> str:
        """Copy the content to a folder on any file system.

        Args:
            uri: The folder, such as "s3://bucket/folder".

        Returns:
            The URI.

        Raises:
            OutsideLinkError: If its folder has a link that leads out of it.
        """
        with self.as_directory() as folder:
            check_links(folder)
            folder_at(uri).upload(folder)
        return uri

    # -- dicts ----------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls: type[AnyCheckpoint], data: Mapping[str, object]) -> AnyCheckpoint:
        """Make a checkpoint of values by name.

        Args:
            data: The values, of any kind.

        Raises:
            TypeError: If it is no dictionary.

        Example:
            >>> skate.train.Checkpoint.from_dict({"epoch": 3, "loss": 0.5}).to_dict()
            {'epoch': 3, 'loss': 0.5}
        """
        if not isinstance(data, Mapping):
            raise TypeError(
                f"Checkpoint.from_dict takes a dict of values by name; "
                f"got {type(data).__name__}: {data!r}"
            )
        checkpoint = cls.__new__(cls)
        checkpoint._folder = None
        checkpoint._data = dict(data)
        return checkpoint

    def to_dict(self, *, allow_pickle: bool = False) -> dict[str, Any]:
        """Return the dict; of a folder that was not made from one, its files in a dict. Files that
        were added to the folder of a dict are in it too.

        Args:
            allow_pickle: Whether to read a dict that was not written by this user on this
                machine, which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        whole = self._whole(allow_pickle)
        if FILES_KEY not in whole:
            whole.pop(METADATA_FILE, None)
        return whole

    def _whole(self, allow_pickle: bool = False) -> dict[str, Any]:
        """Return all that there is as a dict, with what travels with it."""
        if self._folder is None:
            return dict(self._data or {})
        if self._folder.exists(DICT_FILE):
            data: dict[str, Any] = dict(self._unpickle(DICT_FILE, allow_pickle))
            if others := _others(self._folder.names()):
                with self.as_directory() as folder:
                    data[FILES_KEY] = _packed(folder, others)
        else:
            with self.as_directory() as folder:
                data = {FILES_KEY: _packed(folder, ["."])}
        preprocessor = self.get_preprocessor(allow_pickle=allow_pickle)
        metadata = self.get_metadata()
        if preprocessor is not None:
            data[PREPROCESSOR_KEY] = preprocessor
        return {**data, METADATA_FILE: metadata} if metadata else data

    def _unpickle(self, name: str, allow_pickle: bool) -> Any:
        """Return the value that is pickled in a file of the folder."""
        folder = self._place()
        allowed = allow_pickle or self._allow_pickle
        return unpickle(folder.read(name), f"{folder.path}/{name}", allowed)

    @classmethod
    def from_bytes(
        cls: type[AnyCheckpoint], data: bytes, *, allow_pickle: bool = False
    ) -> AnyCheckpoint:
        """Make the checkpoint that `to_bytes` gave.

        Args:
            data: What `to_bytes` returned.
            allow_pickle: Whether to read bytes of others, which runs whatever they contain.

        Raises:
            UntrustedPickleError: If they are not this user's, and that is not allowed.
        """
        given: Any = data
        if not isinstance(given, bytes) or not given.startswith(PICKLE_START):
            shown = repr(given)
            raise ValueError(
                "Checkpoint.from_bytes takes the bytes that checkpoint.to_bytes() gave; got "
                f"{type(data).__name__}: {shown[:40]}{'…' if len(shown) > 40 else ''}"
            )
        values = unpickle(data, "what Checkpoint.from_bytes was given", allow_pickle)
        return cls.from_dict(values)

    def to_bytes(self) -> bytes:
        """Return all of it as bytes, for `from_bytes`."""
        return signed_pickle(self._whole())

    @classmethod
    def from_object_ref(cls: type[AnyCheckpoint], obj_ref: Any) -> AnyCheckpoint:
        """Return the checkpoint that `to_object_ref` has put into the object store.

        Args:
            obj_ref: The reference to it.
        """
        import skate

        return cls.from_dict(skate.get(obj_ref))

    def to_object_ref(self) -> Any:
        """Put all of it into the object store, and return a reference to it.

        Example:
            >>> ref = skate.train.Checkpoint.from_dict({"epoch": 3}).to_object_ref()
            >>> skate.train.Checkpoint.from_object_ref(ref).to_dict()
            {'epoch': 3}
        """
        import skate

        return skate.put(self._whole())

    @classmethod
    def from_checkpoint(cls: type[AnyCheckpoint], other: Checkpoint) -> AnyCheckpoint:
        """Return the same checkpoint as one of this class.

        Args:
            other: The checkpoint, of any class.

        Raises:
            TypeError: If it is no checkpoint, as None where nothing was reported.
        """
        if not isinstance(other, Checkpoint):
            raise TypeError(
                f"there is no checkpoint to read: from_checkpoint() takes one; got {other!r}"
            )
        checkpoint = cls.__new__(cls)
        checkpoint._folder, checkpoint._data = other._folder, other._data
        checkpoint._identity = other._identity
        checkpoint._temporary = other._temporary
        checkpoint._allow_pickle = other._allow_pickle
        return checkpoint

    def get_internal_representation(self) -> tuple[str, Any]:
        """Return what it is ("data_dict", "local_path" or "uri"), and that."""
        if self._folder is None:
            return "data_dict", self._data
        if isinstance(self._folder, LocalFolder):
            return "local_path", self._folder.path
        return "uri", self.uri

    # -- what travels with it -------------------------------------------------------------------

    def get_metadata(self) -> dict[str, Any]:
        """Return the notes that are kept with the checkpoint; empty if there are none.

        Raises:
            ValueError: If the file with the notes is damaged.

        Example:
            >>> checkpoint = skate.train.Checkpoint.from_dict({"epoch": 3})
            >>> checkpoint.set_metadata({"author": "Ann"})
            >>> checkpoint.get_metadata()
            {'author': 'Ann'}
        """
        if self._folder is None:
            return dict((self._data or {}).get(METADATA_FILE, {}))
        if not self._folder.exists(METADATA_FILE):
            return {}
        try:
            notes = json.loads(self._folder.read(METADATA_FILE))
        except (ValueError, RecursionError) as error:
            notes = error
        if not isinstance(notes, dict):
            raise ValueError(
                f"{METADATA_FILE} of the checkpoint {self.path} has no notes that can be read, "
                f"which are a dict as JSON: remove it, or set_metadata() anew; got {notes!r:.200}"
            )
        return notes

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the notes that are kept with the checkpoint.

        Args:
            metadata: The notes: what JSON can express.

        Raises:
            TypeError: If JSON cannot express them.
        """
        text = check_metadata(metadata)
        if self._folder is None:
            self._data = {**(self._data or {}), METADATA_FILE: json.loads(text)}
        else:
            self._folder.write(METADATA_FILE, text.encode())
            self._identity = uuid.uuid4().hex  # copies of it lack this

    def update_metadata(self, metadata: Mapping[str, object]) -> None:
        """Add to the notes that are kept with the checkpoint.

        Args:
            metadata: The notes: what JSON can express.
        """
        self.set_metadata({**self.get_metadata(), **metadata})

    def get_preprocessor(self, *, allow_pickle: bool = False) -> Any:
        """Return the fitted preprocessor of the data that was trained on, or None.

        Args:
            allow_pickle: Whether to read one that was not written by this user on this machine,
                which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        if self._folder is None:
            return (self._data or {}).get(PREPROCESSOR_KEY)
        for name in (PREPROCESSOR_FILE, PREPROCESSOR_KEY):  # the latter is how Ray AIR wrote it
            if self._folder.exists(name):
                return self._unpickle(name, allow_pickle)
        return None

    def set_preprocessor(self, preprocessor: object) -> None:
        """Keep a preprocessor with the checkpoint.

        Args:
            preprocessor: The preprocessor, fitted.
        """
        if self._folder is None:
            self._data = {**(self._data or {}), PREPROCESSOR_KEY: preprocessor}
        else:
            self._folder.write(PREPROCESSOR_FILE, signed_pickle(preprocessor))

    # -- as a value -----------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        if self._folder is None or other._folder is None:
            return self._data is not None and self._data is other._data
        return self._folder == other._folder

    def __hash__(self) -> int:
        return hash(self._folder) if self._folder is not None else id(self._data)

    def __fspath__(self) -> str:
        """Return the folder, if it is on this machine, so that a checkpoint can be used as a
        path."""
        if isinstance(self._folder, LocalFolder):
            return self.path
        raise TypeError(
            "a Checkpoint that is elsewhere, or in memory, is not a path: use "
            "checkpoint.to_directory(), or `with checkpoint.as_directory() as path:`"
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._folder is None:
            return f"{name}(data={sorted(map(str, self._data or {}))})"
        kind = "local" if isinstance(self._folder, LocalFolder) else _scheme(self.filesystem)
        return f"{name}(filesystem={kind}, path={self._folder.path})"


def check_checkpoint(given: object, caller: str) -> None:
    """Raise TypeError unless what is given to `caller` is a checkpoint."""
    if not isinstance(given, Checkpoint):
        absent = " (did the run report none?)" if given is None else ""
        raise TypeError(
            f"{caller} takes a Checkpoint, as result.checkpoint or "
            f"Checkpoint.from_directory(path); got {type(given).__name__}: {given!r}{absent}"
        )


def _write_dict(data: dict[str, Any], target: str) -> None:
    rest = dict(data)
    folder = LocalFolder(target)
    os.makedirs(folder.path, exist_ok=True)
    files = rest.pop(FILES_KEY, None)
    metadata, preprocessor = rest.pop(METADATA_FILE, None), rest.pop(PREPROCESSOR_KEY, None)
    if files is not None:
        _unpack(files, folder.path)
    if rest or files is None:
        folder.write(DICT_FILE, signed_pickle(rest))
    if metadata is not None:
        folder.write(METADATA_FILE, json.dumps(metadata).encode())
    if preprocessor is not None:
        folder.write(PREPROCESSOR_FILE, signed_pickle(preprocessor))


def _others(names: list[str]) -> list[str]:
    """List what is in a dict's folder beside what skate writes there."""
    own = (DICT_FILE, PREPROCESSOR_FILE, PREPROCESSOR_KEY)
    return [name for name in names if name not in own and not name.startswith(".")]


def _packed(folder: str, names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.add(os.path.join(folder, name), arcname=name)
    return buffer.getvalue()


def _unpack(data: bytes, folder: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(folder, filter="data")
        else:  # Python 3.10 before 3.10.12
            archive.extractall(folder)


def _scheme(filesystem: Any) -> str:
    """Return what URIs on this file system begin with: s3, gs, … or what fsspec calls it."""
    name: str = filesystem.type_name
    handler = getattr(filesystem, "handler", None)
    protocol = getattr(getattr(handler, "fs", None), "protocol", None)
    if protocol:
        return protocol if isinstance(protocol, str) else protocol[0]
    return name


def check_metadata(metadata: Mapping[str, object]) -> str:
    """Return the notes of a checkpoint as JSON; a TypeError if it cannot express them."""
    try:
        return json.dumps(dict(metadata))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"metadata is a dict of what JSON can express; got {metadata!r} ({error})"
        ) from None
