"""Errors of training."""

from skate._run.session import SessionMisuseError

__all__ = ["SessionMisuseError"]
