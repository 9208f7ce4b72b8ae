"""Signal handlers of the user's that raise, as time-outs do, at any moment."""

import os
import signal
import textwrap

import pytest

import skate
from tests.chaos import drivers
from tests.support import local_only

pytestmark = local_only

ALARMS = """
    import random, signal, skate

    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    skate.init(num_cpus=2)

    @skate.remote
    def double(x):
        return 2 * x

    @skate.remote
    class Echo:
        def say(self, x):
            return x

    echo = Echo.remote()
"""


#: How the one signal of a round comes, after a random time, and what the user catches.
RINGS = {
    "alarm": (
        "signal.setitimer(signal.ITIMER_REAL, 1e-5 + chance.random() * 0.004)",
        "Alarm",
    ),
    "interrupt": ("interrupt.release()", "KeyboardInterrupt"),
}
INTERRUPTS = """
    import os, threading, time

    def interrupt_when_told():
        pause = random.Random({seed})
        while interrupt.acquire():
            time.sleep(1e-5 + pause.random() * 0.004)
            os.kill(os.getpid(), signal.SIGINT)

    interrupt = threading.Semaphore(0)
    threading.Thread(target=interrupt_when_told, daemon=True).start()
"""


@pytest.mark.parametrize("how", RINGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_signals_at_random_moments_reach_the_user_and_lose_nothing(how, seed):
    code = """
        chance, kept, rang, turn = random.Random({seed}), [], 0, 0
        while rang < 200:
            try:
                {ring}
                for _ in range(5_000):  # then again: Python ignores errors in some callbacks
                    turn += 1
                    ref = double.remote(turn); kept.append((2 * turn, ref))
                    ref = echo.say.remote(turn); kept.append((turn, ref))
                    ref = skate.put(bytes(turn % 7 * 30_000)); kept.append((None, ref))
                    if turn % 3 == 0:
                        skate.wait([ref for _, ref in kept], num_returns=len(kept))
                    if turn % 10 == 0:
                        values = skate.get([ref for _, ref in kept])
                        for (right, _), value in zip(kept, values):
                            assert right is None or right == value, (right, value)
                        kept = []
            except {raised}:
                rang += 1
        for right, ref in kept:
            value = skate.get(ref, timeout=60)
            assert right is None or value == right
        print("rang", rang, skate.get([double.remote(i) for i in range(100)], timeout=60)[-1])
        skate.shutdown()
    """
    ring, raised = RINGS[how]
    code = textwrap.dedent(INTERRUPTS) + textwrap.dedent(code)
    for name, text in (("{seed}", str(seed)), ("{ring}", ring), ("{raised}", raised)):
        code = code.replace(name, text)
    assert drivers.run_code(_joined(code)) == "rang 200 198\n"


def test_an_alarm_while_something_is_pickled_is_no_error_of_its_value():
    code = """
        large = [{"number": n} for n in range(300_000)]
        asked = [
            lambda: skate.put(large),
            lambda: double.remote(large),
            lambda: skate.remote(lambda: len(large)).remote(),
        ]
        for ask in asked:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            try:
                ask()
                print("not interrupted")
            except Alarm:
                print("rang")
        skate.shutdown()
    """
    assert drivers.run_code(_joined(code)) == "rang\n" * 3


def test_a_handler_that_returns_does_not_end_the_wait():
    code = """
        rang = []
        signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))

        @skate.remote
        def slow(seconds):
            import time
            time.sleep(seconds)
            return "value"

        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        print(skate.get(slow.remote(0.5)), skate.wait([slow.remote(0.5)])[1], len(rang) > 4)
        signal.setitimer(signal.ITIMER_REAL, 0)
    """
    assert drivers.run_code(_joined(code)) == "value [] True\n"


def test_an_alarm_ends_a_wait_that_would_not_end():
    code = """
        import asyncio

        @skate.remote
        class Never:
            async def answer(self):
                await asyncio.Event().wait()

        never = Never.remote().answer.remote()
        for wait in (lambda: skate.get(never), lambda: skate.wait([never])):
            signal.alarm(1)
            try:
                wait()
            except Alarm:
                print("rang", skate.get(double.remote(4), timeout=60))
    """
    assert drivers.run_code(_joined(code)) == "rang 8\nrang 8\n"


def test_alarms_during_shutdown():
    code = """
        from skate.engine import current_engine

        for round in range(5):
            skate.init(num_cpus=2, ignore_reinit_error=True)
            kept = [double.remote(i) for i in range(20)]
            skate.get(kept[0])
            engine = current_engine()

            def shut_down(usual=engine.shutdown):  # so that no alarm rings before it
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (round + 1))
                usual()

            engine.shutdown = shut_down
            try:  # once: a second alarm could ring while the first is handled below
                skate.shutdown()
                while True:
                    pass
            except Alarm:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert not skate.is_initialized()
        print("ended")
    """
    assert drivers.run_code(_joined(code)) == "ended\n"


def test_the_handler_is_the_users_again_after_shutdown():
    code = """
        skate.get(double.remote(1))
        assert signal.getsignal(signal.SIGALRM) == ring
        skate.shutdown()
        assert signal.getsignal(signal.SIGALRM) is ring
        print("as before")
    """
    assert drivers.run_code(_joined(code)) == "as before\n"


@pytest.mark.usefixtures("engine")
def test_a_task_limits_its_own_wait_by_an_alarm():
    @skate.remote(num_cpus=0)
    def limited():
        def ring(number, frame):
            raise TimeoutError("rang")

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            return skate.get(never.remote())
        except TimeoutError as error:
            return str(error), skate.get(skate.put("usable"))

    @skate.remote(num_cpus=0)
    def never():
        signal.pause()

    assert skate.get(limited.remote(), timeout=60) == ("rang", "usable")


@pytest.mark.usefixtures("engine")
def test_an_alarm_that_rings_after_its_task_leaves_the_worker_alone(flag):
    @skate.remote(num_cpus=2)
    def forgetful(rang):
        def ring(number, frame):
            rang.set()
            raise TimeoutError("nobody waits any more")

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        return os.getpid()

    rang = flag("rang")
    pid = skate.get(forgetful.remote(rang), timeout=60)
    rang.wait()
    assert skate.get(skate.remote(os.getpid).options(num_cpus=2).remote(), timeout=60) == pid


def _joined(code):
    return textwrap.dedent(ALARMS) + textwrap.dedent(code)
