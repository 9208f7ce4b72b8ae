"""Workers that the tasks of a dataset will need, announced as early as that is known."""

from __future__ import annotations

from skate._facade.early_start import expect_work

# What a task is made of: the steps, and the sources that most tasks read.
_ALWAYS = (
    "skate.data._execution.stages",
    "skate.data.sources.documents",
    "skate.data.sources.parquet",
)


def expect_tasks(*modules: str) -> None:
    """Have workers begin with what tasks of datasets are made of, and with these modules."""
    expect_work([*_ALWAYS, *modules], more_at_once=False)
