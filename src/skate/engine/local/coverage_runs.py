"""Whether line coverage is measured, also in processes that the program starts."""

from __future__ import annotations

import os
from collections.abc import Mapping

# By which coverage.py and pytest-cov tell processes what to measure.
_VARIABLES = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "COV_CORE_SOURCE")


def is_measured(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether processes write down what they have run when they end, and so must not be
    killed."""
    return any(environ.get(name) for name in _VARIABLES)
