"""`@remote` on functions, without an engine where none is needed."""

from __future__ import annotations

import functools
import gc
import inspect
import pickle
from typing import Any

import cloudpickle
import pytest

import skate
from skate._core.signature import Arity, arity_of
from skate._facade.remote import RemoteFunction

inline = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


def add(x: int, y: int = 1) -> int:
    """Adds."""
    return x + y


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return [2 * item for item in function(*args)]

    return wrapper


def test_all_forms() -> None:
    forms = [
        skate.remote(add),
        skate.remote(num_cpus=1)(add),
        skate.remote(num_return_vals=2)(add),
        skate.remote(lambda x: x),
        skate.remote(functools.partial(add, 1)),
        skate.remote(len),
        skate.remote([].append),
    ]
    assert all(isinstance(form, RemoteFunction) for form in forms)
    assert forms[2]._options.num_returns == 2


def test_it_looks_like_its_function() -> None:
    remote_add = skate.remote(add)
    assert remote_add.__name__ == "add"
    assert remote_add.__doc__ == "Adds."
    assert remote_add._function is add
    assert inspect.signature(remote_add) == inspect.signature(add)  # type: ignore[arg-type]
    assert repr(remote_add) == "RemoteFunction(add)"


def test_a_direct_call_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"add\.remote\("):
        skate.remote(add)(1)  # type: ignore[operator]


@pytest.mark.parametrize("target", [3, "text", None, object()])
def test_only_functions_and_classes(target: object) -> None:
    with pytest.raises(TypeError, match="function or a class"):
        skate.remote(target)


def test_misuse_of_the_decorator() -> None:
    with pytest.raises(TypeError, match="without parentheses"):
        skate.remote()
    with pytest.raises(TypeError, match="keyword"):
        skate.remote(add, num_cpus=1)
    with pytest.raises(TypeError, match="already"):
        skate.remote(skate.remote(add))
    with pytest.raises(ValueError, match="num_cpus"):
        skate.remote(num_cpu=1)


def test_async_functions_belong_into_actors() -> None:
    async def fetch() -> None: ...

    with pytest.raises(ValueError, match="fetch"):
        skate.remote(fetch)


def test_options_make_another_one() -> None:
    first = skate.remote(num_cpus=2, max_calls=3)(add)
    second = first.options(num_returns=2, name="other")
    assert (first._options.num_returns, second._options.num_returns) == (1, 2)
    assert (second._options.num_cpus, second._options.max_calls) == (2, 3)
    assert second._spec is first._spec
    with pytest.raises(ValueError, match="max_calls"):
        first.options(max_calls=1)


def test_a_generator_streams_by_default() -> None:
    @skate.remote
    def numbers() -> Any:
        yield 1

    assert numbers._options.num_returns == "streaming"
    assert numbers.options(num_returns=1)._options.num_returns == 1


def test_it_stays_the_same_function_in_one_process() -> None:
    again = pickle.loads(cloudpickle.dumps(module_level.options(num_cpus=3)))
    assert again._spec is module_level._spec
    assert again._options.num_cpus == 3


def test_a_recursive_function_can_be_pickled() -> None:
    def make() -> Any:
        @skate.remote
        def countdown(n: int) -> Any:
            return n and countdown.remote(n - 1)

        return countdown

    data = cloudpickle.dumps(make())
    gc.collect()  # the original is gone, so that this builds a new one
    again = pickle.loads(data)
    cell = again._function.__closure__[0].cell_contents
    assert cell is again
    assert again._arity.high == 1


@skate.remote
def module_level(x: int) -> int:
    return x


SIGNATURES = [
    lambda: 0,
    lambda a: 0,
    lambda a, b=1: 0,
    lambda a, /, b: 0,
    lambda *args: 0,
    lambda a, *args, k: 0,
    lambda a, *, k=1: 0,
    lambda a=1, **kwargs: 0,
    lambda a, /, **kwargs: 0,
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((), {"a": 1}),
    ((1,), {"a": 1}),
    ((1,), {"b": 1}),
    ((1,), {"k": 1}),
    ((1, 2), {"k": 1}),
    ((), {"a": 1, "b": 2}),
    ((1,), {"z": 1}),
]


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: str(inspect.signature(f)))
def test_arguments_are_accepted_exactly_as_python_does(function: Any) -> None:
    arity = pickle.loads(pickle.dumps(arity_of(function)))
    for args, kwargs in CALLS:
        assert _fits(arity, args, kwargs) == _binds(function, args, kwargs), (args, kwargs)


def _fits(arity: Arity, args: Any, kwargs: Any) -> bool:
    if not kwargs and arity.low <= len(args) <= arity.high:
        return True
    try:
        arity.check("f", args, kwargs)
    except TypeError:
        return False
    return True


def _binds(function: Any, args: Any, kwargs: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def test_wrong_arguments_are_an_error_at_the_call() -> None:
    with pytest.raises(TypeError, match=r"add\(x, y=\.\.\.\).*'x'"):
        skate.remote(add).remote()
    with pytest.raises(TypeError, match="'z'"):
        skate.remote(add).remote(1, z=2)
    assert not skate.is_initialized()


class TestRunning:
    pytestmark = inline

    def test_partials_builtins_and_lambdas(self) -> None:
        assert skate.get(skate.remote(functools.partial(add, 5)).remote()) == 6
        assert skate.get(skate.remote(len).remote([1, 2])) == 2
        assert skate.get(skate.remote(lambda x: -x).remote(3)) == -3

    def test_a_wrapped_function(self) -> None:
        wrapped = skate.remote(doubled(lambda n: range(n)))
        assert skate.get(wrapped.remote(3)) == [0, 2, 4]

    def test_in_the_closure_of_another(self) -> None:
        remote_add = skate.remote(add)
        outer = skate.remote(lambda x: skate.get(remote_add.remote(x, y=10)))
        assert skate.get(outer.remote(1)) == 11

    def test_an_argument_may_have_any_name(self) -> None:
        @skate.remote
        def names(self: int, args: int, **kwargs: int) -> tuple[int, int, dict[str, int]]:
            return self, args, kwargs

        assert skate.get(names.remote(self=1, args=2, kwargs=3)) == (1, 2, {"kwargs": 3})
