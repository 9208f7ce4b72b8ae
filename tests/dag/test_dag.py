"""Graphs of calls: built with bind(), run with execute()."""

from __future__ import annotations

import asyncio
import pickle
import sys
import types
from typing import Any

import pytest

import skate
from skate import util
from skate.dag import DAGContext, DAGNode, InputNode, MultiOutputNode

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def double(x: Any) -> Any:
    return x * 2


@skate.remote
def add(x: Any, y: Any) -> Any:
    return x + y


@skate.remote
def taken(gate: util.queue.Queue, x: Any) -> Any:
    gate.get()
    return x


@skate.remote
class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    @skate.method(num_returns=2)
    def halves(self) -> tuple[int, int]:
        return self.balance // 2, self.balance - self.balance // 2

    def total(self) -> int:
        return self.balance


class Basket:
    """An object of the user's, which hides a node."""

    def __init__(self, item: Any) -> None:
        self.item = item


# -- functions ----------------------------------------------------------------------------------


def test_nothing_runs_before_execute(tally: Any) -> None:
    @skate.remote
    def count() -> None:
        tally.add()

    node = count.bind()
    assert len(tally) == 0
    skate.get(node.execute())
    skate.get(node.execute())
    assert len(tally) == 2


def test_each_node_runs_once_per_execution(tally: Any) -> None:
    @skate.remote
    def two() -> int:
        tally.add()
        return 2

    start = two.bind()
    assert skate.get(add.bind(double.bind(start), start).execute()) == 6
    assert len(tally) == 1


def test_the_input_and_its_parts() -> None:
    with InputNode() as number:
        whole = add.bind(double.bind(number), number)
        parts = add.bind(number[0], number.more)
        items = add.bind(number["a"], number["b"])
    assert [skate.get(whole.execute(n)) for n in (1, 5)] == [3, 15]
    assert skate.get(parts.execute(3, more=4)) == 7
    assert skate.get(items.execute({"a": 1, "b": 2})) == 3
    assert number[0] is number[0]


def test_an_attribute_of_an_object_that_is_the_input() -> None:
    with InputNode() as basket:
        node = double.bind(basket.item)
    assert skate.get(node.execute(Basket(4))) == 8


def test_nodes_inside_of_arguments_arrive_as_references() -> None:
    @skate.remote
    def unpack(nested: Any, basket: Basket, more: Any) -> Any:
        assert more["same"] is None
        return skate.get(nested["x"][0]) + skate.get(basket.item)

    one = double.bind(1)
    node = unpack.bind({"x": [one]}, Basket(double.bind(2)), more={"same": None})
    assert skate.get(node.execute()) == 6


def test_arguments_without_nodes_are_passed_on_as_they_are() -> None:
    ref, values = skate.put(1), [1, 2]
    node = add.bind(ref, 2)
    assert node.get_args()[0] is ref
    assert skate.get(node.execute()) == 3
    assert skate.get(double.bind(values).execute()) == [1, 2, 1, 2]


def test_several_results() -> None:
    with InputNode() as number:
        node = MultiOutputNode([double.bind(number), number, add.bind(number, 1)])
    refs = node.execute(5)
    assert refs[1] == 5
    assert skate.get([refs[0], refs[2]]) == [10, 6]
    with pytest.raises(ValueError, match="list of nodes"):
        MultiOutputNode(double.bind(1))  # type: ignore[arg-type]


def test_long_chains() -> None:
    node = double.bind(0)
    for _ in range(400):
        node = add.bind(node, 1)
    assert skate.get(node.execute()) == 400


def test_a_part_that_fails_fails_the_whole() -> None:
    @skate.remote
    def fail() -> None:
        raise KeyError("spam")

    with pytest.raises(KeyError, match="spam"):
        skate.get(double.bind(fail.bind()).execute())


# -- actors -------------------------------------------------------------------------------------


