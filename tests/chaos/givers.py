"""An actor whose answers are too large for a message, and that can be told when to die.

It is started many times, so this module imports little.
"""

import contextlib
import os
import resource
import signal

import skate
from skate.engine import current_engine
from skate.engine.local import messages as m
from skate.engine.local import peers, wire

SIZE = 200_000  # bytes: more than travel inside a message
flush = wire.Connection.flush


@skate.remote(num_cpus=0)
class Giver:
    def pid(self):
        return os.getpid()

    def give(self, tally=None):
        if tally is not None:
            tally.add()
        return bytes(SIZE)

    @skate.method(num_returns=2)
    def give_two(self):
        return bytes(SIZE), bytes(SIZE)

    def open_all_it_can(self):
        """Leave no descriptor to this process."""
        limit = max(map(int, os.listdir("/proc/self/fd"))) + 20
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.files = []
        with contextlib.suppress(OSError):
            while True:
                self.files.append(os.open("/dev/null", os.O_RDONLY))
        return os.getpid()

    def take_all_for_strangers(self):
        """See another user at the other end of each connection from now on."""
        peers.user_of_peer = lambda sock: -1

    def close_all(self):
        while self.files:
            os.close(self.files.pop())

    def die_before_the_hub_knows(self):
        """When the next value for the hub is to be written."""
        hub = current_engine().hub
        die_when(lambda connection: connection is hub and has(hub, m.PutValueFor))

    def die_before_the_caller_knows(self):
        """When the next value for the hub has been written, and nothing else."""
        hub = current_engine().hub
        die_when(
            lambda connection: connection is not hub and has(hub, m.PutValueFor) and flush(hub)
        )


def has(connection, kind):
    return any(m.MESSAGES[number] is kind for number, _ in connection.outbox)


def die_when(is_time):
    def flush_or_die(connection):
        if is_time(connection):
            os.kill(os.getpid(), signal.SIGKILL)
        return flush(connection)

    wire.Connection.flush = flush_or_die


def call_until_direct(giver):
    links = current_engine().peers._links
    while not any(link.connection is not None for link in links.values()):
        skate.get(giver.pid.remote())


connect = skate.remote(call_until_direct)


@skate.remote
def ask(giver, trap, method, *args):
    """Call a method directly, with the trap set; the length of what it returns."""
    call_until_direct(giver)
    skate.get(getattr(giver, trap).remote())
    refs = getattr(giver, method).remote(*args)
    return sum(map(len, skate.get(refs if isinstance(refs, list) else [refs])))


@skate.remote
class Caller:
    def call(self, giver):
        return skate.get(giver.pid.remote())

    def call_what_belongs_to_a_stranger(self, giver):
        """Call until the other end has been looked at; whether there is a connection then."""
        seen = []
        peers.user_of_peer = lambda sock: seen.append(sock) or -1
        while not seen:
            skate.get(giver.pid.remote())
        links = current_engine().peers._links
        return any(link.connection is not None for link in links.values())

    def call_directly(self, giver):
        call_until_direct(giver)
        return self.call(giver)

    def call_until(self, giver, path, timeout):
        """Call until there is such a file, and then until twenty calls in a row succeed."""
        while True:
            last_round = os.path.exists(path)
            refs = [giver.give.remote() for _ in range(20)]
            if sum(succeeds(ref, timeout) for ref in refs) == len(refs) and last_round:
                return True


def succeeds(ref, timeout):
    try:
        return len(skate.get(ref, timeout=timeout)) == SIZE
    except skate.exceptions.ActorError:
        return False
