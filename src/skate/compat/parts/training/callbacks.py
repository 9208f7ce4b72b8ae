"""`ray.train.v2._internal`: who is told about runs, also by the environment."""

from __future__ import annotations

from skate._run.callbacks import UserCallback
from skate._run.environment_callbacks import callbacks_for_training

RayTrainCallback = UserCallback
_initialize_env_callbacks = callbacks_for_training
