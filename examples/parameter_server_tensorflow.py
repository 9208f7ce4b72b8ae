"""A parameter server for a Keras network, synchronous and asynchronous.

Workers compute gradients on their own batches; the server owns the weights and applies the
gradients. Synchronous: all workers compute at the same weights, and the server applies the mean.
Asynchronous: the server applies each gradient when it comes, so a slow worker holds nobody up.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import skate

WORKERS = 2
STEPS = 60

Arrays = list[np.ndarray]


def make_model() -> Any:
    import tensorflow as tf

    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [layers.Input((4,)), layers.Dense(16, activation="tanh"), layers.Dense(1)]
    )


def make_batch(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    inputs = random.normal(size=(64, 4)).astype(np.float32)
    return inputs, np.tanh(inputs.sum(axis=1, keepdims=True))


@skate.remote
class ParameterServer:
    def __init__(self) -> None:
        import tensorflow as tf

        self.model = make_model()
        self.optimizer = tf.keras.optimizers.Adam(0.02)

    def apply(self, *gradients: Arrays) -> Arrays:
        """Apply the mean of one or more gradients; the new weights."""
        means = [np.mean(parts, axis=0) for parts in zip(*gradients, strict=True)]
        self.optimizer.apply_gradients(zip(means, self.model.trainable_variables, strict=True))
        return self.get_weights()

    def get_weights(self) -> Arrays:
        weights: Arrays = self.model.get_weights()
        return weights

    def loss(self) -> float:
        inputs, targets = make_batch(np.random.default_rng(1000))
        return float(np.mean((self.model(inputs).numpy() - targets) ** 2))


@skate.remote
class Worker:
    def __init__(self, seed: int) -> None:
        self.model = make_model()
        self.random = np.random.default_rng(seed)

    def gradients(self, weights: Arrays) -> Arrays:
        import tensorflow as tf

        self.model.set_weights(weights)
        inputs, targets = make_batch(self.random)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(inputs) - targets))
        return [g.numpy() for g in tape.gradient(loss, self.model.trainable_variables)]


def train_synchronously(server: Any, workers: list[Any]) -> None:
    weights = server.get_weights.remote()
    for _ in range(STEPS // len(workers)):
        weights = server.apply.remote(*[worker.gradients.remote(weights) for worker in workers])
    skate.get(weights)


def train_asynchronously(server: Any, workers: list[Any]) -> None:
    weights = server.get_weights.remote()
    pending = {worker.gradients.remote(weights): worker for worker in workers}
    for _ in range(STEPS):
        (gradients,), _ = skate.wait(list(pending))
        worker = pending.pop(gradients)
        pending[worker.gradients.remote(server.apply.remote(gradients))] = worker
    skate.get(list(pending))


def main() -> None:
    workers = [Worker.remote(seed) for seed in range(WORKERS)]
    for train in (train_synchronously, train_asynchronously):
        server = ParameterServer.remote()
        before = skate.get(server.loss.remote())
        train(server, workers)
        after = skate.get(server.loss.remote())
        print(f"{train.__name__}: {'learned' if after < before / 4 else 'did not learn'}")


if __name__ == "__main__":
    skate.init(preload=["tensorflow"])  # imported once; actors are forks of it
    main()
