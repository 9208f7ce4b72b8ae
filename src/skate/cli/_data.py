"""`skate data …`: look at files as a dataset would see them."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate.cli._tables import commands_of, json_option, show_facts, show_rows

if TYPE_CHECKING:
    from skate.data import Dataset

# Readers by the ends of names of files.
_READERS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json",
    ".jsonl": "json", ".ndjson": "json", ".orc": "orc", ".avro": "avro", ".txt": "text",
    ".npy": "numpy", ".tfrecord": "tfrecords", ".tfrecords": "tfrecords", ".tar": "webdataset",
    ".png": "images", ".jpg": "images", ".jpeg": "images",
}  # fmt: skip
_FORMATS = sorted({*_READERS.values(), "binary_files", "delta"})
_PACKED = (".gz", ".bz2", ".zst", ".xz", ".lz4")


def data_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    path = click.Argument(["path"])
    form = click.Option(
        ["--format", "form"],
        type=click.Choice(_FORMATS),
        help="What the files are, if their names do not tell.",
    )
    count = click.Option(
        ["-n", "rows"],
        type=click.IntRange(min=1),
        default=10,
        help="How many rows; 10 unless given.",
    )
    all_have = (path, form, json_option(click))
    rows = (
        ("schema", "Show the columns of the files at PATH and their types.", _schema, all_have),
        ("head", "Show the first rows.", _head, (*all_have, count)),
        ("count", "Show how many rows there are.", _count, all_have),
    )
    text = "Look at files as a dataset sees them."
    return click.Group("data", help=text, commands=commands_of(click, rows))


def _schema(path: str, form: str | None, as_json: bool) -> None:
    schema = _dataset(path, form).schema()
    if schema is None:
        raise ValueError(f"{path} has no rows that would tell the columns")
    pairs = zip(schema.names, schema.types, strict=True)
    show_rows([{"column": name, "type": str(kind)} for name, kind in pairs], as_json)


def _head(path: str, form: str | None, rows: int, as_json: bool) -> None:
    show_rows(_dataset(path, form).take(rows), as_json, "no rows")


def _count(path: str, form: str | None, as_json: bool) -> None:
    show_facts({"rows": _dataset(path, form).count()}, as_json)


def _dataset(path: str, form: str | None) -> Dataset:
    """Return the files as a dataset, in this process: a look at a file needs no workers."""
    import skate
    import skate.data

    reader = getattr(skate.data, f"read_{form or _format_of(path)}")
    if not skate.is_initialized():
        skate.init(engine="inline", log_to_driver=False)
    skate.data.DataContext.get_current().enable_progress_bars = False
    dataset: Dataset = reader(path)
    return dataset


def _format_of(path: str) -> str:
    if "://" not in path and not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    if os.path.isdir(os.path.join(path, "_delta_log")):
        return "delta"
    for name in _names(path):
        for packed in _PACKED:
            name = name.removesuffix(packed)
        found = _READERS.get(os.path.splitext(name)[1].lower())
        if found is not None:
            return found
    raise ValueError(
        f"cannot tell what {path} is: its names end in none of {', '.join(_READERS)}; "
        f"say it by --format, one of {', '.join(_FORMATS)}"
    )


def _names(path: str) -> list[str]:
    """Return the names of the file, or of the files below the folder, in order."""
    if not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for _, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "_")))
        found += sorted(names)
    return found
