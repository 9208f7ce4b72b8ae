"""What reports of load to the controller have in common, from whichever process."""

from __future__ import annotations

LONGEST_INTERVAL_SECONDS = 1.0  # between reports, while there is something that policies decide by
