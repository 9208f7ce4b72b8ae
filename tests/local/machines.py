"""State machines in random order: how many examples, and how a failure is replayed.

`SKATE_TEST_EXAMPLES=5000` looks for longer; a failure prints the steps that led to it, and a line
`@reproduce_failure(...)` to be put above the test; `--hypothesis-seed=N` repeats a whole run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("SKATE_TEST_EXAMPLES", "40"))

BOUNDED = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
