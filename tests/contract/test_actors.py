"""Actors: construction, calls, their order, state, results and errors."""

# ruff: noqa: UP028 (Ray cannot stream a `yield from`)

import pytest

import skate
from tests.support import parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
class Counter:
    """Counts."""

    def __init__(self, start=0, *, step=1):
        self.value = start
        self.step = step

    def increment(self, by=None):
        self.value += self.step if by is None else by
        return self.value

    def get(self):
        return self.value

    def fail(self):
        raise ValueError("method failed")

    @skate.method(num_returns=2)
    def pair(self):
        return self.value, self.step


@skate.remote
def identity(x):
    return x


@skate.remote
def slow(flag, value):
    flag.wait()
    return value


# -- construction ---------------------------------------------------------------------------------


def test_constructor_arguments():
    assert skate.get(Counter.remote().get.remote()) == 0
    assert skate.get(Counter.remote(5, step=2).increment.remote()) == 7


def test_references_as_constructor_arguments():
    counter = Counter.remote(identity.remote(3), step=skate.put(4))
    assert skate.get(counter.increment.remote()) == 7


def test_a_class_without_a_constructor():
    @skate.remote
    class Plain:
        def hello(self):
            return "hello"

    assert skate.get(Plain.remote().hello.remote()) == "hello"


def test_remote_as_a_call():
    class Plain:
        def hello(self):
            return "hello"

    assert skate.get(skate.remote(Plain).remote().hello.remote()) == "hello"
    assert skate.get(skate.remote(num_cpus=1)(Plain).remote().hello.remote()) == "hello"


def test_each_actor_has_its_own_state():
    first, second = Counter.remote(), Counter.remote(10)
    skate.get([first.increment.remote(), second.increment.remote()])
    assert skate.get([first.get.remote(), second.get.remote()]) == [1, 11]


def test_wrong_constructor_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError):
        Counter.remote(1, 2, 3)


def test_a_remote_class_is_not_instantiated_like_a_plain_one():
    with pytest.raises(TypeError, match="remote"):
        Counter()


def test_a_remote_class_cannot_be_inherited_from():
    with pytest.raises(TypeError):

        class Sub(Counter):
            pass


def test_inheritance_of_plain_classes():
    class Base:
        def __init__(self):
            self.name = "base"

        def who(self):
            return self.name

        def kind(self):
            return "base"

    @skate.remote
    class Derived(Base):
        def __init__(self):
            super().__init__()
            self.name += "+derived"

        def kind(self):
            return "derived of " + super().kind()

    actor = Derived.remote()
    assert skate.get([actor.who.remote(), actor.kind.remote()]) == [
        "base+derived",
        "derived of base",
    ]


def test_static_and_class_methods():
    @skate.remote
    class Tools:
        factor = 3

        @staticmethod
        def double(x):
            return 2 * x

        @classmethod
        def scale(cls, x):
            return cls.factor * x

    tools = Tools.remote()
    assert skate.get([tools.double.remote(2), tools.scale.remote(2)]) == [4, 6]


def test_a_method_may_share_its_name_with_an_attribute():
    @skate.remote
    class Light:
        def __init__(self):
            self.on = True

        def on(self):
            return self.on

    assert skate.get(Light.remote().on.remote()) is True


def test_an_actor_can_be_told_to_be_ready():
    assert skate.get(Counter.remote().__ray_ready__.remote()) is True


def test_any_function_can_be_called_on_an_actor():
    counter = Counter.remote(5)
    assert skate.get(counter.__ray_call__.remote(lambda self, x: self.value + x, 1)) == 6


# -- calls ----------------------------------------------------------------------------------------


def test_calls_run_in_the_order_they_were_made():
    @skate.remote
    class Log:
        def __init__(self):
            self.seen = []

        def add(self, x):
            self.seen.append(x)

        def get(self):
            return self.seen

    log = Log.remote()
    for i in range(100):
        log.add.remote(i)
    assert skate.get(log.get.remote()) == list(range(100))


@parallel
def test_the_order_holds_with_slow_arguments(flag):
    @skate.remote
    class Log:
        def __init__(self):
            self.seen = []

        def add(self, x):
            self.seen.append(x)
            return list(self.seen)

    go = flag("go")
    log = Log.remote()
    log.add.remote(slow.remote(go, 1))
    last = log.add.remote(2)
    go.set()
    assert skate.get(last) == [1, 2]


