"""Weight averaging: networks that train apart and meet in the middle.

Each actor has its own network and its own part of the data, and trains for a while. Then the
weights are averaged, and everybody goes on from the mean. Compared with sending gradients, the
networks talk once per round instead of once per step. The driver needs no TensorFlow.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import skate

NETWORKS = 3
ROUNDS = 5

Weights = dict[str, np.ndarray]


def make_data(seed: int, count: int = 256) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True))


@skate.remote
class Network:
    def __init__(self, seed: int) -> None:
        import tensorflow as tf

        from skate.experimental.tf_utils import TensorFlowVariables

        tf.keras.utils.set_random_seed(seed)
        layers = tf.keras.layers
        self.model = tf.keras.Sequential(
            [layers.Input((4,)), layers.Dense(32, activation="tanh"), layers.Dense(1)]
        )
        self.model.compile(tf.keras.optimizers.Adam(0.02), "mse")
        self.variables = TensorFlowVariables(self.model)
        self.inputs, self.targets = make_data(seed)

    def train(self, weights: Weights) -> Weights:
        """A round of training from these weights; the weights after it."""
        self.variables.set_weights(weights)
        self.model.fit(self.inputs, self.targets, epochs=4, batch_size=64, verbose=0)
        return self.variables.get_weights()

    def get_weights(self) -> Weights:
        return self.variables.get_weights()

    def loss(self, weights: Weights) -> float:
        """On data that no network has seen."""
        self.variables.set_weights(weights)
        return float(self.model.evaluate(*make_data(seed=1000), verbose=0))


def mean(all_weights: list[Weights]) -> Weights:
    return {name: np.mean([w[name] for w in all_weights], axis=0) for name in all_weights[0]}


def main() -> None:
    networks = [Network.remote(seed) for seed in range(NETWORKS)]
    weights = skate.get(networks[0].get_weights.remote())
    first = skate.get(networks[0].loss.remote(weights))
    for _ in range(ROUNDS):
        shared = skate.put(weights)  # one copy in shared memory, read by all
        weights = mean(skate.get([network.train.remote(shared) for network in networks]))
    last = skate.get(networks[0].loss.remote(weights))
    print(f"loss {first:.3f} -> {last:.3f}")
    print("averaging helps" if last < first / 2 else "averaging does not help")


if __name__ == "__main__":
    skate.init(preload=["tensorflow"])  # imported once; actors are forks of it
    main()
