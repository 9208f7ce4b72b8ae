"""What programs that `import ray` find in their logs when a function of theirs fails."""

from __future__ import annotations

import logging

from skate._core.optional_imports import ray_is_skate
from skate.exceptions import TaskError

_logger = logging.getLogger("ray.data.exceptions")


def report(error: Exception) -> None:
    """Log an error of a user's function where Ray does, for those who look there.

    The error is raised as well: where nobody listens, once is enough.
    """
    if ray_is_skate() and isinstance(error, TaskError) and _logger.hasHandlers():
        _logger.error("Exception occurred in user code: %s", type(error.cause).__name__)
        _logger.error("Full stack trace:\n%s", error)
