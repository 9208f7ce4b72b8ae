"""Dataset: files."""

from __future__ import annotations

from skate.data._consuming import Consuming


class Writing(Consuming):
    """Files of the dataset's rows."""
