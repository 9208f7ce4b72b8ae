"""What a client of a cluster has in place of references and handles: there is none of it here.

Programs ask `isinstance(value, (ray.ObjectRef, ClientObjectRef))`.
"""

from __future__ import annotations


class ClientObjectRef:
    """A reference to an object of another machine."""


class ClientActorRef:
    """A reference to an actor of another machine."""


class ClientActorHandle:
    """A handle of an actor of another machine."""


__all__ = ["ClientActorHandle", "ClientActorRef", "ClientObjectRef"]