def test_calls_of_an_actor_run_in_the_order_they_were_bound() -> None:
    account = Account.bind(10)
    account.deposit.bind(5)
    account.deposit.bind(1)
    node = account.total.bind()
    assert skate.get(node.execute()) == 16
    assert skate.get(node.execute()) == 16, "each execution has an actor of its own"


def test_an_actor_as_an_argument() -> None:
    @skate.remote
    def ask(account: Any) -> Any:
        return skate.get(account.total.remote())

    assert skate.get(ask.bind(Account.bind(3)).execute()) == 3


def test_an_actor_that_exists_is_used_again() -> None:
    account = Account.remote(0)
    with InputNode() as amount:
        node = account.deposit.bind(amount)
    assert skate.get([node.execute(2), node.execute(3)]) == [2, 5]


def test_a_method_with_several_values() -> None:
    account = Account.remote(5)
    lower, upper = account.halves.bind()
    assert skate.get(add.bind(double.bind(upper), lower).execute()) == 8


def test_options_stay_with_the_node() -> None:
    node = double.options(name="twice", num_cpus=1).bind(1)
    assert node.get_options() == {"name": "twice", "num_cpus": 1}
    assert double.bind(1).get_options() == {}
    assert skate.get(node.execute()) == 2
    method = Account.options(max_restarts=2).bind(1).total.options(name="look").bind()
    assert method.get_options() == {"name": "look"}
    assert skate.get(method.execute()) == 1


def test_wrong_arguments_of_a_method_are_an_error_at_once() -> None:
    with pytest.raises(TypeError, match="deposit"):
        Account.remote(1).deposit.bind()


def test_what_the_nodes_of_a_graph_gave() -> None:
    with InputNode() as given:
        inner = double.bind(given)
        outer = add.bind(inner, 1)
    assert skate.get(outer.execute(2)) == 5
    assert outer.cache_from_last_execute == {}
    result = outer.execute(2, _ray_cache_refs=True)
    kept = asyncio.run(outer.get_object_refs_from_last_execute())
    assert kept.keys() == {node.get_stable_uuid() for node in (given, inner, outer)}
    assert kept[outer.get_stable_uuid()] == result
    assert skate.get(kept[inner.get_stable_uuid()]) == 4
    outer.clear_cache()
    assert asyncio.run(outer.get_object_refs_from_last_execute()) == {}


# -- compiled ------------------------------------------------------------------------------------


def test_a_compiled_graph() -> None:
    account = Account.remote(0)
    with InputNode() as amount:
        compiled = double.bind(account.deposit.bind(amount)).experimental_compile()
    assert [skate.get(compiled.execute(n)) for n in (1, 2)] == [2, 6]

    async def awaited() -> Any:
        return await (await compiled.execute_async(1))

    assert asyncio.run(awaited()) == 8
    compiled.teardown()
    with pytest.raises(skate.exceptions.GraphClosedError, match="teardown") as closed:
        compiled.execute(1)
    assert isinstance(closed.value, RuntimeError)


@pytest.mark.engines("local")  # inline, all is done when execute() returns
def test_a_compiled_graph_may_have_so_many_executions_under_way() -> None:
    gate = util.queue.Queue()
    try:
        with InputNode() as given:
            graph = MultiOutputNode([taken.bind(gate, given), double.bind(given)])
            compiled = graph.experimental_compile(_max_inflight_executions=2)
        made = [compiled.execute(n) for n in (1, 2)]
        with pytest.raises(skate.exceptions.GraphFullError, match="more than 2 in-flight"):
            compiled.execute(3)
        for _ in made:
            gate.put(None)
        assert skate.get(made[0]) == [1, 2]
        assert skate.get(made[1]) == [2, 4]
        gate.put(None)
        assert skate.get(compiled.execute(3)) == [3, 6]
    finally:
        gate.shutdown()


