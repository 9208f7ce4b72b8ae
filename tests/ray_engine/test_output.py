"""What tasks print on a Ray cluster: it comes by way of Ray's log files, later and in colour."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator

import pytest

import skate
from tests.ray_engine import sharing
from tests.support import eventually

pytestmark = [
    pytest.mark.usefixtures("shown"),
    pytest.mark.leaves("one Ray serves the whole module"),
]

_COLOUR = re.compile(r"\x1b\[\d+m")


class Heard:
    """Everything that was printed so far, without its colours, kept over several looks."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd, self.text = capfd, ""

    def __contains__(self, text: str) -> bool:
        self.text += _COLOUR.sub("", "".join(self.capfd.readouterr()))
        return text in self.text


@pytest.fixture
def heard(capfd: pytest.CaptureFixture[str]) -> Heard:
    return Heard(capfd)


@pytest.fixture(scope="module")
def shown() -> Iterator[None]:
    """skate on a Ray that shows what workers print."""
    sharing.share(num_cpus=2, log_to_driver=True, object_store_memory=100_000_000)
    yield
    skate.shutdown()
    sharing.end()


@skate.remote
def shout(text: str) -> int:
    print(text)
    return os.getpid()


def test_prints_come_to_the_driver_with_name_and_pid(heard):
    pid = skate.get(shout.remote("hello from afar"))
    eventually(lambda: f"(shout pid={pid}) hello from afar\n" in heard)


def test_prints_of_an_actor_name_its_class(heard):
    @skate.remote
    class Speaker:
        def speak(self) -> int:
            print("actor speaking")
            return os.getpid()

    speaker = Speaker.remote()
    pid = skate.get(speaker.speak.remote())
    eventually(lambda: f"(Speaker pid={pid}) actor speaking\n" in heard)


def test_every_line_has_its_prefix(heard):
    pid = skate.get(shout.remote("line one\nline two\nline three"))
    eventually(lambda: "line three" in heard)
    lines = [line for line in heard.text.splitlines() if "line" in line]
    assert lines == [f"(shout pid={pid}) line {n}" for n in ("one", "two", "three")]


def test_standard_error_and_what_is_below_python_are_forwarded(heard):
    @skate.remote
    def complain() -> None:
        print("complaint", file=sys.stderr)
        os.write(1, b"from the descriptor\n")

    skate.get(complain.remote())
    eventually(lambda: "complaint" in heard)
    eventually(lambda: "from the descriptor" in heard)


def test_what_is_printed_before_a_crash_is_not_lost(heard):
    @skate.remote(max_retries=0)
    def crash() -> None:
        print("last words", flush=True)
        os._exit(1)

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(crash.remote())
    eventually(lambda: "last words" in heard)


def test_a_destructor_that_prints_while_something_else_is_printed(heard):
    @skate.remote
    def litter() -> str:
        class Rubbish:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                print("swept")

        gc.set_threshold(5)  # so that it is swept anywhere
        for i in range(1_000):
            Rubbish()
            print([[] for _ in range(i % 7)])
        return "done"

    assert skate.get(litter.remote(), timeout=60) == "done"
    eventually(lambda: "swept" in heard)
