"""Tianshou: environments of reinforcement learning, each in an actor."""

import gymnasium
import numpy as np
from tianshou.env import DummyVectorEnv, RayVectorEnv


def walk(kind: type) -> np.ndarray:
    environments = kind([lambda: gymnasium.make("CartPole-v1") for _ in range(4)])
    environments.reset(seed=1)
    for _ in range(5):
        seen, *_ = environments.step(np.zeros(4, dtype=int))
    environments.close()
    return seen


if __name__ == "__main__":
    assert np.array_equal(walk(RayVectorEnv), walk(DummyVectorEnv))
    print("4 environments, the same walk as in one process")
