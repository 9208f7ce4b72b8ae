"""Many threads, in the driver and inside tasks."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import skate
from tests.support import local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def identity(x):
    return x


@skate.remote
class Counter:
    def __init__(self):
        self.value = 0

    def increment(self):
        self.value += 1
        return self.value


def in_threads(work, count=8):
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def test_tasks_from_many_threads():
    def work(i):
        return sum(skate.get([identity.remote(i) for _ in range(20)]))

    assert in_threads(work) == [20 * i for i in range(8)]


def test_puts_and_gets_from_many_threads():
    def work(i):
        return [skate.get(skate.put(bytes([i]) * n))[:1] for n in (1, 1000, 300_000)]

    assert in_threads(work) == [[bytes([i])] * 3 for i in range(8)]


def test_one_actor_from_many_threads():
    counter = Counter.remote()
    in_threads(lambda i: skate.get([counter.increment.remote() for _ in range(20)]))
    assert skate.get(counter.increment.remote()) == 161


def test_the_order_of_each_thread_is_kept():
    @skate.remote
    class Log:
        def __init__(self):
            self.seen = []

        def add(self, who, i):
            self.seen.append((who, i))

        def get(self):
            return self.seen

    log = Log.remote()

    def work(who):
        for i in range(30):
            log.add.remote(who, i)

    in_threads(work, 4)
    seen = skate.get(log.get.remote())
    for who in range(4):
        assert [i for w, i in seen if w == who] == list(range(30))


def test_one_reference_got_by_many_threads():
    ref = identity.remote(b"x" * 200_000)
    assert in_threads(lambda i: len(skate.get(ref))) == [200_000] * 8


@parallel
def test_one_pending_reference_awaited_by_many_threads(flag):
    @skate.remote
    def hold(flag):
        flag.wait()
        return "released"

    go = flag("go")
    ref = hold.remote(go)
    results = []
    threads = [threading.Thread(target=lambda: results.append(skate.get(ref))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(60)
    assert results == ["released"] * 8


def test_threads_inside_a_task_call_skate():
    @skate.remote
    def spread():
        def work(i):
            return skate.get(identity.remote(i)) + skate.get(skate.put(i))

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(work, range(8)))

    assert skate.get(spread.remote(), timeout=60) == [2 * i for i in range(8)]


def test_a_thread_of_an_actor_calls_skate():
    @skate.remote
    class Background:
        def __init__(self):
            self.result = None
            self.thread = threading.Thread(target=self.run)
            self.thread.start()

        def run(self):
            self.result = skate.get(identity.remote("background"))

        def get(self):
            self.thread.join(60)
            return self.result

    assert skate.get(Background.remote().get.remote()) == "background"


def test_references_dropped_in_other_threads():
    def work(i):
        refs = [skate.put(b"d" * 1000) for _ in range(50)]
        values = skate.get(refs)
        del refs
        return len(values)

    assert in_threads(work) == [50] * 8


@pytest.mark.init(resources={f"r{i}": 1000 for i in range(4)})
def test_new_options_from_many_threads():
    def work(i):
        tasks = [identity.options(resources={f"r{i}": (n + 1) / 1000}) for n in range(50)]
        return sum(skate.get([task.remote(1) for task in tasks for _ in range(2)], timeout=60))

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert in_threads(work, 4) == [100] * 4
    finally:
        sys.setswitchinterval(usual)


class _Steps:
    """Two threads that export one function at a time: the first is done with that before the
    second is, and submits its task when the second has an answer."""

    def __init__(self):
        self.both_pickle = threading.Barrier(2)
        self.first_has_exported = threading.Event()
        self.second_has_an_answer = threading.Event()
        self.first = None

    def pickled(self):
        self.both_pickle.wait(60)
        if threading.current_thread() is not self.first:
            assert self.first_has_exported.wait(60)

    def argument_pickled(self):
        self.first_has_exported.set()
        assert self.second_has_an_answer.wait(60)


class _CallsWhenPickled:
    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        self.call()
        return str, ()


@local_only
def test_threads_that_export_a_function_at_a_time_do_not_disturb_each_other():
    @skate.remote
    def submits_from_two_threads():
        steps = _Steps()
        in_function = _CallsWhenPickled(steps.pickled)

        @skate.remote
        def echo(x, y=None):
            return x, in_function

        def submit_first():
            steps.first = threading.current_thread()
            return skate.get(echo.remote(1, _CallsWhenPickled(steps.argument_pickled)))

        def submit_second():
            answer = skate.get(echo.remote(2))
            steps.second_has_an_answer.set()
            return answer

        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(call) for call in (submit_first, submit_second)]
            return [answer.result(60) for answer in answers]

    assert skate.get(submits_from_two_threads.remote(), timeout=60) == [(1, ""), (2, "")]
