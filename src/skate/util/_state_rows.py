"""Rows of `skate.util.state`, and the filters that choose some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from skate._core.argument_checks import whole_number, wrong_type

MOST_ROWS = 10_000  # of one answer
Filters = Sequence[tuple[str, str, Any]]


class StateQueryError(ValueError):
    """More rows were asked for than an answer has, or by a column that there is not."""


class StateRow(dict[str, Any]):
    """One of the things that were asked for.

    Its kind says which columns every row has: `base` ones, and those that Ray shows with
    `detail` only. Rows may have more.
    """

    base: ClassVar[tuple[str, ...]] = ()
    more: ClassVar[tuple[str, ...]] = ()
    unfiltered: ClassVar[tuple[str, ...]] = ()  # what Ray does not filter by

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """Return the names of all columns, in order, or of those without `detail`."""
        return [*cls.base, *(cls.more if detail else ())]

    @classmethod
    def columns(cls) -> set[str]:
        """Return the names of all columns."""
        return {*cls.base, *cls.more}

    @classmethod
    def base_columns(cls) -> set[str]:
        """Return the names of the columns that Ray shows without `detail`."""
        return {*cls.base}

    @classmethod
    def detail_columns(cls) -> set[str]:
        """Return the names of all columns, as `columns` does: so it is in Ray."""
        return cls.columns()

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """Return the names of the columns that Ray filters by. Here all of them will do."""
        return cls.columns().difference(cls.unfiltered)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}, only {', '.join(self)}") from None

    def asdict(self) -> dict[str, Any]:
        """Return it as a plain dictionary."""
        return dict(self)


def completed(rows: Iterable[dict[str, Any]], kind: type[StateRow]) -> Iterator[StateRow]:
    """Yield rows of a kind with all of its columns: None where nothing is known."""
    nothing = dict.fromkeys(kind.list_columns())
    for row in rows:
        yield kind({**nothing, **row})


def chosen(
    rows: Iterable[dict[str, Any]],
    filters: Filters | None,
    limit: int,
    kind: type[StateRow] = StateRow,
) -> list[StateRow]:
    """Return the first rows that meet all filters, at most `limit`."""
    if whole_number("limit", limit, 0) > MOST_ROWS:
        raise StateQueryError(
            f"limit takes at most {MOST_ROWS}, and filters choose among more; got {limit}"
        )
    return [*islice(filtered(rows, filters, kind), limit)]


def filtered(
    rows: Iterable[dict[str, Any]], filters: Filters | None, kind: type[StateRow]
) -> Iterator[StateRow]:
    """Return the rows that meet all filters."""
    if not isinstance(filters, (list, tuple, type(None))):
        raise wrong_type("filters", filters, 'a list of triples like ("state", "=", "ALIVE")')
    wanted = [_checked(filter) for filter in filters or ()]
    complete = completed(rows, kind)
    first = [*islice(complete, 1)]
    _check_keys([key for key, _, _ in wanted], kind, first)
    return (row for row in chain(first, complete) if all(_fits(row, *one) for one in wanted))


def _checked(filter: object) -> tuple[str, bool, Any]:
    if not isinstance(filter, (tuple, list)) or len(filter) != 3 or not isinstance(filter[0], str):
        raise ValueError(f'a filter is a triple like ("state", "=", "ALIVE"); got {filter!r}')
    key, predicate, value = filter
    if predicate not in ("=", "!="):
        raise ValueError(f"a filter compares with '=' or '!='; got {filter!r}")
    return key.lower(), predicate == "=", value


def _check_keys(
    keys: Sequence[str], kind: type[StateRow], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Raise for keys that rows of the kind do not have, also if there are none; they may have
    more than their kind says."""
    columns = [*rows[0]] if rows else kind.list_columns()
    for key in keys:
        if key not in columns:
            raise StateQueryError(f"a filter takes one of {', '.join(columns)}; got {key!r}")


def _fits(row: Mapping[str, Any], key: str, equal: bool, value: object) -> bool:
    wanted, there = _comparable(value), row.get(key)
    if isinstance(there, bool):
        wanted = {"1": "true", "0": "false"}.get(wanted, wanted)
    return (_comparable(there) == wanted) is equal


def _comparable(value: object) -> str:
    """Return it as on a command line, where filters come from: 12 is "12", True is "true"."""
    return str(value).lower()
