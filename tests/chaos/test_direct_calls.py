"""Actors that other workers call directly die between their two messages for one answer: the value
for the hub, and the word to the caller that it is there."""

import os
import random
import signal
import socket

import pytest

import skate
from skate.engine import current_engine
from skate.engine.local.socket_paths import use_socket
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


def test_an_actor_without_descriptors_is_called_by_the_hub():
    giver = Giver.remote()
    pid = skate.get(giver.open_all_it_can.remote(), timeout=PATIENCE)
    caller = Caller.remote()
    for _ in range(3):
        assert skate.get(caller.call.remote(giver), timeout=PATIENCE) == pid


def test_direct_calls_of_an_actor_without_descriptors_wait_until_it_has_some():
    giver = Giver.remote()
    first, *others = (Caller.remote() for _ in range(3))
    skate.get(first.call_directly.remote(giver), timeout=PATIENCE)
    pid = skate.get(giver.open_all_it_can.remote(), timeout=PATIENCE)
    answers = [caller.call_directly.remote(giver) for caller in others]
    skate.wait(answers, num_returns=2, timeout=1)  # most likely they are under way then
    skate.get(giver.close_all.remote(), timeout=PATIENCE)
    assert skate.get(answers, timeout=PATIENCE) == [pid, pid]


def test_nobody_connects_to_what_another_user_listens_on():
    giver, caller = Giver.remote(), Caller.remote()
    connected = caller.call_what_belongs_to_a_stranger.remote(giver)
    assert skate.get(connected, timeout=PATIENCE) is False


def test_another_user_is_not_listened_to():
    giver, caller = Giver.remote(), Caller.remote()
    skate.get(caller.call_directly.remote(giver), timeout=PATIENCE)
    skate.get(giver.take_all_for_strangers.remote(), timeout=PATIENCE)
    workers = current_engine().hub.state.workers
    (name,) = {worker.listening for worker in workers.values()} - {"", None}
    folder = skate.get_runtime_context().get_temp_dir()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(PATIENCE)
        use_socket(folder, name, stranger.connect)
        assert stranger.recv(1) == b""


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
