"""Own ways to serialise a class."""

from __future__ import annotations

from skate._core.serialization import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
