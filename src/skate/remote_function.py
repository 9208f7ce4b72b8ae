"""Ray's path to remote functions."""

from skate._facade.remote import RemoteFunction

__all__ = ["RemoteFunction"]
