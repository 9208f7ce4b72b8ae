"""What happens when a user's function raises: the settings of Ray that try again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate._core.retries import matches
from skate.data._settings.context import DataContext


@dataclass(frozen=True)
class Retries:
    """Which errors of a function or class are worth another call, and how often."""

    types: tuple[type[BaseException], ...] = ()  # without end, as Ray does for classes
    patterns: (
        tuple[str, ...] | None
    ) = ()  # parts of the message, or regular expressions; None: all
    limit: int = 0
    constructor_limit: int = 0

    @classmethod
    def from_settings(cls, is_class: bool) -> Retries:
        context = DataContext.get_current()
        patterns = context.retried_map_errors
        return cls(
            _types(context.actor_task_retry_on_errors) if is_class else (),
            None if patterns is True else tuple(patterns or ()),
            context.max_map_retries,
            context.actor_init_max_retries if context.actor_init_retry_on_errors else 0,
        )

    def again(self, error: Exception, failures: int) -> bool:
        """Return whether to call again after so many failures in a row, the last of which was
        `error`."""
        if isinstance(error, self.types):
            return True
        return failures <= self.limit and self._matches(str(error))

    def _matches(self, message: str) -> bool:
        return self.patterns is None or matches(self.patterns, message)

    def construct_again(self, failures: int) -> bool:
        """Return whether to try a constructor again; a limit below 0 means without end."""
        return self.constructor_limit < 0 or failures <= self.constructor_limit


def _types(errors: Any) -> tuple[type[BaseException], ...]:
    """Read `actor_task_retry_on_errors`: True means all errors, or a list names their classes."""
    if not errors:
        return ()
    return (Exception,) if errors is True else tuple(errors)