@skate.remote
class Log:
    def __init__(self):
        self.seen = []

    def add(self, entry):
        self.seen.append(entry)

    def get(self):
        return self.seen

    def wait(self, flag):
        flag.wait()


@parallel
@pytest.mark.init(num_cpus=3)
def test_the_order_holds_inside_a_task_when_a_call_between_fails(flag):
    @skate.remote
    def fail():
        raise ValueError("a bad argument")

    @skate.remote
    def caller(log, go):
        for _ in range(50):  # so that calls take the shortest way
            skate.get(log.get.remote())
        bad = fail.remote()
        skate.wait([bad])
        first, second = log.add.remote(slow.remote(go, "first")), log.add.remote(bad)
        skate.wait([second], timeout=1)
        third = log.add.remote("third")
        go.set()
        skate.get([first, third], timeout=60)
        return skate.get(log.get.remote())

    log = Log.options(num_cpus=0).remote()
    assert skate.get(caller.remote(log, flag("go")), timeout=60) == ["first", "third"]


@parallel
def test_a_call_behind_a_slow_one_keeps_its_arguments_and_options(flag):
    @skate.remote
    def caller(log, go):
        for _ in range(50):  # so that calls take the shortest way
            skate.get(log.get.remote())
        log.wait.remote(go)
        behind = log.add.options(name="behind").remote(skate.put("behind"))
        many = [identity.options(name=f"task {i}").remote(i) for i in range(1100)]
        go.set()
        skate.get([behind, *many], timeout=60)
        return skate.get(log.get.remote())

    log = Log.options(num_cpus=0).remote()
    assert skate.get(caller.remote(log, flag("go")), timeout=60) == ["behind"]


def test_a_reference_as_an_argument_becomes_its_value():
    counter = Counter.remote()
    assert skate.get(counter.increment.remote(by=identity.remote(5))) == 5
    assert skate.get(counter.increment.remote(counter.get.remote())) == 10


def test_arguments_are_taken_at_the_time_of_the_call():
    @skate.remote
    class Keeper:
        def keep(self, data):
            self.data = data
            return data

    keeper, data = Keeper.remote(), [1]
    ref = keeper.keep.remote(data)
    data.append(2)
    assert skate.get(ref) == [1]


def test_several_results():
    counter = Counter.remote(1, step=2)
    assert skate.get(counter.pair.remote()) == [1, 2]
    assert skate.get(counter.pair.options(num_returns=1).remote()) == (1, 2)


def test_no_result():
    counter = Counter.remote()
    assert counter.increment.options(num_returns=0).remote() is None
    assert skate.get(counter.get.remote()) == 1


def test_wrong_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError):
        Counter.remote().increment.remote(1, 2, 3)


def test_an_unknown_method_is_an_attribute_error():
    with pytest.raises(AttributeError, match="decrement"):
        Counter.remote().decrement  # noqa: B018


def test_a_method_is_not_called_like_a_plain_one():
    with pytest.raises(TypeError, match="remote"):
        Counter.remote().get()


def test_results_of_any_size():
    @skate.remote
    class Maker:
        def make(self, n):
            return b"m" * n

    maker = Maker.remote()
    assert [len(skate.get(maker.make.remote(n))) for n in (0, 1_000, 5_000_000)] == [
        0,
        1_000,
        5_000_000,
    ]


# -- generators -----------------------------------------------------------------------------------


@skate.remote
class Streamer:
    def count(self, n):
        for i in range(n):
            yield i
        if n > 100:
            raise ValueError("too many")

    async def count_later(self, n):
        for i in range(n):
            yield i


@skate.remote
class SyncStreamer:
    def count(self, n):
        for i in range(n):
            yield i
        if n == 2:
            raise ValueError("two is wrong")


def test_a_generator_method_streams():
    stream = SyncStreamer.remote().count.remote(3)
    assert [skate.get(ref) for ref in stream] == [0, 1, 2]


def test_a_generator_method_breaks():
    stream = SyncStreamer.remote().count.remote(2)
    assert skate.get([next(stream), next(stream)]) == [0, 1]
    with pytest.raises(ValueError, match="two is wrong"):
        skate.get(next(stream))


def test_an_async_generator_method_streams():
    stream = Streamer.remote().count_later.remote(3)
    assert [skate.get(ref) for ref in stream] == [0, 1, 2]


# -- errors ---------------------------------------------------------------------------------------


