"""TensorFlow side by side: weights between two actors, and the gradient example, start included.

    scripts/bench tensorflow              both
    scripts/bench tensorflow --no-ray     without Ray
    scripts/bench tensorflow --only weights

Every number comes from a process of its own; it is the ratios that count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 3

START = {
    "skate": "import skate as system\nsystem.init(num_cpus=2)\n",
    # The bare part: TensorFlow in one process, with no other beside it.
    "inline": "import skate as system\nsystem.init(num_cpus=2, engine='inline')\n",
    "ray": (
        "import ray as system\n"
        "system.init(num_cpus=2, include_dashboard=False, log_to_driver=False)\n"
    ),
}

# One network of 100 MB per actor. The best of several rounds; before each, in that process, the
# time of two copies of as many bytes, between arrays that are there already.
WEIGHTS = """
import json, time
import numpy as np

class Network:
    def __init__(self, graph):
        import tensorflow as tf
        from skate.experimental.tf_utils import TensorFlowVariables
        if graph:
            v1 = tf.compat.v1
            with tf.Graph().as_default():
                layers = [v1.Variable(tf.zeros([6_553_600])) for _ in range(4)]
                self.sess = v1.Session()
                self.variables = TensorFlowVariables(layers, self.sess)
                self.sess.run(v1.global_variables_initializer())
        else:
            self.variables = TensorFlowVariables(
                [tf.Variable(tf.zeros([6_553_600])) for _ in range(4)]
            )

    def get_weights(self):
        return self.variables.get_weights()

    def set_weights(self, weights):
        self.variables.set_weights(weights)

def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start

def copies():
    np.copyto(target, source)
    np.copyto(target, source)

def round_trip():
    system.get(second.set_weights.remote(first.get_weights.remote()))

source = np.ones(26_214_400, np.float32)
target = source.copy()
found = {}
for kind in ("eager", "graph"):
    first, second = (system.remote(Network).remote(kind == "graph") for _ in range(2))
    for _ in range(3):
        round_trip()
    rounds = [(timed(copies), timed(round_trip)) for _ in range(15)]
    found["two memcpys"] = min(copy for copy, _ in rounds)
    found[kind] = min(trip for _, trip in rounds)
    for actor in (first, second):
        system.kill(actor)
print(json.dumps(found))
"""

# Ray's guide to TensorFlow: 201 steps, weights to an actor, gradients back.
GRADIENTS = """
import numpy as np
import tensorflow.compat.v1 as tf
{start}
class Network:
    def __init__(self, x, y):
        tf.disable_v2_behavior()
        tf.reset_default_graph()  # a graph of its own: inline, all networks are in one process
        from skate.experimental.tf_utils import TensorFlowVariables
        tf.set_random_seed(0)
        w = tf.Variable(tf.random_uniform([1], -1.0, 1.0))
        b = tf.Variable(tf.zeros([1]))
        loss = tf.reduce_mean(tf.square(w * x.astype("f4") + b - y.astype("f4")))
        optimizer = tf.train.GradientDescentOptimizer(0.5)
        self.grads = optimizer.compute_gradients(loss)
        self.train = optimizer.apply_gradients(self.grads)
        self.sess = tf.Session()
        self.variables = TensorFlowVariables(loss, self.sess)
        self.sess.run(tf.global_variables_initializer())

    def step(self, weights):
        self.variables.set_weights(weights)
        return self.sess.run([grad[0] for grad in self.grads])

    def get_weights(self):
        return self.variables.get_weights()

@system.remote(num_returns=2)
def generate_fake_x_y_data(num_data, seed=0):
    x = np.random.default_rng(seed).random(num_data)
    return x, x * 0.1 + 0.3

actors = [
    system.remote(Network).remote(*generate_fake_x_y_data.remote(100, seed=i))
    for i in range({actors})
]
local = Network(*system.get(generate_fake_x_y_data.remote(100, seed=1)))
weights = local.get_weights()
for iteration in range(201):
    weights_id = system.put(weights)
    gradients = system.get([actor.step.remote(weights_id) for actor in actors])
    means = [np.mean(parts, axis=0) for parts in zip(*gradients)]
    feed = {{grad[0]: mean for grad, mean in zip(local.grads, means)}}
    local.sess.run(local.train, feed_dict=feed)
    weights = local.get_weights()
assert np.allclose(np.ravel(list(weights.values())), [0.1, 0.3], atol=0.01)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--no-ray", action="store_true", help="leave Ray out")
    options = parser.parse_args()
    systems = ["skate"] if options.no_ray else ["skate", "ray"]
    if options.only in "weights":
        show_weights(systems)
    if options.only in "gradients":
        for actors in (1, 4):
            show_gradients(systems, actors)


def show_weights(systems: list[str]) -> None:
    print("100 MB of weights from one actor into another, best of 15 rounds:")
    for system in systems:
        found = json.loads(run(START[system] + WEIGHTS).splitlines()[-1])
        bare = found.pop("two memcpys")
        for kind, seconds in found.items():
            print(
                f"  {system:5} {kind:5} {seconds * 1e3:6.1f} ms   "
                f"{seconds / bare:4.2f} x two memcpys ({bare * 1e3:.1f} ms)"
            )


def show_gradients(systems: list[str], actors: int) -> None:
    print(f"the gradient example with {actors} actor(s), whole program, best of {REPEATS}:")
    seconds = {}
    for system in ["inline", *systems]:
        program = GRADIENTS.format(start=START[system], actors=actors)
        seconds[system] = min(wall_time(program) for _ in range(REPEATS))
        print(f"  {system:6} {seconds[system]:6.1f} s")
    if "ray" in seconds:
        print(
            f"  Ray / skate {seconds['ray'] / seconds['skate']:.1f}, Ray / inline "
            f"{seconds['ray'] / seconds['inline']:.1f}"
        )
    print(f"  (import tensorflow alone: {wall_time('import tensorflow'):.1f} s)")


def run(program: str) -> str:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300,
    ).stdout  # fmt: skip


def wall_time(program: str) -> float:
    from benchmarks.timing import timed

    return timed(lambda: run(program))


if __name__ == "__main__":
    main()
