"""TensorFlowVariables: what it finds, gets, sets and refuses; with graphs, and without."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from skate._core.optional_imports import install_command
from skate.engine.local.mapping import map_copy_on_write
from skate.experimental.tf_utils import TensorFlowVariables
from tests.support import run_program

v1 = tf.compat.v1


class Line:
    """y = w x + b in a graph, with a session."""

    def __init__(self, graph: Any = None, resource: bool = False) -> None:
        self.graph = graph or tf.Graph()
        with self.graph.as_default():
            self.w = v1.Variable([1.0], use_resource=resource)
            self.b = v1.Variable([2.0], use_resource=resource)
            self.unused = v1.Variable([3.0], use_resource=resource)
            self.y = self.w * tf.constant([1.0, 2.0, 3.0]) + self.b
            self.loss = tf.reduce_mean(tf.square(self.y))
            self.train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(self.loss)
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())

    def variables(self, output: Any = "loss", **more: Any) -> TensorFlowVariables:
        found = getattr(self, output) if isinstance(output, str) else output
        return TensorFlowVariables(found, self.session, **more)

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def line(request: pytest.FixtureRequest) -> Any:
    with Line(resource=request.param) as built:
        yield built


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name]) for name in left
    )


# -- graphs: what is found -----------------------------------------------------------------------


def test_it_finds_what_the_output_depends_on(line: Line) -> None:
    variables = line.variables()
    assert list(variables.variables) == ["Variable", "Variable_1"]
    assert variables.placeholders.keys() == variables.variables.keys()
    assert variables.assignment_nodes.keys() == variables.variables.keys()


def test_it_follows_control_dependencies_to_an_optimizers_state(line: Line) -> None:
    assert len(line.variables("train").variables) == 4


def test_several_outputs_and_further_variables(line: Line) -> None:
    several = line.variables([line.b, line.y])
    assert list(several.variables) == ["Variable", "Variable_1"]
    assert list(line.variables(input_variables=[line.unused]).variables) == [
        "Variable",
        "Variable_1",
        "Variable_2",
    ]
    assert list(line.variables(None, input_variables=[line.unused]).variables) == ["Variable_2"]


def test_an_output_of_another_graph_than_the_default_one(line: Line) -> None:
    with tf.Graph().as_default() as other:
        variables = line.variables()
    assert not other.get_operations()
    assert variables.get_weights()["Variable"] == [1.0]


def test_outputs_of_two_graphs_are_refused(line: Line) -> None:
    with Line() as other, pytest.raises(ValueError, match="one graph; got 2 graphs"):
        line.variables([line.loss, other.loss])


# -- graphs: getting and setting -----------------------------------------------------------------


def test_weights_come_and_go_by_name(line: Line) -> None:
    variables = line.variables()
    weights = variables.get_weights()
    assert same(weights, {"Variable": np.array([1.0]), "Variable_1": np.array([2.0])})
    for name in weights:
        weights[name] += 1.0
    variables.set_weights(weights)
    assert same(variables.get_weights(), weights)
    variables.set_weights({"Variable": [7]})
    assert same(variables.get_weights(), weights | {"Variable": np.array([7.0])})


def test_weights_come_and_go_as_one_array(line: Line) -> None:
    variables = line.variables()
    assert variables.get_flat_size() == 2
    assert variables.get_flat().tolist() == [1.0, 2.0]
    variables.set_flat(np.array([5.0, 6.0]))
    assert variables.get_flat().tolist() == [5.0, 6.0]


def test_weights_that_were_got_stay_as_they_were(line: Line) -> None:
    variables = line.variables()
    before = variables.get_weights()
    line.session.run(line.train)
    assert before["Variable"] == [1.0]
    assert variables.get_weights()["Variable"] != [1.0]


@pytest.mark.parametrize("resource", [False, True])
def test_arrays_that_were_set_belong_to_the_caller(resource: bool) -> None:
    """TensorFlow keeps aligned arrays that it is fed with, instead of copying them."""
    memory = np.zeros(100_016, np.float32)
    start = (-memory.ctypes.data // 4) % 16
    mine = memory[start : start + 100_000]
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(tf.zeros([100_000]), use_resource=resource)
        train = v1.assign_add(variable, tf.ones([100_000]))
        variables = TensorFlowVariables(variable, session)
        variables.set_weights({"Variable": mine})
        mine[:] = 5
        assert not variables.get_flat().any()
        session.run(train)
        assert mine.all()
        assert (variables.get_flat() == 1).all()


def test_the_graph_does_not_grow_after_construction(line: Line) -> None:
    variables = line.variables()
    nodes = len(line.graph.get_operations())
    for _ in range(3):
        variables.set_weights(variables.get_weights())
        variables.set_flat(variables.get_flat())
    assert len(line.graph.get_operations()) == nodes


def test_a_session_may_be_given_later(line: Line) -> None:
    variables = TensorFlowVariables(line.loss)
    with pytest.raises(ValueError, match=r"set_session\(sess\)"):
        variables.get_weights()
    variables.set_session(line.session)
    assert variables.sess is line.session
    assert variables.get_flat_size() == len(variables.get_flat())


# -- graphs: what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ({"Variable": [9.0], "Variable_1": [1.0, 2.0]}, r"shape \(1,\); got .* shape \(2,\)"),
        ({"Variable": [9.0], "bias": [1.0]}, r"no variables are named \['bias'\]"),
        ({"Variable": [9.0], "Variable_1": ["a"]}, "cannot hold these values"),
    ],
)
def test_a_bad_call_changes_nothing(line: Line, weights: Any, complaint: str) -> None:
    variables = line.variables()
    with pytest.raises(ValueError, match=complaint):
        variables.set_weights(weights)
    with pytest.raises(ValueError, match=r"2 numbers .* shape \(3,\)"):
        variables.set_flat([1.0, 2.0, 3.0])
    assert variables.get_flat().tolist() == [1.0, 2.0]


def test_two_networks_in_one_graph_are_explained_and_flat_arrays_work() -> None:
    graph = tf.Graph()
    with Line(graph) as first, Line(graph) as second:
        one, two = first.variables(), second.variables()
        two.set_flat([8.0, 9.0])
        with pytest.raises(ValueError, match=r"two networks in one.*tf\.Graph\(\)") as error:
            two.set_weights(one.get_weights())
        assert "set_flat" in str(error.value)
        assert two.get_flat().tolist() == [8.0, 9.0]
        two.set_flat(one.get_flat())
        assert two.get_flat().tolist() == [1.0, 2.0]


def test_two_networks_in_two_graphs_share_names() -> None:
    with Line() as first, Line() as second:
        second.variables().set_weights({"Variable": [4.0], "Variable_1": [5.0]})
        first.variables().set_weights(second.variables().get_weights())
        assert first.variables().get_flat().tolist() == [4.0, 5.0]


def test_a_finalized_graph_gives_advice(line: Line) -> None:
    made_in_time = line.variables()
    line.graph.finalize()
    with pytest.raises(RuntimeError, match="before the graph is closed"):
        line.variables()
    made_in_time.set_flat([3.0, 4.0])
    assert made_in_time.get_flat().tolist() == [3.0, 4.0]


# -- without a graph -----------------------------------------------------------------------------


class Module(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable([2.0], name="scale")
        self.table = tf.Variable(tf.zeros([2, 3]))
        self.count = tf.Variable(7, trainable=False)


def keras_model() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((3,)), layers.Dense(4, name="hidden"), layers.Dropout(0.5), layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"])
    return model


def test_a_module() -> None:
    module = Module()
    variables = TensorFlowVariables(module)
    weights = variables.get_weights()
    assert {name: value.shape for name, value in weights.items()} == {
        "Variable": (),
        "scale": (1,),
        "Variable_1": (2, 3),
    }
    assert variables.placeholders == variables.assignment_nodes == {}
    variables.set_weights({"scale": [5.0], "Variable": 8})
    assert (module.scale.numpy(), module.count.numpy()) == ([5.0], 8)
    variables.set_flat(np.arange(8))
    assert variables.get_flat().tolist() == list(range(8))
    assert variables.get_weights()["Variable"].dtype == np.int32


def test_a_keras_model_trained_and_restored() -> None:
    model = keras_model()
    variables = TensorFlowVariables(model)
    assert len(variables.variables) == 4  # neither random seeds nor metrics
    assert any(name.endswith("hidden/kernel") for name in variables.variables)
    before = {name: value.copy() for name, value in variables.get_weights().items()}
    held = variables.get_weights()
    model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)
    assert same(held, before)  # views of then, although training goes on in place
    assert not same(variables.get_weights(), before)
    variables.set_weights(before)
    assert same(variables.get_weights(), before)
    assert variables.get_flat_size() == model.count_params()


def test_a_list_of_variables_of_one_name() -> None:
    variables = TensorFlowVariables([tf.Variable([float(i)]) for i in range(3)])
    assert list(variables.variables) == ["Variable", "Variable_1", "Variable_2"]
    variables.set_flat([3.0, 4.0, 5.0])
    assert variables.get_flat().tolist() == [3.0, 4.0, 5.0]


@pytest.fixture(params=["eager", "graph"])
def variable(request: pytest.FixtureRequest) -> Any:
    """Half a million zeros, and how to set and read them."""
    if request.param == "eager":
        yield TensorFlowVariables([tf.Variable(tf.zeros([500_000]))])
        return
    with tf.Graph().as_default(), v1.Session() as session:
        made = v1.Variable(tf.zeros([500_000]), use_resource=True)
        session.run(made.initializer)
        yield TensorFlowVariables([made], session)


def from_store(folder: Path, offset: int = 0) -> Any:
    """Half a million ones as the object store gives them: nobody writes to them."""
    path = folder / "segment"
    path.write_bytes(bytes(offset) + np.ones(500_000, np.float32).tobytes())
    with path.open("rb") as file:
        mapping = map_copy_on_write(file.fileno(), 2_000_000 + offset)
    return np.frombuffer(memoryview(mapping).cast("B").toreadonly(), np.float32, offset=offset)


def test_memory_that_never_changes_is_shared_until_the_variable_changes(tmp_path: Path) -> None:
    variable = tf.Variable(tf.zeros([500_000]))
    variables = TensorFlowVariables([variable])
    (name,) = variables.variables
    weights = from_store(tmp_path)
    variables.set_weights({name: weights})
    assert np.shares_memory(variables.get_weights()[name], weights)
    variable.assign_add(tf.ones([500_000]))
    assert np.all(weights == 1)
    assert np.all(variables.get_weights()[name] == 2)
    variables.set_weights({name: weights})
    del weights  # the variable keeps the memory
    assert np.all(variables.get_weights()[name] == 1)


def test_memory_at_an_odd_place_is_copied(tmp_path: Path) -> None:
    variable = tf.Variable(tf.zeros([500_000]))
    variables = TensorFlowVariables([variable])
    variables.set_weights(dict.fromkeys(variables.variables, from_store(tmp_path, offset=4)))
    variable.assign_add(tf.ones([500_000]))
    assert np.all(variables.get_flat() == 2)


def set_all(variables: TensorFlowVariables, weights: Any) -> None:
    variables.set_weights(dict.fromkeys(variables.variables, weights))


def test_a_read_only_view_of_an_array_in_use_is_copied(variable: TensorFlowVariables) -> None:
    weights = np.ones(500_000, np.float32)
    view = weights.view()
    view.flags.writeable = False
    set_all(variable, view)
    weights[:] = 5
    assert np.all(variable.get_flat() == 1)


def test_weights_from_a_file_do_not_follow_the_file(
    variable: TensorFlowVariables, tmp_path: Path
) -> None:
    path = tmp_path / "weights.npy"
    np.save(path, np.ones(500_000, np.float32))
    set_all(variable, np.load(path, mmap_mode="r"))
    np.lib.format.open_memmap(path, mode="r+")[:] = 7
    assert np.all(variable.get_flat() == 1)


def test_weights_in_memory_of_somebody_else_are_copied(variable: TensorFlowVariables) -> None:
    memory = bytearray(np.ones(500_000, np.float32).tobytes())
    set_all(variable, np.frombuffer(memoryview(memory).toreadonly(), np.float32))
    memory[:] = bytes(len(memory))
    assert np.all(variable.get_flat() == 1)


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[1.5, 2.0], [float("nan"), 1.0], [300, 1], [-1, 1]])
def test_numbers_that_a_variable_cannot_hold_are_refused(value: Any) -> None:
    variables = TensorFlowVariables([tf.Variable(np.array([7, 8], np.uint8), name="count")])
    for change in (lambda: set_all(variables, value), lambda: variables.set_flat(value)):
        with pytest.raises(ValueError, match=r"'count' is of type uint8.*Nothing was set"):
            change()
    assert variables.get_flat().tolist() == [7, 8]


@pytest.mark.parametrize("value", [[1, 2], [1.0, 2.0], np.array([1, 2], np.uint64), [True, 2]])
def test_numbers_of_another_type_that_fit_are_taken(value: Any) -> None:
    variables = TensorFlowVariables([tf.Variable(np.array([7, 8], np.uint8))])
    set_all(variables, value)
    assert variables.get_flat().tolist() == [1, 2]


def test_complex_numbers_for_real_ones_are_refused() -> None:
    variables = TensorFlowVariables([tf.Variable([1.0])])
    with pytest.raises(ValueError, match=r"float32.*complex128"):
        set_all(variables, [1 + 2j])


def test_a_flat_array_never_rounds_whole_numbers() -> None:
    large = tf.Variable(np.array([2**53 + 1]), name="large")
    variables = TensorFlowVariables([tf.Variable([1.0]), large])
    with pytest.raises(ValueError, match=r"int64.*float64 would round those of 'large'.*get_w"):
        variables.get_flat()
    large.assign([2**53])
    variables.set_flat(variables.get_flat())
    assert large.numpy().tolist() == [2**53]


def test_types_without_a_common_one_have_no_flat_array() -> None:
    pair = [tf.Variable([1.0], dtype=kind) for kind in (tf.float16, tf.bfloat16)]
    with pytest.raises(ValueError, match=r"bfloat16, float16.*Use get_weights"):
        TensorFlowVariables(pair).get_flat()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.full(2, None), "values of type object"),
        (["a", "b"], "values of type <U1"),
        ([[1], [2, 3]], "takes an array"),
        ([1e10, 1.0], "'half' is of type float16"),
    ],
)
def test_what_is_no_number_or_too_large_is_refused(value: Any, message: str) -> None:
    variables = TensorFlowVariables([tf.Variable(np.array([1, 2], np.float16), name="half")])
    with pytest.raises(ValueError, match=f"{message}.*Nothing was set"):
        set_all(variables, value)
    assert variables.get_flat().tolist() == [1, 2]


def test_infinite_weights_stay_infinite() -> None:
    variables = TensorFlowVariables([tf.Variable([1.0, 2.0])])
    set_all(variables, [float("inf"), float("-inf")])
    assert np.isinf(variables.get_flat()).all()


def test_a_variable_of_unknown_shape_has_no_place_in_a_flat_array() -> None:
    variables = TensorFlowVariables(
        [tf.Variable([1.0], shape=tf.TensorShape([None]), name="grows")]
    )
    variables.set_weights({"grows": [1.0, 2.0]})
    assert variables.get_weights()["grows"].tolist() == [1, 2]
    for call in (variables.get_flat_size, lambda: variables.set_flat([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"'grows' has the shape \(None,\).*set_weights"):
            call()


def test_text_in_a_session() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        word = v1.get_variable("word", initializer=tf.constant("one"))
        session.run(word.initializer)
        variables = TensorFlowVariables(word, session)
        assert variables.get_flat().tolist() == [b"one"]
        variables.set_weights({"word": "two"})
        assert variables.get_weights()["word"].item() == b"two"


def test_a_graph_without_variables() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        variables = TensorFlowVariables(tf.constant(1.0), session)
        assert variables.get_weights() == {}
        assert variables.get_flat().shape == (variables.get_flat_size(),) == (0,)
        variables.set_flat(variables.get_flat())


def test_the_session_is_the_default_one_and_of_the_same_graph(line: Line) -> None:
    variables = TensorFlowVariables(line.loss)
    with line.session.as_default():
        assert variables.get_flat().tolist() == [1, 2]
    with Line() as other:
        variables.set_session(other.session)
        with pytest.raises(ValueError, match="session of another graph"):
            variables.get_weights()


def test_names_that_are_none_are_explained(line: Line) -> None:
    variables = line.variables()
    with pytest.raises(ValueError, match="'w' and not 'w:0'"):
        variables.set_weights({"Variable:0": [1.0]})
    with pytest.raises(ValueError, match=r"named \[3\] here"):
        variables.set_weights({3: [1.0]})  # type: ignore[dict-item]


def test_two_keras_models_in_one_process_are_explained() -> None:
    one, two = TensorFlowVariables(keras_model()), TensorFlowVariables(keras_model())
    with pytest.raises(ValueError, match="two networks in one process"):
        two.set_weights(one.get_weights())
    two.set_flat(one.get_flat())
    assert np.array_equal(one.get_flat(), two.get_flat())


def test_a_bad_call_without_a_graph_changes_nothing() -> None:
    variables = TensorFlowVariables([tf.Variable([1.0], name="a"), tf.Variable([2.0], name="b")])
    with pytest.raises(ValueError, match="'b' has the shape"):
        variables.set_weights({"a": [9.0], "b": [[9.0]]})
    assert variables.get_flat().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("weights", [[1, 2], np.ones(2), None])
def test_weights_without_names_are_refused(weights: Any) -> None:
    variables = TensorFlowVariables([tf.Variable([1.0], name="a"), tf.Variable([2.0], name="b")])
    kind = type(weights).__name__
    with pytest.raises(TypeError, match=f"dictionary of arrays by name.*got {kind}.*set_flat"):
        variables.set_weights(weights)
    assert variables.get_flat().tolist() == [1.0, 2.0]


def test_what_names_no_variables_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Give the model, the tf\.Module"):
        TensorFlowVariables(tf.constant(1.0) + 1.0)
    with pytest.raises(ValueError, match="before it was built"):
        TensorFlowVariables(tf.keras.Sequential([tf.keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match="give an output, a model or input_variables"):
        TensorFlowVariables(None)


# -- imports -------------------------------------------------------------------------------------


def test_tensorflow_is_imported_by_use_alone() -> None:
    program = (
        "import sys, skate; skate.experimental.tf_utils.TensorFlowVariables\n"
        "from skate.experimental import TensorFlowVariables\n"
        "assert not {'tensorflow', 'numpy'} & set(sys.modules)\n"
        "sys.modules['tensorflow'] = None\n"
        "class Variable:\n"
        "    op = type('Op', (), {'graph': 1, 'inputs': (), 'control_inputs': ()})()\n"
        "try: TensorFlowVariables(Variable())\n"
        "except ImportError as error: print(error)\n"
    )
    done = run_program([sys.executable, "-c", program])
    assert install_command("tensorflow") in done.stdout, done.stderr
