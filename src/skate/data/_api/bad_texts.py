"""Finding the file whose text is not UTF-8, once it could not be converted.

To check each text when it is read would take a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from skate.data._arrow.undecodable import UndecodableTextError, undecodable_in
from skate.data._plan import nodes as plan
from skate.data.sources.files import FileSource

if TYPE_CHECKING:
    from skate.data._io.paths import File

T = TypeVar("T")

_LOOKED_AT = 256  # files; of others the error only has the names


def naming_files(items: Iterator[T], dataset: object) -> Iterator[T]:
    """Yield the items; errors about texts say which file these are in.

    Args:
        items: What is converted from blocks of the dataset.
        dataset: Whose they are: a dataset, or what has none.
    """
    try:
        yield from items
    except UndecodableTextError as error:
        raise with_files(error, dataset) from error.__cause__


def with_files(error: UndecodableTextError, dataset: object) -> UndecodableTextError:
    """Return the error, which says what file it is about, or what files it may be in.

    Args:
        error: The error.
        dataset: What was converted: a dataset, or what has none.
    """
    files = _files_of(getattr(dataset, "_plan", None), error.column)
    return UndecodableTextError(error.column, error.reason, files)


def _files_of(node: Any, column: str) -> list[str]:
    """Return the file that has the text, or else all that it may be in."""
    if isinstance(node, plan.Read) and isinstance(node.source, FileSource):
        files = node.source.place.files
        found = [file for file in files[:_LOOKED_AT] if _has_it(node.source, file, column)][:1]
        return [file.path for file in found or files]
    if isinstance(node, plan.Input):
        return list(node.files)
    return [path for inner in getattr(node, "inputs", ()) for path in _files_of(inner, column)]


def _has_it(source: FileSource, file: File, column: str) -> bool:
    for block in source.reader([file]).read():
        bad = undecodable_in(block)
        if bad is not None:
            return bad.column == column or column not in block.column_names
    return False
