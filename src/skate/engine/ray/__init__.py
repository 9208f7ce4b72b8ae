"""The ray engine: a Ray cluster does the work."""

from skate.engine.ray.connection import connect, inside_worker
from skate.engine.ray.engine import RayEngine

__all__ = ["RayEngine", "connect", "inside_worker"]
