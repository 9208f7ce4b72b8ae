"""Ray's guide to TensorFlow, from the first block to the last, as one program.

Only `ray` is called `skate`, and `tf` is TensorFlow's own compatibility module, as the guide is
about TensorFlow 1. What the guide leaves out around its fragments is added between them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from tests.seeds.documents import blocks, text_of
from tests.support import run_program

DOCUMENT = text_of("004")

V1 = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"

# The guide's network asks for a GPU; here one is only declared.
BEFORE_KERAS = """
import functools, skate
skate.init, init = functools.partial(skate.init, num_gpus=1), skate.init
"""
AFTER_KERAS = """
assert [w.shape for w in skate.get(NetworkActor.get_weights.remote())][-1] == (10,)
skate.shutdown()
skate.init = init
"""
# The network that the guide's fragments are about.
BEFORE_GRADIENTS = """
x_data, y_data = tf.placeholder(tf.float32, [100]), tf.placeholder(tf.float32, [100])
w, b = tf.Variable([1.0]), tf.Variable([0.0])
loss = tf.reduce_mean(tf.square(w * x_data + b - y_data))
optimizer = tf.train.GradientDescentOptimizer(0.5)
grads = optimizer.compute_gradients(loss)
train = optimizer.apply_gradients(grads)
init = tf.global_variables_initializer()
sess = tf.Session()
sess.run(init)
"""
AFTER_GRADIENTS = """
assert np.allclose(np.ravel(numerical_grads), [-2, -2])
assert np.allclose(sess.run([w, b]), [[2], [1]])
"""
AFTER_WEIGHTS = """
assert sorted(weights) == ["Variable", "Variable_1"], weights
nodes = len(tf.get_default_graph().get_operations())
"""
AFTER_ASSIGN = """
assert len(tf.get_default_graph().get_operations()) > nodes
"""
FAILS = """
try:
    exec({code!r})
    raise SystemExit("two networks in one graph did not fail")
except ValueError as error:
    assert "tf.Graph().as_default()" in str(error) and "set_flat" in str(error), error
b.variables.set_flat(a.variables.get_flat())
"""
LAST = "skate.shutdown()\nprint('done')\n"


def program(text: str) -> str:
    code = [re.sub(r"^import tensorflow as tf$", V1, b, flags=re.MULTILINE) for b in blocks(text)]
    keras, actor, gradients, feed, full, variables, weights, assign, network, fails, works = code
    parts = [
        keras, BEFORE_KERAS, actor, AFTER_KERAS,
        BEFORE_GRADIENTS, gradients, feed, AFTER_GRADIENTS,
        variables, weights, AFTER_WEIGHTS, assign, AFTER_ASSIGN, "tf.reset_default_graph()",
        full, network, FAILS.format(code=fails), works, LAST,
    ]  # fmt: skip
    return "\n".join(parts)


def run(code: str, folder: Path, python: str) -> str:
    path = folder / "guide.py"
    path.write_text(code)
    environ = {name: value for name, value in os.environ.items() if "KERAS" not in name}
    environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    done = run_program([python, path], env=environ, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights_in(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"array\(\[([^]]+)\]", line)]


if DOCUMENT is not None:
    TEXT = DOCUMENT

    def test_the_guide(tmp_path: Path, warm_python: str) -> None:
        printed = run(program(TEXT), tmp_path, warm_python)
        lines = [line for line in printed.splitlines() if line.startswith("Iteration ")]
        assert [line.split(":")[0] for line in lines] == [
            f"Iteration {i}" for i in range(0, 201, 20)
        ]
        np.testing.assert_allclose(weights_in(lines[-1]), [0.1, 0.3], atol=0.01)
        assert printed.endswith("done\n")
