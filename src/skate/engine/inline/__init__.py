"""The inline engine: everything in this process and thread, for debuggers and unit tests."""

from skate.engine.inline.engine import InlineEngine

__all__ = ["InlineEngine"]
