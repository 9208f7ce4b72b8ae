"""Plans that give the same rows with less work.

limit below one-to-one functions          they run on the rows that are wanted only
limit of a limit                          the smaller one
column selection and filters into reads   what is not wanted is not read
"""

from __future__ import annotations

from dataclasses import replace

from skate.data._execution.transforms import SelectColumns
from skate.data._plan import nodes as plan
from skate.data.expressions import FilterStep


def optimise(node: plan.Node) -> plan.Node:
    """Rewrite from the sources upwards."""
    if isinstance(node, plan.Map):
        return _map(replace(node, input=optimise(node.input)))
    if isinstance(node, plan.Limit):
        return _limit(node.limit, optimise(node.input))
    if isinstance(node, plan.Exchange):
        return replace(node, children=tuple(optimise(child) for child in node.children))
    return node


def _limit(limit: int, below: plan.Node) -> plan.Node:
    if isinstance(below, plan.Limit):
        return _limit(min(limit, below.limit), below.input)
    if isinstance(below, plan.Map) and below.keeps_rows and below.compute is not None:
        return replace(below, input=_limit(limit, below.input))
    return plan.Limit(below, limit)


def _map(node: plan.Map) -> plan.Node:
    below = node.input
    if not isinstance(below, plan.Read):
        return node
    source = None
    if isinstance(node.step, SelectColumns):
        source = below.source.only_columns(node.step.columns)
    elif isinstance(node.step, FilterStep):
        source = below.source.with_filter(node.step.expression)
    return node if source is None else replace(below, source=source)
