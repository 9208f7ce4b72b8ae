"""A parameter server: workers compute gradients, one actor holds the weights.

Fits a straight line. The weights travel through shared memory; the workers are asynchronous, so a
slow one holds nobody up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import skate

TRUE_WEIGHTS = np.array([2.0, -3.0, 0.5])


@skate.remote
class ParameterServer:
    def __init__(self, size: int, rate: float) -> None:
        self.weights = np.zeros(size)
        self.rate = rate

    def apply(self, gradient: np.ndarray) -> np.ndarray:
        self.weights = self.weights - self.rate * gradient
        return self.weights

    def get_weights(self) -> np.ndarray:
        return self.weights


@skate.remote
class Worker:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        inputs = self.random.normal(size=(64, len(weights)))
        errors = inputs @ weights - inputs @ TRUE_WEIGHTS
        slope: np.ndarray = inputs.T @ errors / len(inputs)
        return slope


def train(workers: int, steps: int) -> np.ndarray:
    server = ParameterServer.remote(len(TRUE_WEIGHTS), rate=0.2)
    weights = server.get_weights.remote()
    # Each pending gradient is known by its reference: that is how we know whose turn it is next.
    pending: dict[Any, Any] = {}
    for seed in range(workers):
        worker = Worker.remote(seed)
        pending[worker.gradient.remote(weights)] = worker
    for _ in range(steps):
        (gradient,), _ = skate.wait(list(pending))
        worker = pending.pop(gradient)
        pending[worker.gradient.remote(server.apply.remote(gradient))] = worker
    fitted: np.ndarray = skate.get(server.get_weights.remote())
    return fitted


if __name__ == "__main__":
    skate.init()
    found = train(workers=2, steps=300)
    print("true  ", np.round(TRUE_WEIGHTS, 2))
    print("fitted", np.round(found, 2))
