"""How much memory Polars may take before it spills to disk."""

from __future__ import annotations

import json
import os

_BUDGET = "POLARS_OOC_MEMORY_BUDGET_MB"


def bound_memory(most_bytes: int) -> None:
    """Let Polars spill what it holds above so many bytes, unless the environment says another
    number. Polars reads such settings from the environment only, where ours need not stay: it
    would reach all processes that are started later."""
    import polars

    if _BUDGET not in os.environ:
        settings = {_BUDGET: str(max(1, most_bytes >> 20))}
        try:
            polars.Config.load(json.dumps({"environment": settings}))
        finally:
            os.environ.pop(_BUDGET, None)