def test_an_error_in_a_method_leaves_the_actor_alive():
    counter = Counter.remote(1)
    with pytest.raises(ValueError, match="method failed"):
        skate.get(counter.fail.remote())
    assert skate.get(counter.get.remote()) == 1


def test_an_error_in_the_constructor_is_the_answer_to_every_call():
    @skate.remote
    class Broken:
        def __init__(self):
            raise ValueError("constructor failed")

        def hello(self):
            return "never"

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(skate.exceptions.RayActorError, match="constructor failed"):
            skate.get(broken.hello.remote())


def test_an_error_in_an_argument_of_the_constructor():
    @skate.remote(max_retries=0)
    def fail():
        raise ValueError("argument failed")

    counter = Counter.remote(fail.remote())
    with pytest.raises(skate.exceptions.RayActorError):
        skate.get(counter.get.remote())


def test_an_error_in_an_argument_of_a_call():
    @skate.remote
    def fail():
        raise ValueError("argument failed")

    counter = Counter.remote()
    with pytest.raises(ValueError, match="argument failed"):
        skate.get(counter.increment.remote(fail.remote()))
    assert skate.get(counter.get.remote()) == 0


def test_errors_of_methods_are_retried_on_request(tally):
    @skate.remote
    class Shaky:
        @skate.method(max_task_retries=3, retry_exceptions=[ValueError])
        def work(self):
            if tally.add() < 3:
                raise ValueError("not yet")
            return "done"

    assert skate.get(Shaky.remote().work.remote()) == "done"


# -- actors among themselves ----------------------------------------------------------------------


def test_an_actor_creates_actors():
    @skate.remote
    class Parent:
        def __init__(self):
            self.child = Counter.remote(1)

        def ask(self):
            return skate.get(self.child.increment.remote())

    assert skate.get(Parent.remote().ask.remote()) == 2


def test_an_actor_calls_another():
    @skate.remote
    class Caller:
        def call(self, other, n):
            return skate.get([other.increment.remote() for _ in range(n)])

    counter = Counter.remote()
    assert skate.get(Caller.remote().call.remote(counter, 3)) == [1, 2, 3]
    assert skate.get(counter.get.remote()) == 3


def test_an_actor_submits_tasks():
    @skate.remote
    class Boss:
        def delegate(self, n):
            return skate.get([identity.remote(i) for i in range(n)])

    assert skate.get(Boss.remote().delegate.remote(3)) == [0, 1, 2]


def test_an_actor_returns_a_reference():
    @skate.remote
    class Maker:
        def make(self):
            return [skate.put("inner"), identity.remote("task")]

    first, second = skate.get(Maker.remote().make.remote())
    assert skate.get([first, second]) == ["inner", "task"]


def test_an_actor_knows_its_own_handle():
    @skate.remote
    class Selfish:
        def __init__(self):
            self.value = 5

        def me(self):
            return skate.get_runtime_context().current_actor

        def get(self):
            return self.value

    actor = Selfish.remote()
    me = skate.get(actor.me.remote())
    assert me == actor
    assert skate.get(me.get.remote()) == 5


@pytest.mark.parametrize("kind", ["async", "threads"])
def test_calls_of_concurrent_actors_have_no_order_to_keep(kind):
    class Worker:
        def work(self):
            return 1

    class AsyncWorker:
        async def work(self):
            return 1

    options = {"allow_out_of_order_execution": False}
    if kind == "async":
        cls = skate.remote(AsyncWorker).options(**options)
    else:
        cls = skate.remote(Worker).options(max_concurrency=2, **options)
    with pytest.raises(ValueError, match="allow_out_of_order_execution"):
        cls.remote()
    plain = skate.remote(Worker).options(**options).remote()
    assert skate.get(plain.work.remote()) == 1


def test_a_decorator_of_calls_sees_and_changes_those_of_a_method():
    def larger(function):
        function.__ray_invocation_decorator__ = lambda invoke: (
            lambda args, kwargs: invoke((args[0] + 1,), kwargs)
        )
        return function

    class Echo:
        @larger
        def echo(self, x):
            return x

        def plain(self, x):
            return x

    @skate.remote
    def from_elsewhere(actor):
        return skate.get(actor.echo.remote(5))

    actor = skate.remote(Echo).remote()
    assert skate.get([actor.echo.remote(1), actor.plain.remote(1)]) == [2, 1]
    assert skate.get(from_elsewhere.remote(actor)) == 6
