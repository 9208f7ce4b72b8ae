"""Errors: their type, cause, text and way through dependencies."""

import os
import threading

import pytest

import skate
from tests.support import local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")

TaskError = skate.exceptions.RayTaskError


class OddError(Exception):
    """An error whose constructor cannot be called with its args."""

    def __init__(self, code, *, reason):
        super().__init__(f"{code}: {reason}")
        self.code, self.reason = code, reason


class UnpicklableError(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def raising(error):
    @skate.remote
    def fail():
        raise error

    return fail.remote()


def caught(ref):
    with pytest.raises(Exception) as info:  # noqa: PT011
        skate.get(ref)
    return info.value


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad value"),
        KeyError("key"),
        OSError(2, "no such thing", "file"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        StopIteration("stop"),
        AssertionError("asserted"),
        ZeroDivisionError("zero"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_of_the_users_type_and_a_task_error(error):
    found = caught(raising(error))
    assert isinstance(found, type(error))
    assert isinstance(found, TaskError)
    assert isinstance(found, skate.exceptions.RayError)


@pytest.mark.parametrize(
    "cls", [MemoryError, RecursionError, AssertionError, BufferError, BlockingIOError, EOFError]
)
def test_an_error_of_python_keeps_its_type(cls):
    error = caught(raising(cls("as it was")))
    assert isinstance(error, cls)
    assert isinstance(error, TaskError)
    assert "as it was" in str(error)


def test_the_cause_is_the_original_error():
    cause = caught(raising(ValueError("original", 5))).cause
    assert type(cause) is ValueError
    assert cause.args == ("original", 5)


@pytest.mark.differs_from_ray("Ray keeps only attributes set in Python")
def test_attributes_of_the_error_are_kept():
    error = OSError(2, "no such thing")
    found = caught(raising(error))
    assert found.errno == 2


@pytest.mark.differs_from_ray("Ray gives up with an error of another kind")
def test_an_error_with_an_odd_constructor():
    @skate.remote
    def fail():
        raise OddError(7, reason="odd")

    found = caught(fail.remote())
    assert isinstance(found, TaskError)
    assert "7: odd" in str(found)
    assert "OddError" in str(found)


def test_an_error_that_cannot_be_pickled():
    @skate.remote
    def fail():
        raise UnpicklableError("with a lock")

    found = caught(fail.remote())
    assert isinstance(found, TaskError)
    assert "with a lock" in str(found)
    assert "UnpicklableError" in str(found)


def test_an_error_that_cannot_be_unpickled():
    class RefusesError(Exception):
        def __reduce__(self):
            return int, ("not a number",)

    @skate.remote
    def fail():
        raise RefusesError("hard to read")

    found = caught(fail.remote())
    assert isinstance(found, skate.exceptions.RayError)
    assert "RefusesError" in str(found) or "not a number" in str(found)


def test_the_text_shows_the_line_of_the_user():
    @skate.remote
    def fail():
        table = {}
        return table["the missing key"]

    text = str(caught(fail.remote()))
    assert 'table["the missing key"]' in text
    assert "KeyError" in text
    assert "fail" in text


@pytest.mark.differs_from_ray("Ray shows its own frames of nested calls")
def test_the_text_does_not_show_the_engine():
    @skate.remote
    def inner():
        raise ValueError("deep")

    @skate.remote
    def outer():
        return skate.get(inner.remote())

    text = str(caught(outer.remote()))
    assert "skate/engine" not in text
    assert "_api.py" not in text
    assert text.count("raise ValueError") == 1


def test_a_chained_error_shows_both():
    @skate.remote
    def fail():
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    text = str(caught(fail.remote()))
    assert "first" in text
    assert "second" in text


@pytest.mark.parametrize("use", [sum, lambda refs: refs[0].upper(), lambda refs: refs[0][0]])
def test_a_reference_that_is_taken_for_its_value_is_explained(use):
    @skate.remote
    def inner(refs):
        return use(refs)

    @skate.remote
    def outer(refs):
        return skate.get(inner.remote(refs))

    text = str(caught(outer.remote([skate.put("a")])))
    assert text.count("in a list or a dictionary stays") == 1


class NoText:
    def __str__(self):
        raise ValueError("there is none")

    __repr__ = __str__


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_an_error_without_a_text_is_still_of_its_type(kind):
    noted = kind("bad")
    noted.__notes__ = [1, None]
    for error in (kind(NoText()), noted):
        assert isinstance(caught(raising(error)), kind)


def test_an_error_passes_through_dependants(tally):
    @skate.remote
    def use(x):
        tally.add()

    found = caught(use.remote(use.remote(raising(ValueError("at the root")))))
    assert isinstance(found, ValueError)
    assert "at the root" in str(found)
    assert len(tally) == 0


def test_an_error_in_a_nested_task():
    @skate.remote
    def inner():
        raise ValueError("deep inside")

    @skate.remote
    def outer():
        skate.get(inner.remote())

    found = caught(outer.remote())
    assert isinstance(found, ValueError)
    assert "deep inside" in str(found)


def test_a_task_can_handle_the_error_of_another():
    @skate.remote
    def handle(box):
        try:
            skate.get(box[0])
        except ValueError as error:
            return str(error.cause)

    assert skate.get(handle.remote([raising(ValueError("handled"))])) == "handled"


def test_the_first_error_of_a_list_is_raised():
    refs = [skate.put(1), raising(KeyError("first")), raising(ValueError("second"))]
    skate.wait(refs, num_returns=3)
    with pytest.raises(KeyError):
        skate.get(refs)


@parallel
def test_an_error_is_raised_before_the_rest_is_there(flag):
    @skate.remote
    def hold(flag):
        flag.wait()

    go = flag("go")
    held = hold.remote(go)
    with pytest.raises(ValueError, match="early"):
        skate.get([held, raising(ValueError("early"))], timeout=60)
    go.set()
    skate.get(held)


def test_an_error_can_be_got_again_and_again():
    ref = raising(ValueError("again"))
    for _ in range(3):
        with pytest.raises(ValueError, match="again"):
            skate.get(ref)


def test_an_error_of_an_actor_names_the_method():
    @skate.remote
    class Actor:
        def method(self):
            raise ValueError("in a method")

    actor = Actor.remote()
    text = str(caught(actor.method.remote()))
    assert "Actor.method" in text
    assert "in a method" in text


@pytest.mark.engines("inline", "local")
def test_an_error_names_the_task_as_the_program_did():
    @skate.remote
    def fail():
        raise ValueError

    @skate.remote
    class Failing:
        def fail(self):
            raise ValueError

    failing = Failing.remote()
    assert "skate::first()" in str(caught(fail.options(name="first").remote()))
    assert "skate::second()" in str(caught(failing.fail.options(name="second").remote()))
    assert "skate::Failing.fail()" in str(caught(failing.fail.remote()))


def test_except_clauses_work_by_the_users_own_class():
    class BaseError(Exception):
        pass

    class SpecialError(BaseError):
        pass

    @skate.remote
    def fail():
        raise SpecialError("special")

    with pytest.raises(BaseError):
        skate.get(fail.remote())


def test_an_error_can_be_pickled_by_the_user():
    import cloudpickle

    found = caught(raising(ValueError("travels")))
    again = cloudpickle.loads(cloudpickle.dumps(found))
    assert isinstance(again, ValueError)
    assert "travels" in str(again)


def test_a_task_error_can_be_reraised_in_another_task():
    error = caught(raising(ValueError("again")))
    found = caught(raising(error))
    assert isinstance(found, ValueError)


# -- what cannot be serialised --------------------------------------------------------------------


class Config:
    def __init__(self):
        self.lock = threading.Lock()


def test_an_unserialisable_argument_is_refused_at_the_call():
    @skate.remote
    def use(x):
        return x

    with pytest.raises(TypeError, match="lock"):
        use.remote({"config": Config()})


@pytest.mark.differs_from_ray("Ray does not name the place")
def test_the_path_to_what_cannot_be_serialised_is_named():
    @skate.remote
    def use(config):
        return config

    with pytest.raises(TypeError) as info:
        use.remote({"settings": [Config()]})
    assert "lock" in str(info.value)
    assert "settings" in str(info.value)


@parallel
@pytest.mark.differs_from_ray("Ray does not name the place")
def test_an_unserialisable_closure_names_the_variable():
    secret_lock = threading.Lock()

    @skate.remote
    def use():
        return secret_lock

    with pytest.raises(TypeError, match="secret_lock"):
        use.remote()


def test_an_unserialisable_result_is_an_error():
    @skate.remote
    def make():
        return Config()

    found = caught(make.remote())
    assert isinstance(found, TypeError)
    assert "lock" in str(found)


def test_an_unserialisable_result_of_an_actor_leaves_it_alive():
    @skate.remote
    class Maker:
        def bad(self):
            return threading.Lock()

        def good(self):
            return "good"

    maker = Maker.remote()
    assert isinstance(caught(maker.bad.remote()), TypeError)
    assert skate.get(maker.good.remote()) == "good"


def test_a_value_that_cannot_be_unpickled_is_an_error():
    class Bomb:
        def __reduce__(self):
            return int, ("not a number",)

    @skate.remote
    def use(x):
        return x

    with pytest.raises(skate.exceptions.RayError):
        skate.get(use.remote(Bomb()))


def test_the_tree_of_errors():
    e = skate.exceptions
    for name in (
        "RayTaskError",
        "RayActorError",
        "WorkerCrashedError",
        "TaskCancelledError",
        "GetTimeoutError",
        "ObjectLostError",
        "ObjectStoreFullError",
        "OutOfDiskError",
        "OutOfMemoryError",
        "RuntimeEnvSetupError",
        "PendingCallsLimitExceeded",
    ):
        assert issubclass(getattr(e, name), e.RayError), name
    assert issubclass(e.ActorDiedError, e.RayActorError)
    assert issubclass(e.ActorUnavailableError, e.RayActorError)
    assert issubclass(e.GetTimeoutError, TimeoutError)


@parallel
def test_what_killed_an_argument_is_the_cause_of_the_error():
    @skate.remote
    class Mortal:
        def die(self):
            os._exit(1)

    @skate.remote
    def use(value):
        return value

    with pytest.raises(skate.exceptions.ActorDiedError) as caught:
        skate.get(use.remote(Mortal.remote().die.remote()))
    assert isinstance(caught.value, TaskError)
    assert "use" in str(caught.value)


def test_several_results_need_several_values():
    @skate.remote(num_returns=2)
    def one():
        return 1

    with pytest.raises(TypeError, match="int"):
        skate.get(one.remote())


def test_a_failed_argument_names_both_tasks():
    @skate.remote
    def broken_source():
        raise ValueError("no value")

    @skate.remote
    def middle(value):
        return value

    @skate.remote
    class Consumer:
        def consume(self, value):
            return value

    for ref, name in (
        (middle.remote(broken_source.remote()), "middle"),
        (Consumer.remote().consume.remote(middle.remote(broken_source.remote())), "consume"),
    ):
        error = caught(ref)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)
        assert "broken_source()" in str(error)
        assert f"{name}()" in str(error).splitlines()[0]


@parallel
@pytest.mark.parametrize(
    ("end", "exit_type"),
    [
        (lambda self: skate.actor.exit_actor(), "INTENDED_USER_EXIT"),
        (lambda self: os._exit(3), "SYSTEM_ERROR"),
    ],
    ids=["exit_actor", "crash"],
)
def test_a_dead_actor_says_how_its_process_ended(end, exit_type):
    @skate.remote
    class Mortal:
        def end(self):
            end(self)

    actor = Mortal.remote()
    first = caught(actor.end.remote())
    assert isinstance(first, skate.exceptions.ActorDiedError)
    assert exit_type in str(first)
    assert exit_type in str(caught(actor.__ray_ready__.remote()))


def test_a_failing_constructor_is_called_the_creation_task():
    @skate.remote
    class Stillborn:
        def __init__(self):
            raise ValueError("no birth")

    error = caught(Stillborn.remote().__ray_ready__.remote())
    assert isinstance(error, skate.exceptions.ActorDiedError)
    assert "creation task" in str(error)
    assert "no birth" in str(error)


def refuse_to_be_read():
    raise RuntimeError("I stay packed")


class Sealed:
    def __reduce__(self):
        return refuse_to_be_read, ()


@local_only
def test_an_error_of_unpickling_names_the_task():
    @skate.remote
    def seal():
        return Sealed()

    @skate.remote
    def inside(refs):
        with pytest.raises(RuntimeError, match="I stay packed") as info:
            skate.get(refs)
        return noted(info.value)

    refs = [seal.remote(), seal.remote(), skate.put(Sealed())]
    for ref, said in [(refs[0], "the result of seal"), (refs[2], "the value")]:
        for given in (ref, [skate.put(1), ref]):
            error = caught(given)
            assert isinstance(error, RuntimeError)
            assert f"{said} ({ref!r}) was unpickled" in noted(error)
    assert "the result of seal" in skate.get(inside.remote([refs[0]]))


def noted(error):
    """The notes of an error, or its message where Python has no notes."""
    return "".join(getattr(error, "__notes__", [str(error)]))


def test_what_pickle_said_ends_with_one_full_stop():
    class Proud:
        def __reduce__(self):
            raise TypeError("I will not be pickled.")

    with pytest.raises(TypeError, match="I will not be pickled") as info:
        skate.put(Proud())
    assert ".." not in str(info.value)
