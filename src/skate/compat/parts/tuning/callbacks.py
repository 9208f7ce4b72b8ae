"""`ray.tune.utils.callback`: the callbacks that the environment names."""

from __future__ import annotations

from skate._run.callbacks import Callback
from skate._run.environment_callbacks import callbacks_for_tuning

__all__ = ["Callback"]

_initialize_env_callbacks = callbacks_for_tuning
