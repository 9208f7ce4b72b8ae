"""The warning about what will go, for code that is no longer a part of Ray's interface."""


class RayDeprecationWarning(DeprecationWarning):
    """Something will go."""
