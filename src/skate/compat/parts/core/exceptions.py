"""Of `ray.exceptions`: errors of machinery that only Ray has, for those who catch them."""

from __future__ import annotations

from skate.exceptions import (
    GetTimeoutError,
    GraphClosedError,
    GraphFullError,
    ObjectLostError,
    SkateError,
    SkateSystemError,
)


class AuthenticationError(SkateError):
    """A cluster does not know the token."""


class CrossLanguageError(SkateError):
    """Raised by Java or C++."""


class LocalRayletDiedError(SkateError):
    """The daemon of a node has died."""


class RpcError(SkateError):
    """A message did not arrive."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """An object went before its last reference."""


# Compiled graphs have no channels here: they end, and what is waited for is a reference.
RayChannelError = GraphClosedError
RayChannelTimeoutError = GetTimeoutError
RayCgraphCapacityExceeded = GraphFullError


class StreamingGeneratorReplayInconsistentError(SkateError):
    """A generator that ran again gave other values."""


class RayDirectTransportError(SkateSystemError):
    """GPUs could not talk to each other."""
