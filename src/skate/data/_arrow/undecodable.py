"""Columns of text that is not UTF-8: Arrow takes whatever bytes a file has, Python does not."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_NAMED_FILES = 5


class UndecodableTextError(ValueError):
    """A column of text has bytes that are not UTF-8.

    Args:
        column: The column.
        reason: What was found.
        files: Where it comes from; the file itself, if that is known.

    Attributes:
        column: The column.
    """

    def __init__(self, column: str, reason: str, files: Iterable[str] = ()) -> None:
        names = list(files)
        places = ", ".join(names[:_NAMED_FILES])
        more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
        where = f" of {places}{more}" if names else ""
        super().__init__(
            f"the text in column {column!r}{where} is not UTF-8 ({reason}). Write it again as "
            "UTF-8, or read the other columns only: select_columns(), or columns= of the reader"
        )
        self.column = column
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (str(self), self.column, self.reason)


def _restored(message: str, column: str, reason: str) -> UndecodableTextError:
    error = UndecodableTextError(column, reason)
    error.args = (message,)
    return error


def undecodable_in(block: pa.Table) -> UndecodableTextError | None:
    """Return what is wrong with the first column of a block whose text is not UTF-8.

    Args:
        block: What could not be converted.
    """
    for name, column in zip(block.column_names, block.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            return UndecodableTextError(name, str(error))
    return None
