"""Expressions on columns: `col("x") * 2 + 1`, `col("name").str.upper()`, `col("x") > 3`."""

from skate._core.public_names import name_publicly
from skate.data._expressions.expression import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    UnaryExpr,
    col,
    lit,
)
from skate.data._expressions.functions import UDFExpr, pyarrow_udf, udf
from skate.data._expressions.generated import (
    DownloadExpr,
    MonotonicallyIncreasingIdExpr,
    RandomExpr,
    StarExpr,
    UnnestExpr,
    UUIDExpr,
    download,
    monotonically_increasing_id,
    random,
    star,
    unnest,
    uuid,
)
from skate.data._expressions.operations import Operation
from skate.data._expressions.steps import FilterStep, WithColumns, set_column

__all__ = [
    "AliasExpr", "BinaryExpr", "ColumnExpr", "DownloadExpr", "Expr", "FilterStep", "LiteralExpr",
    "MonotonicallyIncreasingIdExpr", "Operation", "RandomExpr", "StarExpr", "UDFExpr", "UUIDExpr",
    "UnaryExpr", "UnnestExpr", "WithColumns", "col", "download", "lit",
    "monotonically_increasing_id", "pyarrow_udf", "random", "set_column", "star", "udf", "unnest",
    "uuid",
]  # fmt: skip

name_publicly(__name__)
