"""Bodies of requests that another process answers: it asks for them, piece by piece.

    process that has the connection                  replica that answers
      forward ── scope, first piece, reference ─────► respond
      Upload  ◄───────────── read_upload(key, n) ──── ForwardedBody.receive
              ─────────────────── piece n ──────────►

A piece is read from the connection when it is asked for: nobody keeps more than one, however large
the body, and the code that answers sees each as soon as it has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import skate
from skate.exceptions import ActorError
from skate.serve._http.answers import Message, Receive
from skate.serve._identity import NAMESPACE
from skate.serve.exceptions import SkateServeError

_uploads: dict[str, Upload] = {}  # whose connections this process has


class UploadReference(NamedTuple):
    """Where the rest of a body is."""

    actor: str  # the name of the one whose process has the connection
    key: str


class Upload:
    """A body that others read from a connection of this process."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._position = 1  # of the next piece; the first one went along with the request
        self._is_over = asyncio.Event()

    async def read(self, position: int) -> Message:
        """Return the next piece, or that there will be none.

        Raises:
            SkateServeError: If the piece was given to a replica that is gone.
        """
        if position != self._position:
            raise SkateServeError(
                "the replica that was reading this upload is gone, and what it had read cannot "
                "be read again: send the request again"
            )
        self._position += 1
        piece = asyncio.ensure_future(self._receive())
        over = asyncio.ensure_future(self._is_over.wait())
        try:
            await asyncio.wait((piece, over), return_when=asyncio.FIRST_COMPLETED)
            return dict(piece.result()) if piece.done() else {"type": "http.disconnect"}
        finally:
            piece.cancel()
            over.cancel()

    def end(self) -> None:
        """Give nothing more to those who still ask."""
        self._is_over.set()


@contextlib.contextmanager
def offered(actor: str, receive: Receive) -> Iterator[UploadReference]:
    """Let others read a body from this process, which `actor` is in."""
    key = uuid.uuid4().hex
    upload = _uploads[key] = Upload(receive)
    try:
        yield UploadReference(actor, key)
    finally:
        del _uploads[key]
        upload.end()


async def read_upload(key: str, position: int) -> Message:
    """Return a piece of a body whose connection this process has."""
    upload = _uploads.get(key)
    return {"type": "http.disconnect"} if upload is None else await upload.read(position)


class ForwardedBody:
    """The body of a request that arrived at another process."""

    def __init__(self, first: bytes, rest: UploadReference | None) -> None:
        self._rest = rest
        self._position = 0
        self._next: Message = {
            "type": "http.request",
            "body": first,
            "more_body": rest is not None,
        }
        self._reading: asyncio.Task[Message] | None = None

    async def receive(self) -> Message:
        """Return the next piece, as ASGI has it; after the last one, never."""
        if self._position > 0:
            if not self._next.get("more_body"):
                await asyncio.Event().wait()
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read(self._position))
            # What is being read is for the next one who asks, if this one asks no longer.
            self._next = await asyncio.shield(self._reading)
            self._reading = None
        self._position += 1
        return self._next

    async def _read(self, position: int) -> Message:
        assert self._rest is not None
        try:
            source = skate.get_actor(self._rest.actor, namespace=NAMESPACE)
            piece: Message = await source.read_upload.remote(self._rest.key, position)
        except (ActorError, ValueError):  # it is gone, and its connections with it
            return {"type": "http.disconnect"}
        return piece

    def end(self) -> None:
        """Ask for nothing more."""
        if self._reading is not None:
            self._reading.cancel()
