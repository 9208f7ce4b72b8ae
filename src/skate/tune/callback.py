"""Who is told about a search, and when."""

from skate._run.callbacks import Callback, CallbackList

__all__ = ["Callback", "CallbackList"]
