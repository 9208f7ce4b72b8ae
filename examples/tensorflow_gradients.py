"""Data-parallel training with gradients, in sessions of TensorFlow 1 as well as today.

Each actor holds a network and its part of the data. The driver sends weights, gets gradients,
applies their mean to a network of its own, and sends the new weights. Only arrays travel.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

import skate
from skate.experimental.tf_utils import TensorFlowVariables

BATCH_SIZE = 100
NUM_BATCHES = 2
NUM_ITERS = 201


class Network:
    """y = w x + b on one batch of data."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        tf.set_random_seed(0)
        w = tf.Variable(tf.random_uniform([1], -1.0, 1.0))
        b = tf.Variable(tf.zeros([1]))
        predicted = w * tf.constant(x, tf.float32) + b
        loss = tf.reduce_mean(tf.square(predicted - tf.constant(y, tf.float32)))
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        self.grads = optimizer.compute_gradients(loss)
        self.apply = optimizer.apply_gradients(self.grads)
        self.sess = tf.Session()
        self.variables = TensorFlowVariables(loss, self.sess)
        self.sess.run(tf.global_variables_initializer())

    def step(self, weights: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The gradients at these weights."""
        self.variables.set_weights(weights)
        gradients: list[np.ndarray] = self.sess.run([gradient for gradient, _ in self.grads])
        return gradients

    def train(self, gradients: list[np.ndarray]) -> None:
        """Apply gradients that others have computed."""
        symbols = [gradient for gradient, _ in self.grads]
        self.sess.run(self.apply, feed_dict=dict(zip(symbols, gradients, strict=True)))

    def get_weights(self) -> dict[str, np.ndarray]:
        return self.variables.get_weights()


@skate.remote(num_returns=2)
def generate_data(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).random(count)
    return x, x * 0.1 + 0.3


def mean(gradients: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [np.mean(of_one_variable, axis=0) for of_one_variable in zip(*gradients, strict=True)]


def main() -> None:
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()  # holds in the actors as well
    batches = [generate_data.remote(BATCH_SIZE, seed) for seed in range(NUM_BATCHES)]
    remote_network: Any = skate.remote(Network)
    actors = [remote_network.remote(x, y) for x, y in batches]
    local = Network(*skate.get(generate_data.remote(BATCH_SIZE, NUM_BATCHES)))
    for iteration in range(NUM_ITERS):
        # Put once, read by all: passing the weights themselves would store a copy per call.
        weights = skate.put(local.get_weights())
        local.train(mean(skate.get([actor.step.remote(weights) for actor in actors])))
        if iteration % 40 == 0:
            w, b = local.get_weights().values()
            print(f"iteration {iteration:3}: w = {w[0]:.4f}, b = {b[0]:.4f}")


if __name__ == "__main__":
    skate.init()
    main()
