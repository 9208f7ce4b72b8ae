"""Values in the names of folders: `year=2024/month=1/file.parquet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from skate.data._arrow.compute import pc

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_NONE = "__HIVE_DEFAULT_PARTITION__"


class PartitionStyle(str, Enum):
    """How folders carry values: `key=value`, or the values alone."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclass(frozen=True)
class Partitioning:
    """Columns whose values are in the names of folders. `filesystem` is the one of `base_dir`."""

    style: PartitionStyle | str = PartitionStyle.HIVE
    base_dir: str | None = None
    field_names: Sequence[str | None] | None = None
    field_types: dict[str, type] | None = None
    filesystem: Any = None

    def __post_init__(self) -> None:
        if PartitionStyle(self.style) is PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError("partitions of style 'dir' need field_names")

    @property
    def normalized_base_dir(self) -> str:
        """The base as a path on its file system, with a slash at the end."""
        from skate.data._io.paths import resolve

        path = resolve(self.base_dir, self.filesystem)[1] if self.base_dir else ""
        return path if not path or path.endswith("/") else path + "/"

    @property
    def resolved_filesystem(self) -> object:
        from skate.data._io.paths import resolve

        return resolve(self.base_dir or ".", self.filesystem)[0]

    def to_pyarrow(self) -> object:
        """Return the same as pyarrow.dataset knows it."""
        from pyarrow import dataset

        names = [name for name in self.field_names or () if name is not None]
        if len(names) < len(self.field_names or ()):
            raise ValueError("pyarrow has no partitions with folders that are no column (None)")
        schema = pa.schema([(name, self.type_of(name)) for name in names])
        hive = PartitionStyle(self.style) is PartitionStyle.HIVE
        return (dataset.HivePartitioning if hive else dataset.DirectoryPartitioning)(schema)

    def type_of(self, name: str) -> pa.DataType:
        return _TYPES[(self.field_types or {}).get(name, str)]

    def values(self, path: str, root: str) -> dict[str, Any]:
        """Read the values for the file at `path` below `root`."""
        folders = self._folders(path, root)
        if folders is None:
            return {}
        if PartitionStyle(self.style) is PartitionStyle.HIVE:
            found = self._by_key(folders, path)
        else:
            found = self._by_place(folders, path)
        types = self.field_types or {}
        return {name: _typed(value, types.get(name, str)) for name, value in found.items()}

    def _folders(self, path: str, root: str) -> list[str] | None:
        """List the names between the base and the file; None for a file that is elsewhere."""
        keyed = PartitionStyle(self.style) is PartitionStyle.HIVE  # can be told from others
        base = self.normalized_base_dir if self.base_dir else "" if keyed else root.rstrip("/")
        if self.base_dir and not path.startswith(base):
            return None
        inside = path[len(base) :] if path.startswith(base) else path
        return [part for part in inside.split("/")[:-1] if part]

    def _by_key(self, folders: list[str], path: str) -> dict[str, str | None]:
        pairs = (part.split("=") for part in folders if part.count("=") == 1)
        found = {unquote(name): _value(text) for name, text in pairs}
        if self.field_names and found and list(found) != list(self.field_names):
            raise ValueError(
                f"{path!r} has the partitions {list(found)}; expected {list(self.field_names)}"
            )
        return found

    def _by_place(self, folders: list[str], path: str) -> dict[str, str | None]:
        assert self.field_names is not None
        if folders and len(folders) != len(self.field_names):
            raise ValueError(
                f"{path!r} lies in the folders {folders}, which do not fit the partitions "
                f"{list(self.field_names)}"
            )
        pairs = zip(self.field_names, folders, strict=False)
        return {name: _value(text) for name, text in pairs if name is not None}


def agreeing(column: pa.ChunkedArray, value: object, name: str, path: str) -> pa.ChunkedArray:
    """Fill missing values of a column with that which the path of its file says; others must be
    the same."""
    try:
        wanted = pa.scalar(value).cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column
    filled = pc.fill_null(column, wanted)
    if not pc.all(pc.equal(filled, wanted), min_count=0).as_py():
        raise ValueError(
            f"column {name!r} of {path!r} has other values than its path, which says {value!r}; "
            "partitioning=None leaves the path alone"
        )
    return filled


def hive_folder(name: str, value: object) -> str:
    """Write the folder of a value as `key=value/`."""
    return f"{folder_of(name, value)}/"


def partition_style(flavor: str | None) -> Callable[[str, object], str]:
    """Choose how a path says the value of a column: by the name that pyarrow has for it."""
    styles: dict[str | None, Callable[[str, Any], str]] = {
        "hive": hive_folder,
        None: lambda name, value: f"{_name_of(name, value)}/",
        "filename": lambda name, value: f"{_name_of(name, value)}_",
    }
    if flavor not in styles:
        raise ValueError(f"partitioning_flavor takes {list(styles)}; got {flavor!r}")
    return styles[flavor]


def folder_of(name: str, value: object) -> str:
    """Name the folder `name=value`. The value is readable by all that know Hive's folders."""
    return f"{quote(name, safe=' ')}={_NONE if value is None else quote(str(value), safe=' ')}"


def _name_of(name: str, value: object) -> str:
    """Write the value alone as the name of a folder; ".." would be another one, and names that
    begin so, or with "_", are hidden from readers."""
    text = _NONE if value is None else quote(str(value), safe=" ")
    if not text:
        raise ValueError(
            f"column {name!r} has the value '', which no folder can be called; "
            "partitioning_flavor='hive' writes it"
        )
    return f"%{ord(text[0]):X}{text[1:]}" if text[0] in "._" else text


def _value(text: str) -> str | None:
    value = unquote(text)
    return None if value == _NONE else value


def _typed(value: str | None, kind: type) -> object:
    if value is None:
        return None
    if kind is bool:
        return value.lower() == "true"
    return kind(value)


class PathPartitionParser:
    """The partition values of a path: `parser(path)`."""

    def __init__(self, partitioning: Partitioning) -> None:
        self.scheme = partitioning

    @staticmethod
    def of(
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: object = None,
    ) -> PathPartitionParser:
        return PathPartitionParser(
            Partitioning(style, base_dir, field_names, field_types, filesystem)
        )

    def __call__(self, path: str, root: str = "") -> dict[str, Any]:
        return self.scheme.values(path, root)


class PathPartitionFilter:
    """Keeps the files whose partition values a function accepts."""

    parser: PathPartitionParser

    def __init__(
        self,
        path_partition_parser: PathPartitionParser | Partitioning,
        filter_fn: Callable[[dict[str, object]], bool],
    ) -> None:
        if isinstance(path_partition_parser, Partitioning):
            path_partition_parser = PathPartitionParser(path_partition_parser)
        self.parser = path_partition_parser
        self.filter_fn = filter_fn

    @classmethod
    def of(
        cls,
        filter_fn: Callable[[dict[str, object]], bool],
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str | None] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: object = None,
    ) -> PathPartitionFilter:
        scheme = Partitioning(style, base_dir, field_names, field_types, filesystem)
        return cls(PathPartitionParser(scheme), filter_fn)

    def apply(self, path: str, root: str = "") -> bool:
        """Return whether this file is kept."""
        return bool(self.filter_fn(self.parser(path, root)))

    def __call__(self, paths: Iterable[str], root: str = "") -> list[str]:
        return [path for path in paths if self.apply(path, root)]
