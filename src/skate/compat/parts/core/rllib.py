"""`ray.rllib`: reinforcement learning is not offered.

Tests of Tune run the stand-in "__fake", which learns nothing, and make trials of algorithms.
"""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

from skate.tune import Trainable, register_trainable


class _Fake(Trainable):
    """Reports the same in each step, and fails in the second if `mock_error` says so: always, or,
    without `persistent_error`, until it is restored."""

    def setup(self, config: dict[str, object]) -> None:
        self.info: Any = None
        self.restored = False

    def step(self) -> dict[str, Any]:
        fails = self.config.get("mock_error") and self.iteration == 1
        if fails and (self.config.get("persistent_error") or not self.restored):
            raise RuntimeError("mock error")
        time.sleep(self.config.get("sleep", 0))
        return {
            "episode_reward_mean": 10,
            "episode_len_mean": 10,
            "timesteps_this_iter": 10,
            "info": {},
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        with open(os.path.join(checkpoint_dir, "info.pkl"), "wb") as file:
            pickle.dump(self.info, file)

    def load_checkpoint(self, checkpoint: Any) -> None:
        with open(os.path.join(checkpoint, "info.pkl"), "rb") as file:
            self.info = pickle.load(file)
        self.restored = True

    def set_info(self, info: object) -> Any:
        self.info = info
        return info

    def get_info(self, sess: object = None) -> Any:
        return self.info


class _NotOffered(Trainable):
    def setup(self, config: dict[str, object]) -> None:
        raise NotImplementedError("reinforcement learning is not offered; run this on Ray itself")


def _register_all() -> None:
    """Register names, with which trials can be made, and the stand-in, which can be run."""
    for algorithm in ("A2C", "APPO", "BC", "DQN", "IMPALA", "MARWIL", "PG", "PPO", "SAC"):
        register_trainable(algorithm, _NotOffered)
    register_trainable("__fake", _Fake)


_register_all()  # with Ray they are known without a call