@pytest.mark.parametrize("name", ["_max_inflight_executions", "_buffer_size_bytes"])
def test_limits_of_compiled_graphs_are_checked(name: str) -> None:
    for wrong, kind in ((0, ValueError), (-1, ValueError), ("2", TypeError), (1.5, TypeError)):
        with pytest.raises(kind, match=f"{name} takes a positive integer"):
            double.bind(InputNode()).experimental_compile(**{name: wrong})


def test_calls_of_an_actor_are_made_in_the_order_in_which_they_were_bound() -> None:
    first, second = Account.remote(0), Account.remote(0)
    with InputNode() as amount:
        one = second.deposit.bind(first.deposit.bind(amount))
        other = first.total.bind()
        compiled = MultiOutputNode([other, one]).experimental_compile()
    assert skate.get(compiled.execute(5)) == [5, 5]


def test_what_a_compiled_graph_is_given() -> None:
    with InputNode() as given:
        compiled = add.bind(add.bind(given[0], given[1]), given.z).experimental_compile()
    assert skate.get(compiled.execute(1, 2, z=3)) == 6
    with pytest.raises(ValueError, match="must be called with 2 positional args, got 1"):
        compiled.execute((1, 2))
    with pytest.raises(ValueError, match="must be called with kwarg `z`"):
        compiled.execute(1, 2)
    with pytest.raises(ValueError, match=r"the kwargs \['z'\]; got \['y', 'z'\]"):
        compiled.execute(1, 2, z=3, y=4)
    with InputNode() as given:
        compiled = double.bind(given[0]).experimental_compile()
    assert skate.get(compiled.execute(4)) == 8
    assert compiled.get_id() != double.bind(1).experimental_compile().get_id()
    with InputNode() as given, InputNode() as other, pytest.raises(ValueError, match="one unique"):
        add.bind(given, other).experimental_compile()


def test_the_input_of_a_compiled_graph_is_used_as_it_is_taken_apart() -> None:
    with InputNode() as given:
        mixed = add.bind(double.bind(given), given[0])
    with pytest.raises(ValueError, match=r"InputNode\(\) directly"):
        mixed.experimental_compile()
    with InputNode() as given:
        some = add.bind(given[0], given[0])
        assert given[1] is not given[0]
    with pytest.raises(ValueError, match=r"\[1\] is unused"):
        some.experimental_compile()
    with InputNode() as given:
        whole = add.bind(given, double.bind(given))
    assert skate.get(whole.experimental_compile().execute(2)) == 6


def test_a_compiled_graph_may_take_its_actors_along() -> None:
    account = Account.remote(0)
    with InputNode() as amount:
        compiled = account.deposit.bind(amount).experimental_compile()
    assert skate.get(compiled.execute(1)) == 1
    compiled.teardown(kill_actors=True)
    assert compiled.is_teardown
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(account.total.remote())


def test_a_compiled_graph_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    account = Account.remote(6)
    low, high = account.halves.bind()
    with InputNode() as given:
        total = add.bind(add.bind(low, high), given)
    compiled = MultiOutputNode([total, low]).experimental_compile()
    text = compiled.visualize(format="ascii", view=True)
    assert capsys.readouterr().out == f"{text}\n"
    nodes, edges = text.partition("Edges Information:")[::2]
    assert "Method: halves" in nodes
    assert "ClassMethodOutputNode[1]" in nodes
    numbers = {line.partition("[")[2]: line.split()[0] for line in nodes.splitlines()[1:-1]}
    assert len(numbers) == 7
    assert edges.count("--->") == 8 + 1  # and the legend
    with pytest.raises(ValueError, match="ascii"):
        compiled.visualize(format="ascii", channel_details=True)


