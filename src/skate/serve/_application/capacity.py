"""A part of what applications are given: `target_capacity` of config files.

A new instance beside an old one takes over step by step: its config says 20, then 50, then 100,
while that of the old one says less and less.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from skate.serve._application.options import DeploymentOptions
from skate.serve._application.specs import ApplicationSpec

_WHOLE = 100


def at_capacity(spec: ApplicationSpec, percent: float | None) -> ApplicationSpec:
    """Return the application with so much of its replicas; None is all of them."""
    if percent is None or percent == _WHOLE:
        return spec
    deployments = tuple(
        each._replace(options=_options(each.options, percent)) for each in spec.deployments
    )
    return spec._replace(deployments=deployments)


def _options(options: DeploymentOptions, percent: float) -> DeploymentOptions:
    replicas = _part_of(options.num_replicas, percent)
    scaling = options.autoscaling
    if scaling is None:
        return options._replace(num_replicas=replicas)
    if percent == 0:
        return options._replace(num_replicas=0, autoscaling=None)
    fields = ("min_replicas", "initial_replicas", "max_replicas")
    given = {name: getattr(scaling, name) for name in fields}
    parts = {name: _part_of(n, percent) for name, n in given.items() if n is not None}
    return options._replace(num_replicas=replicas, autoscaling=scaling.copy(update=parts))


def _part_of(replicas: int, percent: float) -> int:
    """Return the nearest whole number, but for a part of something at least one."""
    if not replicas or not percent:
        return 0
    part = Decimal(replicas) * Decimal(str(percent)) / _WHOLE
    return max(1, int(part.quantize(Decimal(1), rounding=ROUND_HALF_UP)))
