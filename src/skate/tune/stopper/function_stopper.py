"""A function of the user's decides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate._run.types import ResultRow
from skate.tune.error import TuneError
from skate.tune.stopper.stopper import Stopper


class FunctionStopper(Stopper):
    """End a trial when a function says so.

    Args:
        function: Of the trial's id and its result.
    """

    def __init__(self, function: Callable[[str, dict[str, object]], bool]) -> None:
        try:
            inspect.signature(function).bind("trial_id", {})
        except TypeError as error:
            raise TuneError(
                f"stop takes a function of (trial_id, result); {function!r}: {error}"
            ) from error
        except ValueError:  # a builtin, which does not tell
            pass
        self._fn = function

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        return bool(self._fn(trial_id, result))

    def stop_all(self) -> bool:
        return False

    @classmethod
    def is_valid_function(cls, fn: Any) -> bool:
        """Return whether it is a function, and not a stopper with a `stop_all` of its own.

        Args:
            fn: What was given to stop trials.

        Raises:
            ValueError: If it is neither of them.
        """
        is_function = callable(fn) and not isinstance(fn, Stopper)
        if is_function and hasattr(fn, "stop_all"):
            raise ValueError(f"a stopper must inherit from tune.Stopper; {fn!r} does not")
        return is_function
