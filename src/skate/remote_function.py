"""Ray's path to remote functions."""

from skate._remote import RemoteFunction

__all__ = ["RemoteFunction"]
