"""Ray's path to the backend of joblib."""

from skate.util.joblib._backend import SkateBackend

RayBackend = SkateBackend  # Ray's name

__all__ = ["RayBackend"]