def test_a_picture_of_a_compiled_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []

    class Source:
        def __init__(self, source: str, filename: str, format: str) -> None:
            rendered.append((source, filename, format))

        def render(self, view: bool) -> None: ...

    compiled = double.bind(1).experimental_compile()
    monkeypatch.setitem(sys.modules, "graphviz", types.SimpleNamespace(Source=Source))
    dot = compiled.visualize("picture", format="svg", channel_details=True)
    assert rendered == [(dot, "picture", "svg")]
    assert "0 -> 1 [label=SharedMemoryType]" in dot
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="ascii"):
        compiled.visualize()


def test_tensors_travel_through_shared_memory() -> None:
    node = double.bind(1)
    assert node.with_tensor_transport("shm", device="cpu") is node
    assert node.with_tensor_transport(_static_shape=True, _direct_return=True) is node
    with pytest.raises(ValueError, match="nccl"):
        node.with_tensor_transport("nccl")


# -- mistakes -----------------------------------------------------------------------------------


def test_an_input_outside_of_its_block() -> None:
    with pytest.raises(ValueError, match=r"only used in context manager.*with InputNode"):
        double.bind(InputNode()).execute(1)


def test_a_graph_without_its_input_runs_nothing(tally: Any) -> None:
    @skate.remote
    def count() -> int:
        tally.add()
        return 1

    with InputNode() as number:
        node = add.bind(count.bind(), number)
    with pytest.raises(ValueError, match=r"has an InputNode.*execute\(value\)"):
        node.execute()
    assert len(tally) == 0


def test_two_inputs() -> None:
    with InputNode() as one, InputNode() as other:
        node = add.bind(one, other)
    with pytest.raises(ValueError, match=r"should only have one unique InputNode.*has 2"):
        node.execute(1)


def test_an_input_is_not_there_when_an_actor_starts() -> None:
    with InputNode() as number, pytest.raises(ValueError, match="one of its methods"):
        Account.bind([number])


@pytest.mark.parametrize("key", [1.5, (1, 2)])
def test_parts_of_the_input_have_a_position_or_a_name(key: Any) -> None:
    with (
        InputNode() as number,
        pytest.raises(ValueError, match=r"only use int index or str .* position or name"),
    ):
        number[key]


def test_an_input_node_takes_no_input() -> None:
    with pytest.raises(ValueError, match=r"should not take any args or kwargs.*execute\(\)"):
        InputNode(3)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda: double.bind(1).remote(), "execute"),
        (lambda: Account.bind(1).bind(), "method.bind"),
        (lambda: Account.bind(1).total.remote(), "bind"),
        (lambda: Account.bind(1).spam, "spam"),
    ],
)
def test_what_a_node_does_not_have(wrong: Any, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        wrong()


def test_a_node_stays_where_it_is() -> None:
    with pytest.raises(ValueError, match="send the reference"):
        pickle.dumps(double.bind(1))


# -- the way through a graph ----------------------------------------------------------------------


def test_children_and_their_replacement() -> None:
    one, two, three = double.bind(1), double.bind(2), double.bind(3)
    node = add.bind(one, {"deep": [two, three]})
    assert node._get_toplevel_child_nodes() == [one]
    assert node._get_all_child_nodes() == [one, two, three]
    changed = node._apply_and_replace_all_child_nodes(lambda child: three)
    assert changed.get_args() == (three, {"deep": [three, three]})
    assert node.get_args()[0] is one
    assert changed.get_stable_uuid() == node.get_stable_uuid()


def test_what_a_node_looks_like() -> None:
    account = Account.remote(1)
    node: DAGNode = add.bind(double.bind(1), Account.bind(2).total.bind())
    assert repr(node) == "add(double(1), Account(2).total())"
    assert repr(account.deposit.bind(amount=3)) == "Account.deposit(amount=3)"


def test_settings_of_compiled_graphs_are_kept() -> None:
    context = DAGContext.get_current()
    assert context is DAGContext.get_current()
    assert context.submit_timeout == 10
    with pytest.raises(ValueError, match="read_iteration_timeout"):
        DAGContext(read_iteration_timeout=2, get_timeout=1)
