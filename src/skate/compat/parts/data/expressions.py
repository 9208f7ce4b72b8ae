"""Names of `ray.data.expressions` for what a list of expressions makes of the columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from skate.data.expressions import Expr, StarExpr, col


def exprlist_to_fields(exprs: Sequence[Expr], input_schema: pa.Schema) -> list[pa.Field] | None:
    """Return the columns of a selection, the last of each name; None if one is not known."""
    fields: dict[str | None, pa.Field] = {}
    for expression in expand_star_exprs(exprs, input_schema):
        field = expression.to_field(input_schema)
        if field is None:
            return None
        fields[expression.name] = field
    return list(fields.values())


def expand_star_exprs(exprs: Sequence[Expr], input_schema: pa.Schema | None) -> Sequence[Expr]:
    """Return the same with an expression for each column where all of them were meant."""
    if input_schema is None or not any(isinstance(each, StarExpr) for each in exprs):
        return exprs
    columns = [col(name) for name in input_schema.names]
    listed = [columns if isinstance(each, StarExpr) else [each] for each in exprs]
    return [each for some in listed for each in some]


def expand_projection_exprs(
    exprs: Sequence[Expr], input_schema: pa.Schema | None
) -> Sequence[Expr]:
    """Return the same with one expression per column where one stood for several."""
    return [one for each in exprs for one in each.expand_projection(input_schema)]


__all__ = ["expand_projection_exprs", "expand_star_exprs", "exprlist_to_fields"]
