"""SQL over datasets, by Polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import without_extensions
from skate.data._arrow.plain_types import with_plain_types
from skate.data._execution.bundles import Bundle, even_bundles, table_of
from skate.data._execution.partitions import Streams, collect
from skate.data._plan import nodes as plan

if TYPE_CHECKING:
    from skate.data._settings.context import DataContext
    from skate.data.dataset import Dataset

SELF = "self"  # the dataset whose method was called
_PLAN_OF_POLARS = "Resolved plan until failure"


@dataclass(frozen=True, eq=False)
class Sql(plan.Exchange):
    """The result of a query; its inputs are the tables of these names."""

    names: tuple[str, ...] = ()
    query: str = ""

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        polars = try_import("polars", "data")
        frames, blocks = {}, 1
        for name, stream in zip(self.names, streams, strict=True):
            buffer = collect(stream, context.sort_memory_bytes)
            blocks = max(blocks, len(buffer.bundles))
            table = without_extensions(table_of(buffer.bundles))
            frames[name] = polars.from_arrow(table, rechunk=False).lazy()
        try:
            found = polars.SQLContext(frames).execute(self.query).collect(engine="streaming")
        except polars.exceptions.PolarsError as error:
            raise self._refusal(str(error)) from None
        table = with_plain_types(found.to_arrow(), dictionaries=True)
        yield from even_bundles(table, blocks)

    def _refusal(self, said: str) -> ValueError:
        """Return the error for what Polars said, without the plan that it adds to it."""
        reason = " ".join(said.partition(_PLAN_OF_POLARS)[0].split())
        return ValueError(
            f"the query cannot be answered: {reason.rstrip('.')}. The tables are "
            f"{', '.join(self.names)}; the SQL is that of Polars, where a column that is called "
            'like a word of SQL is put into double quotes, as in t."user"'
        )


def queried(query: str, datasets: Mapping[str, Any]) -> Dataset:
    """Return the result of a query over datasets, as a dataset that is computed when it is used.

    Raises:
        TypeError: If the query is no text, or what is called a table is no dataset.
    """
    from skate.data.dataset import Dataset

    if not isinstance(query, str):
        raise TypeError(f"sql takes a query as text; got {query!r}")
    if not datasets:
        raise ValueError("sql needs datasets to ask, by name: sql('select ...', t=dataset)")
    for name, each in datasets.items():
        if not isinstance(each, Dataset):
            raise TypeError(f"the table {name!r} of a query is a dataset; got {each!r}")
    node = Sql(tuple(each._plan for each in datasets.values()), tuple(datasets), query)
    first: Dataset = next(iter(datasets.values()))
    return first._with(node)
