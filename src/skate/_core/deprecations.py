"""The warning about what will go, for code that is no longer a part of Ray's interface."""

import warnings


class RayDeprecationWarning(DeprecationWarning):
    """Something will go."""


def warn_of_use(name: str, instead: str) -> None:
    """Warn whoever uses what calls this.

    Args:
        name: What is used.
        instead: What to use.
    """
    text = f"{name} is deprecated. Use {instead} instead"
    warnings.warn(text, RayDeprecationWarning, stacklevel=3)
