"""Expressions on columns: `col("x") * 2 + 1`, `col("name").str.upper()`, `col("x") > 3`."""

from skate._core.public_names import name_publicly
from skate.data._expressions.expression import (
    Expr,
    FilterStep,
    WithColumns,
    col,
    lit,
    pyarrow_udf,
    set_column,
    udf,
)
from skate.data._expressions.generated import (
    download,
    monotonically_increasing_id,
    random,
    star,
    unnest,
    uuid,
)

__all__ = [
    "Expr", "FilterStep", "WithColumns", "col", "download", "lit", "monotonically_increasing_id",
    "pyarrow_udf", "random", "set_column", "star", "udf", "unnest", "uuid",
]  # fmt: skip

name_publicly(__name__)
