"""The calls that a request makes: they end with it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.serve.context import RequestContext


def cancel_children(request: RequestContext) -> None:
    """Cancel the calls that a request made which was cancelled."""
    for response in request.children:
        response.cancel()


def settle_children(request: RequestContext) -> None:
    """Cancel the calls of a request whose code was cancelled and took no notice, or ended well
    all the same. Before Python 3.11, nobody knows of that."""
    task = asyncio.current_task() if request.children else None
    if task is not None and sys.version_info >= (3, 11) and task.cancelling():
        cancel_children(request)
