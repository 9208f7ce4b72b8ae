"""Reference counts, reachability of actors and streams, against models, in random order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from skate.engine.local.hub.actors import ALIVE, HubActor
from skate.engine.local.hub.counts import Counts
from skate.engine.local.hub.reachability import unreachable_actors
from skate.engine.local.hub.streams import ItemStream
from skate.engine.local.hub.work import HubTask, WorkPlan
from skate.engine.local.objects import STORED, ObjectEntry
from skate.engine.specs import ActorOptions
from tests.local.fakes import function, new_worker
from tests.local.machines import BOUNDED


class CountsMachine(RuleBasedStateMachine):
    """Objects that contain each other, held by workers that die and by tasks that end."""

    objects = Bundle("objects")

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, ObjectEntry] = {}
        self.freed: Counter[int] = Counter()
        self.counts = Counts(self.entries, self._free, _ignore, _ignore, _ignore)
        self.workers = [new_worker() for _ in range(3)]
        self.by_tasks: Counter[int] = Counter()  # the model: who holds what, what contains what
        self.inside: dict[int, tuple[int, ...]] = {}

    def _free(self, entry: ObjectEntry) -> None:
        self.freed[entry.id] += 1

    def alive(self) -> set[int]:
        """All that a worker or task holds, and what is inside."""
        ahead = [id for id, count in self.by_tasks.items() if count > 0]
        ahead += [id for worker in self.workers for id in worker.holds]
        found: set[int] = set()
        while ahead:
            id = ahead.pop()
            if id not in found:
                found.add(id)
                ahead += self.inside[id]
        return found

    @rule(target=objects, worker=st.integers(0, 2), inner=st.lists(objects, max_size=3))
    def put(self, worker: int, inner: list[int]) -> int:
        id = len(self.inside) + 1
        inner = [other for other in inner if other in self.alive()]
        self.inside[id] = tuple(inner)
        self.counts.hold(self.workers[worker], (id,))
        self.counts.add(inner)
        entry = self.entries[id]
        entry.kind, entry.data, entry.contained = STORED, id, tuple(inner)
        return id

    @rule(id=objects, worker=st.integers(0, 2))
    def hold(self, id: int, worker: int) -> None:
        if id in self.alive():
            self.counts.hold(self.workers[worker], (id,))

    @rule(id=objects, worker=st.integers(0, 2))
    def release(self, id: int, worker: int) -> None:
        self.counts.release(self.workers[worker], (id,))

    @rule(id=objects)
    def begin_task(self, id: int) -> None:
        if id in self.alive():
            self.by_tasks[id] += 1
            self.counts.add((id,))

    @rule(id=objects)
    def end_task(self, id: int) -> None:
        if self.by_tasks[id] > 0:
            self.by_tasks[id] -= 1
            self.counts.drop((id,))

    @rule(worker=st.integers(0, 2))
    def lose_worker(self, worker: int) -> None:
        self.counts.release(self.workers[worker], list(self.workers[worker].holds))
        self.workers[worker] = new_worker()

    @invariant()
    def exactly_the_living_are_kept(self) -> None:
        assert set(self.entries) == self.alive()

    @invariant()
    def the_others_were_freed_once(self) -> None:
        assert self.freed == Counter(set(self.inside) - self.alive())


class ReachabilityMachine(RuleBasedStateMachine):
    """Actors that get and lose handles of each other, directly and inside values."""

    actors = Bundle("actors")

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, ObjectEntry] = {}
        self.counts = Counts(self.entries, _ignore, _ignore, _ignore, _ignore)
        self.known: dict[int, HubActor] = {}
        self.by_driver: set[int] = set()

    @rule(target=actors, detached=st.booleans())
    def create(self, detached: bool) -> int:
        id = len(self.entries) + 1
        creation = HubTask(id, function(), (0, b""), (), (), WorkPlan(None, 1, 0), None)
        actor = HubActor(creation, ActorOptions(detached=detached), "A", b"", False)
        actor.placed(new_worker())
        actor.state = ALIVE
        assert actor.worker is not None
        actor.worker.actor = actor
        self.known[id] = actor
        self.counts.add((id, id) if detached else (id,))
        self.by_driver.add(id)
        return id

    def holds_of(self, id: int) -> Any:
        worker = self.known[id].worker
        assert worker is not None
        return worker

    @rule(holder=actors, other=actors)
    def give_handle(self, holder: int, other: int) -> None:
        self.counts.hold(self.holds_of(holder), (other,))

    @rule(holder=actors, inner=st.lists(actors, min_size=1, max_size=3))
    def give_value(self, holder: int, inner: list[int]) -> None:
        id = 1_000 + len(self.entries)
        self.counts.hold(self.holds_of(holder), (id,))
        self.counts.add(inner)
        self.entries[id].contained = tuple(inner)

    @rule(holder=actors, other=actors, inside=st.booleans())
    def keep_argument(self, holder: int, other: int, inside: bool) -> None:
        """An actor that may restart keeps what its constructor was called with."""
        creation = self.known[holder].creation
        if inside:
            creation.nested = (*creation.nested, other)
        else:
            creation.dependencies = (*creation.dependencies, (0, self.entries[other]))
        self.counts.add((other,))

    @rule(holder=actors, other=actors)
    def take_handle(self, holder: int, other: int) -> None:
        if self.entries[other].count > 1:
            self.counts.release(self.holds_of(holder), (other,))

    @rule(id=actors)
    def drop_by_driver(self, id: int) -> None:
        if id in self.by_driver and self.entries[id].count > 1:
            self.by_driver.discard(id)
            self.counts.drop((id,))

    @rule(id=actors)
    def begin_or_end_call(self, id: int) -> None:
        worker = self.holds_of(id)
        if worker.in_flight:
            if self.entries[id].count > 1:
                worker.in_flight.clear()
                self.counts.drop((id,))
        else:
            self.counts.add((id,))
            worker.in_flight[0] = None

    @invariant()
    def exactly_those_that_nobody_reaches_are_found(self) -> None:
        ahead = [id for id, actor in self.known.items() if self.is_root(id, actor)]
        reached: set[int] = set()
        while ahead:
            id = ahead.pop()
            if id not in reached:
                reached.add(id)
                ahead += self.kept_by(id)
        found = {a.id for a in unreachable_actors(self.known.values(), self.entries)}
        assert found == set(self.known) - reached

    def kept_by(self, id: int) -> list[int]:
        """What lives for as long as an actor or a value does."""
        if id not in self.known:
            return list(self.entries[id].contained)
        creation = self.known[id].creation
        arguments = [entry.id for _, entry in creation.dependencies]
        return [*self.holds_of(id).holds, *creation.nested, *arguments]

    def is_root(self, id: int, actor: HubActor) -> bool:
        busy = bool(self.holds_of(id).in_flight)
        return id in self.by_driver or actor.options.detached or busy


class StreamMachine(RuleBasedStateMachine):
    """Items that are added, taken and waited for, until the stream ends or is abandoned."""

    waits = Bundle("waits")

    @initialize()
    def begin(self) -> None:
        self.stream = ItemStream()
        self.made = 0
        self.left: dict[int, int] = {}
        self.told: Counter[int] = Counter()
        self.asked: dict[int, int] = {}
        self.tells: list[Callable[[], None]] = []

    @rule()
    def add(self) -> None:
        if not self.stream.finished and not self.stream.abandoned:
            self.stream.add(self.made, 100 + self.made)
            self.left[self.made] = 100 + self.made
            self.made += 1

    @rule()
    def take(self) -> None:
        if self.left:
            index = min(self.left)
            assert self.stream.items.pop(index) == self.left.pop(index)

    @rule()
    def finish(self) -> None:
        self.stream.finish()

    @rule()
    def abandon(self) -> None:
        assert self.stream.abandon() == list(self.left.values())
        self.left.clear()

    @rule(target=waits, ahead=st.integers(0, 3))
    def ask(self, ahead: int) -> int:
        number = len(self.tells)
        self.asked[number] = self.made + ahead
        self.tells.append(lambda: self.told.update([number]))
        self.stream.when_ready(self.made + ahead, self.tells[number])
        return number

    @precondition(lambda self: self.asked)
    @rule(number=consumes(waits))
    def give_up_waiting(self, number: int) -> None:
        if not self.told[number]:
            del self.asked[number]
            self.stream.forget(self.tells[number])

    @invariant()
    def each_wait_is_told_once_and_in_time(self) -> None:
        over = self.stream.finished or self.stream.abandoned
        for number in range(len(self.tells)):
            index = self.asked.get(number)
            assert self.told[number] == (index is not None and (over or index < self.made))

    @invariant()
    def what_is_there_is_what_was_not_taken(self) -> None:
        assert self.stream.items == self.left
        for index in range(self.made + 2):
            ended = self.stream.abandoned or (self.stream.finished and index >= self.made)
            assert self.stream.ended(index) == ended
            assert self.stream.ready(index) == (ended or index in self.left)


def _ignore(entry: object) -> None:
    pass


TestCounts = CountsMachine.TestCase
TestReachability = ReachabilityMachine.TestCase
TestStreams = StreamMachine.TestCase
TestCounts.settings = TestReachability.settings = TestStreams.settings = BOUNDED
