"""Who may ask: those who know the token, by HTTP and by gRPC."""

from __future__ import annotations

import hmac
from collections.abc import Sequence


def has_token(authorization: Sequence[bytes], token: bytes) -> bool:
    """Return whether a request has the token; how long this takes tells nothing about it.

    Args:
        authorization: The values of its header, or metadata, `authorization`.
        token: What a client has to know.
    """
    only = authorization[0] if len(authorization) == 1 else b""
    scheme, _, credentials = only.partition(b" ")
    matches = hmac.compare_digest(credentials.strip(), token)
    return matches and scheme.lower() == b"bearer"
