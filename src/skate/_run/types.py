"""Names for what travels between loops, trials and those who look at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = dict[str, Any]
"""The configuration of a loop or a trial; before it is resolved, also a search space."""

ResultRow = dict[str, Any]
"""One result: what was reported, and what is filled in, as `training_iteration`."""

MetricsLike = Mapping[str, Any]
"""A result, or metrics, that is only looked at."""

Positions = dict[str, Any]
"""How far a worker has read its datasets, by name: places in epochs, as train/_shards.py says."""
