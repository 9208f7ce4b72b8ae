"""Remote classes, handles and methods: what they look like and what they refuse."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import cloudpickle
import pytest

import skate
from skate._facade.actor_handle import ActorMethod

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


class Plain:
    """Counts."""

    STEP = 1

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def add(self, amount: int = 1) -> int:
        self.value += amount
        return self.value

    def items(self) -> Any:
        yield self.value

    async def later(self) -> int:
        return self.value

    @skate.method(num_returns=2, max_task_retries=3)
    def pair(self) -> tuple[int, int]:
        return self.value, -self.value

    @staticmethod
    def static(x: int) -> int:
        return x

    @classmethod
    def kind(cls, suffix: str = "") -> str:
        return cls.__name__ + suffix


class Child(Plain):
    def add(self, amount: int = 1) -> int:
        return super().add(10 * amount)


Counter = skate.remote(Plain)


def test_a_remote_class_looks_like_its_class() -> None:
    assert Counter.__name__ == "Plain"
    assert Counter.__doc__ == "Counts."
    assert Counter.STEP == 1
    assert repr(Counter) == "ActorClass(Plain)"
    with pytest.raises(AttributeError):
        Counter.missing  # noqa: B018


def test_it_is_not_called_and_not_inherited_from() -> None:
    with pytest.raises(TypeError, match=r"Plain\.remote\("):
        Counter()  # type: ignore[operator]
    with pytest.raises(
        skate.actor.ActorClassInheritanceException, match="Inheriting from actor classes"
    ):

        class Sub(Counter):  # type: ignore[misc, valid-type]
            pass


def test_wrong_arguments_are_an_error_at_the_call() -> None:
    with pytest.raises(TypeError, match="Plain"):
        Counter.remote(1, 2)
    handle = Counter.remote()
    with pytest.raises(TypeError, match=r"Plain\.add"):
        handle.add.remote(1, 2)
    with pytest.raises(TypeError, match="'unknown'"):
        handle.add.remote(unknown=1)
    with pytest.raises(TypeError, match=r"Plain\.static"):
        handle.static.remote()


def test_inherited_static_and_class_methods() -> None:
    handle = skate.remote(Child).remote(1)
    assert skate.get(handle.add.remote(2)) == 21
    assert skate.get(handle.static.remote(5)) == 5
    assert skate.get(handle.kind.remote("!")) == "Child!"
    assert skate.get(handle.later.remote()) == 21


def test_what_a_handle_shows() -> None:
    handle = Counter.remote()
    actor_id = handle._actor_id.hex()
    assert repr(handle) == f"Actor(Plain, {actor_id})"
    assert handle._ray_actor_id == handle._actor_id
    assert {"add", "pair", "__ray_ready__"} <= set(dir(handle))
    assert handle.add._num_returns == 1
    assert handle.add.options(num_returns=3)._num_returns == 3


def test_a_missing_method_names_the_nearest() -> None:
    handle = Counter.remote()
    with pytest.raises(AttributeError, match=r"Plain.*'ad'.*add"):
        handle.ad.remote()
    with pytest.raises(AttributeError, match="value"):
        handle.value  # noqa: B018


def test_a_method_is_not_called_directly() -> None:
    with pytest.raises(TypeError, match=r"add\.remote\("):
        Counter.remote().add(1)  # type: ignore[operator]


def test_methods_are_made_once_and_do_not_keep_the_handle() -> None:
    handle = Counter.remote()
    method = handle.add
    assert isinstance(method, ActorMethod)
    assert handle.add is method
    watched = weakref.ref(handle)
    gc.disable()
    try:
        del handle
        assert watched() is None
    finally:
        gc.enable()
    assert skate.get(method.remote(2)) == 2


def test_options_of_methods() -> None:
    handle = Counter.remote(3)
    assert skate.get(handle.pair.remote()) == [3, -3]
    assert handle.pair._options.max_task_retries == 3
    changed = handle.pair.options(num_returns=1)
    assert skate.get(changed.remote()) == (3, -3)
    assert changed._options.max_task_retries == 3
    assert isinstance(handle.items.remote(), skate.ObjectRefGenerator)
    with pytest.raises(ValueError, match="num_cpus"):
        handle.add.options(num_cpus=1)


def test_misuse_of_method() -> None:
    def function() -> None: ...

    assert skate.method(function) is function  # type: ignore[arg-type,comparison-overlap]
    assert skate.method()(function) is function
    with pytest.raises(TypeError, match="keyword"):
        skate.method(2)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="num_returns"):
        skate.method(num_return=1)


def test_a_method_of_a_group_that_the_class_does_not_have() -> None:
    class Grouped:
        @skate.method(concurrency_group="io")
        def read(self) -> None: ...

    with pytest.raises(ValueError, match=r"Grouped\.read .* 'io', which .*it has compute"):
        skate.remote(concurrency_groups={"compute": 1})(Grouped)
    with pytest.raises(ValueError, match="it has none"):
        skate.remote(Grouped)
    skate.remote(concurrency_groups={"io": 1})(Grouped)


def test_handles_compare_by_actor() -> None:
    handle, other = Counter.remote(), Counter.remote()
    again = pickle.loads(cloudpickle.dumps(handle))
    assert again == handle
    assert hash(again) == hash(handle)
    assert handle != other
    assert {handle: 1}[again] == 1
    assert skate.get(again.add.remote()) == 1


def test_a_class_can_be_sent_and_stays_the_same() -> None:
    again = pickle.loads(cloudpickle.dumps(Counter.options(num_cpus=1)))
    assert again._spec is Counter._spec
    assert again._options.num_cpus == 1
    assert (
        skate.get(skate.remote(lambda c: skate.get(c.remote(4).add.remote())).remote(again)) == 5
    )


def test_a_class_that_refers_to_itself_can_be_pickled() -> None:
    def make() -> Any:
        @skate.remote
        class Node:
            def child(self) -> Any:
                return Node.remote()

            def name(self) -> str:
                return "node"

        return Node

    again = pickle.loads(cloudpickle.dumps(make()))
    child = skate.get(again.remote().child.remote())
    assert skate.get(child.name.remote()) == "node"


def test_built_in_calls() -> None:
    handle = Counter.remote(5)
    assert skate.get(handle.__ray_ready__.remote()) is True
    assert skate.get(handle.__ray_call__.remote(lambda self, x: self.value + x, 2)) == 7
    handle.__ray_terminate__.remote()
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(handle.add.remote())


def test_a_class_lists_its_methods() -> None:
    @skate.remote
    class Listed:
        def method(self) -> None:
            pass

    assert {"method", "options", "remote"} <= set(dir(Listed))


def test_exit_actor_needs_an_actor() -> None:
    with pytest.raises(TypeError, match="non-actor worker"):
        skate.actor.exit_actor()


def test_handles_and_classes_in_annotations() -> None:
    from typing import get_args

    handle: Any = skate.ActorHandle
    made: Any = skate.ActorClass
    assert get_args(handle[int]) == (int,)
    assert skate.actor.ActorProxy[int] == handle[int] | type[int]
    assert get_args(made[int]) == (int,)


def test_the_plain_class_is_found_where_ray_has_it():
    class Plain:
        def __init__(self, x):
            self.x = x

    remote = skate.remote(Plain)
    assert remote.__ray_actor_class__ is Plain
    assert remote.__ray_metadata__.modified_class(3).x == 3
    assert remote.options(num_cpus=0).__ray_metadata__.class_name == "Plain"
