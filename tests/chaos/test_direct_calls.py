"""Actors that other workers call directly die between their two messages for one answer: the value
for the hub, and the word to the caller that it is there."""

import os
import random
import signal

import pytest

import skate
from skate.engine import current_engine
from tests.chaos.givers import SIZE, Caller, Giver, ask, connect
from tests.support import PATIENCE, eventually, local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("method", ["give", "give_two"])
def test_a_value_that_never_reached_the_hub_is_an_error(method):
    giver = Giver.remote()
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(ask.remote(giver, "die_before_the_hub_knows", method), timeout=PATIENCE)


def test_a_value_that_never_reached_the_hub_is_made_again():
    giver = Giver.options(max_restarts=1, max_task_retries=1).remote()
    answer = ask.remote(giver, "die_before_the_hub_knows", "give_two")
    assert skate.get(answer, timeout=PATIENCE) == 2 * SIZE


def test_a_value_that_reached_the_hub_is_not_made_again(tally):
    giver = Giver.options(max_restarts=1, max_task_retries=1).remote()
    answer = ask.remote(giver, "die_before_the_caller_knows", "give", tally)
    assert skate.get(answer, timeout=PATIENCE) == SIZE
    skate.get(giver.pid.options(max_task_retries=-1).remote())  # after what was to run again
    assert len(tally) == 1


def test_an_actor_that_dies_before_the_first_connection_is_connected_to_in_its_next_life():
    giver = Giver.options(max_restarts=1, max_task_retries=1).remote()
    pid = skate.get(giver.pid.remote())
    workers = current_engine().hub.state.workers
    os.kill(pid, signal.SIGSTOP)
    connected = connect.remote(giver)
    eventually(lambda: any(worker.wants_peer for worker in list(workers.values())))
    os.kill(pid, signal.SIGKILL)
    skate.get(connected, timeout=PATIENCE)


def test_every_call_ends_while_its_actor_is_killed_again_and_again(flag):
    giver = Giver.options(max_restarts=-1).remote()
    callers = [Caller.remote() for _ in range(2)]
    enough = flag("enough")
    ends = [caller.call_until.remote(giver, enough.path, PATIENCE) for caller in callers]
    chance = random.Random(1)
    for _ in range(10):
        pid = skate.get(giver.pid.options(max_task_retries=-1).remote(), timeout=PATIENCE)
        skate.wait(ends, timeout=chance.uniform(0.02, 0.1))  # at any moment of their calls
        os.kill(pid, signal.SIGKILL)
    enough.set()
    assert skate.get(ends, timeout=2 * PATIENCE) == [True, True]
