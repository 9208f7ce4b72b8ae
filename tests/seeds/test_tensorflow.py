"""Models in TensorFlow in actors: only weights and gradients travel, never the graph.

TensorFlow is imported in the workers alone; the driver stays light.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import skate
from tests import oracle
from tests.leftovers import Picture, leftovers_since

pytestmark = [
    pytest.mark.leaves("one session for the whole file: importing TensorFlow takes seconds"),
]

#: Ray has dropped the spelling of the document.
differs = pytest.mark.differs_from_ray("num_return_vals is accepted")

Arrays = list[np.ndarray]


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """TensorFlow is imported once, in a fork server, and never in the driver."""
    before = Picture.take()
    imported = "tensorflow" in sys.modules  # other tests may have
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        if oracle.ACTIVE:
            oracle.share(num_cpus=2, num_gpus=1)
        else:
            from skate.engine.local.hub import servers

            # No warm Python: the server itself has to import it.
            patch.setattr(servers, "_python_of", lambda interpreter: sys.executable)
            skate.init(engine="local", num_cpus=2, num_gpus=1, preload=["tensorflow"])
        yield
    assert ("tensorflow" in sys.modules) == imported
    if not oracle.ACTIVE:
        skate.shutdown()
        assert not leftovers_since(before)


# -- a Keras model in an actor -------------------------------------------------------------------


def create_keras_model() -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((32,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.RMSprop(0.01),
        loss=tf.keras.losses.categorical_crossentropy,
        metrics=[tf.keras.metrics.categorical_accuracy],
    )
    return model


def random_one_hot_labels(shape: tuple[int, int]) -> np.ndarray:
    count, classes = shape
    return np.eye(classes)[np.random.randint(0, classes, count)]


class Network:
    def __init__(self) -> None:
        self.model = create_keras_model()
        self.dataset = np.random.random((1000, 32))
        self.labels = random_one_hot_labels((1000, 10))

    def train(self) -> Any:
        return self.model.fit(self.dataset, self.labels, verbose=0)

    def get_weights(self) -> Arrays:
        weights: Arrays = self.model.get_weights()
        return weights

    def set_weights(self, weights: Arrays) -> None:
        self.model.set_weights(weights)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        answer: np.ndarray = self.model.predict(inputs, verbose=0)
        return answer


def losses(history: Any) -> list[float]:
    found: list[float] = history.history["loss"]
    return found


def test_a_keras_model_trains_in_an_actor() -> None:
    network = skate.remote(Network).remote()
    before = skate.get(network.get_weights.remote())
    # What `fit` returns holds the model; another worker, not the driver, unpacks it.
    (loss,) = skate.get(skate.remote(losses).remote(network.train.remote()))
    after = skate.get(network.get_weights.remote())
    assert loss > 0
    assert [w.shape for w in after] == [w.shape for w in before]
    assert not np.array_equal(after[0], before[0])


def test_a_network_that_asks_for_a_gpu_runs_where_one_is_declared() -> None:
    network = skate.remote(num_gpus=1)(Network).remote()
    assert len(skate.get(network.get_weights.remote())) == 6


def test_networks_with_the_same_weights_answer_alike() -> None:
    first, second = (skate.remote(Network).remote() for _ in range(2))
    pair = skate.get([first.get_weights.remote(), second.get_weights.remote()])
    mean = skate.put([(a + b) / 2 for a, b in zip(*pair, strict=True)])
    skate.get([first.set_weights.remote(mean), second.set_weights.remote(mean)])
    inputs = np.random.random((5, 32))
    answers = skate.get([first.predict.remote(inputs), second.predict.remote(inputs)])
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5)


# -- data-parallel training by gradients ---------------------------------------------------------

BATCH_SIZE = 100
NUM_BATCHES = 2
NUM_ITERS = 201
LEARNING_RATE = 0.5


class Line:
    """y = w x + b on one batch of data."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        import tensorflow as tf

        self.x = tf.constant(x, dtype=tf.float32)
        self.y = tf.constant(y, dtype=tf.float32)
        self.w, self.b = tf.Variable([0.0]), tf.Variable([0.0])

    def step(self, weights: Arrays) -> Arrays:
        """The gradients at these weights."""
        import tensorflow as tf

        self.w.assign(weights[0])
        self.b.assign(weights[1])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.w * self.x + self.b - self.y))
        return [gradient.numpy() for gradient in tape.gradient(loss, [self.w, self.b])]


def generate_fake_x_y_data(num_data: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).random(num_data)
    return x, x * 0.1 + 0.3


def fake_data(seed: int) -> list[Any]:
    """Two references, asked for in the oldest spelling."""
    generate = skate.remote(num_return_vals=2)(generate_fake_x_y_data)
    refs: list[Any] = generate.remote(BATCH_SIZE, seed=seed)
    return refs


def mean_gradients(gradients: list[Arrays]) -> Arrays:
    return [np.mean(same, axis=0) for same in zip(*gradients, strict=True)]


@differs
def test_fake_data_comes_as_two_references() -> None:
    x, y = skate.get(fake_data(seed=1))
    np.testing.assert_allclose(y, x * 0.1 + 0.3)
    assert x.shape == (BATCH_SIZE,)


@differs
def test_gradients_of_several_actors_train_one_line() -> None:
    batches = [fake_data(seed=i) for i in range(NUM_BATCHES)]
    actors = [skate.remote(Line).remote(x, y) for x, y in batches]
    weights: Arrays = [np.zeros(1, np.float32), np.zeros(1, np.float32)]
    for _ in range(NUM_ITERS):
        shared = skate.put(weights)
        gradients = skate.get([actor.step.remote(shared) for actor in actors])
        steps = mean_gradients(gradients)
        weights = [w - LEARNING_RATE * g for w, g in zip(weights, steps, strict=True)]
    np.testing.assert_allclose(np.concatenate(weights), [0.1, 0.3], atol=0.01)


# -- what a fork inherits ------------------------------------------------------------------------


class Witness:
    """A network in a session of TensorFlow 1, in a process that was forked after the import."""

    def runs_tensorflow(self, with_an_operation: bool) -> bool:
        import tensorflow as tf

        from skate._core.tensorflow_processes import tensorflow_runs

        if with_an_operation:
            tf.constant(1) + 1
        return tensorflow_runs()

    def train(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        import tensorflow.compat.v1 as tf

        from skate.experimental.tf_utils import TensorFlowVariables

        with tf.Graph().as_default(), tf.Session() as session:
            w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
            step = tf.train.GradientDescentOptimizer(0.25).minimize(tf.reduce_sum(tf.square(w)))
            variables = TensorFlowVariables(w, session)
            variables.set_weights(weights)
            session.run(step)
            return variables.get_weights()


@pytest.mark.differs_from_ray("workers are forks of a process that has imported TensorFlow")
def test_workers_inherit_an_import_and_no_runtime() -> None:
    actors = [skate.remote(Witness).remote() for _ in range(4)]
    assert skate.get([actor.runs_tensorflow.remote(False) for actor in actors]) == [False] * 4
    weights = skate.put({"w": np.array([4.0, 8.0], np.float32)})
    for trained in skate.get([actor.train.remote(weights) for actor in actors]):
        assert trained["w"].tolist() == [2.0, 4.0]
    # A session starts the runtime as well as an operation does.
    assert skate.get([actor.runs_tensorflow.remote(False) for actor in actors]) == [True] * 4
    assert skate.get([actor.runs_tensorflow.remote(True) for actor in actors]) == [True] * 4
