"""Wrong calls, one per line that ends in `# refused`: both checkers report exactly these."""

from __future__ import annotations

from collections.abc import Iterator

import skate
import skate.data
import skate.train
from skate import ActorHandle, ObjectRef
from skate.util import ActorPool
from skate.util.queue import Queue


@skate.remote
def mix(a: int, b: str = "", *, c: float = 1.0) -> float:
    return a + len(b) + c


@skate.remote
def stream(n: int) -> Iterator[int]:
    yield n


@skate.remote
class Counter(skate.Actor):
    def __init__(self, start: int) -> None:
        self.value = start

    @skate.method
    def add(self, n: int) -> int:
        return self.value + n

    def hidden(self) -> int:
        return self.value


class Plain:
    def __init__(self, start: int) -> None: ...


PlainActor = skate.remote(Plain)


def function() -> int:
    return 1


def wrong(number: ObjectRef[int], text: ObjectRef[str], counter: Counter) -> None:
    mix.remote()  # refused
    mix.remote("1")  # refused
    mix.remote(1, 2)  # refused
    mix.remote(1, "", 2.0)  # refused
    mix.remote(1, d=2)  # refused
    mix.remote(1, c="2")  # refused
    mix.remote(text)  # refused
    mix.remote(number, number)  # refused
    mix.remote(1, text, d=1)  # refused
    mix(1)  # refused
    mix.options(num_cpu=1)  # refused
    mix.options(num_cpus="1")  # refused
    mix.options(max_restarts=1)  # refused
    mix.options(max_calls=1)  # refused
    mix.options(num_returns="two")  # refused
    mix.options(num_cpus=2).remote("1")  # refused
    skate.remote(num_cpu=1)  # refused
    skate.remote(max_restarts=1)(function)  # refused
    skate.remote(max_retries="1")(function)  # refused
    skate.remote(1)  # refused
    skate.get(1)  # refused
    skate.get((number, number))  # refused
    skate.get(number, 3.0)  # refused
    skate.wait(number)  # refused
    skate.wait([number], num_returns="1")  # refused
    skate.get(mix.remote(1)).upper()  # refused
    skate.put(1, owner=None)  # refused
    skate.kill(number)  # refused
    skate.cancel(counter)  # refused
    skate.get(stream.remote(1)).upper()  # refused
    next(stream.remote(1)) + 1  # refused
    Counter.remote()  # refused
    Counter.remote("1")  # refused
    Counter.remote(text)  # refused
    Counter.options(num_cpus="1")  # refused
    counter.add.remote("1")  # refused
    counter.add.remote(text)  # refused
    counter.add.remote(m=1)  # refused
    counter.hidden.remote()  # refused
    counter.missing.remote()  # refused
    skate.get(counter.add.remote(1)).upper()  # refused
    counter.add.options(num_cpus=1)  # refused
    PlainActor.remote("1")  # refused
    PlainActor.remote()  # refused
    PlainActor(1)  # refused
    PlainActor.options(max_retries=1)  # refused
    skate.method(num_cpus=1)  # refused
    skate.get_actor(1)  # refused
    Queue[int]().put("1")  # refused
    ActorPool([counter]).map(lambda actor, n: actor.add.remote(n), ["1"])  # refused
    skate.nothing()  # refused
    skate.data.read_csv("a.csv", overide_num_blocks=2)  # refused
    skate.data.read_json("a.json", on_bad_files="drop")  # refused
    skate.train.report([0.1])  # refused
    skate.train.report({"loss": 0.1}, checkpoint_dir_name=3)  # refused


def found(handle: ActorHandle[Plain]) -> None:
    handle.add(1)  # refused
