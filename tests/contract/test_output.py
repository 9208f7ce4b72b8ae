"""What tasks print."""

import gc
import os
import re
import sys
import threading

import pytest

import skate
from tests.support import eventually, local_only, parallel

pytestmark = [
    parallel,
    pytest.mark.usefixtures("engine"),
    pytest.mark.differs_from_ray("Ray prints later, in colour and to other places"),
]


@skate.remote
def shout(text):
    print(text)
    return os.getpid()


class Heard:
    """Everything that was printed so far, kept over several looks."""

    def __init__(self, capfd):
        self.capfd, self.out, self.err = capfd, "", ""

    def __contains__(self, text):
        out, err = self.capfd.readouterr()
        self.out, self.err = self.out + out, self.err + err
        return text in self.out + self.err


@pytest.fixture
def heard(capfd):
    return Heard(capfd)


def test_prints_come_to_the_driver_with_name_and_pid(heard):
    pid = skate.get(shout.remote("hello from afar"))
    eventually(lambda: "hello from afar" in heard)
    assert re.search(rf"\(shout pid={pid}\) hello from afar", heard.out + heard.err)
    pid = skate.get(shout.options(name="caller").remote("by another name"))
    eventually(lambda: "by another name" in heard)
    assert re.search(rf"\(caller pid={pid}\) by another name", heard.out + heard.err)


@local_only
def test_a_stream_with_a_lock_of_its_own_does_not_lock_up(monkeypatch):
    class Stream:
        """Whoever has its lock may be waiting for the engine: as an object is put, here."""

        def __init__(self):
            self.written, self.put, self.stuck = "", [], False

        def write(self, text):
            self.written += text
            holder = threading.Thread(target=lambda: self.put.append(skate.put(text)))
            holder.start()
            holder.join(timeout=10)
            self.stuck = holder.is_alive()

        def flush(self):
            pass

    stream = Stream()
    monkeypatch.setattr(sys, "stdout", stream)
    pid = skate.get(shout.remote("hello"))
    assert stream.written == f"(shout pid={pid}) hello\n"
    assert not stream.stuck
    assert skate.get(stream.put) == [stream.written]


def test_prints_of_an_actor_name_its_class(heard):
    @skate.remote
    class Speaker:
        def speak(self):
            print("actor speaking")
            return os.getpid()

    speaker = Speaker.remote()
    pid = skate.get(speaker.speak.remote())
    eventually(lambda: "actor speaking" in heard)
    assert re.search(rf"\(Speaker pid={pid}\) actor speaking", heard.out + heard.err)


def test_prints_of_an_actor_have_its_own_repr(heard):
    @skate.remote
    class Speaker:
        def __init__(self, name):
            print("not yet named")
            self.name = name

        def __repr__(self):
            return f"Speaker({self.name})"

        def speak(self):
            print("actor speaking")
            return os.getpid()

    speaker = Speaker.remote("Ada")
    pid = skate.get(speaker.speak.remote())
    eventually(lambda: "actor speaking" in heard)
    assert f"(Speaker pid={pid}) not yet named" in heard.out + heard.err
    assert f"(Speaker(Ada) pid={pid}) actor speaking" in heard.out + heard.err


def test_a_repr_that_fails_or_has_lines_is_no_prefix(heard):
    @skate.remote
    class Speaker:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text + ""

        def speak(self):
            print(f"saying {self.text!r}")

    speakers = [Speaker.remote(text) for text in (None, "two\nlines")]
    skate.get([speaker.speak.remote() for speaker in speakers])
    eventually(lambda: "saying 'two" in heard and "saying None" in heard)
    assert len(re.findall(r"\(Speaker pid=\d+\) saying", heard.out + heard.err)) == 2


def test_every_line_has_its_prefix(heard):
    skate.get(shout.remote("one\ntwo\nthree"))
    eventually(lambda: "three" in heard)
    lines = [line for line in (heard.out + heard.err).splitlines() if line]
    assert [line.split(") ")[1] for line in lines] == ["one", "two", "three"]


def test_standard_error_is_forwarded(heard):
    @skate.remote
    def complain():
        print("complaint", file=sys.stderr)

    skate.get(complain.remote())
    eventually(lambda: "complaint" in heard)


def test_output_below_python_is_forwarded(heard):
    @skate.remote
    def low():
        os.write(1, b"from the descriptor\n")

    skate.get(low.remote())
    eventually(lambda: "from the descriptor" in heard)


def test_what_is_printed_before_a_crash_is_not_lost(heard):
    @skate.remote(max_retries=0)
    def crash():
        print("last words", flush=True)
        os._exit(1)

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(crash.remote())
    eventually(lambda: "last words" in heard)


@pytest.mark.init(log_to_driver=False)
def test_prints_can_be_silenced(heard):
    skate.get([shout.remote("not heard") for _ in range(5)])
    skate.shutdown()
    assert "not heard" not in heard


def test_nothing_else_is_printed(heard):
    @skate.remote
    def quiet():
        return 1

    @skate.remote
    class Quiet:
        def hello(self):
            return 1

    skate.get([quiet.remote(), Quiet.remote().hello.remote(), skate.put(b"x" * 1_000_000)])
    skate.shutdown()
    assert "" in heard
    assert (heard.out, heard.err) == ("", "")


def test_a_destructor_that_prints_while_something_else_is_printed(heard):
    @skate.remote
    def litter():
        class Rubbish:
            def __init__(self):
                self.me = self

            def __del__(self):
                print("swept")

        gc.set_threshold(5)  # so that it is swept anywhere
        for i in range(1_000):
            Rubbish()
            print([[] for _ in range(i % 7)])
        return "done"

    assert skate.get(litter.remote(), timeout=60) == "done"
    eventually(lambda: "swept" in heard)


@local_only
@pytest.mark.init(num_cpus=1)
def test_a_line_ends_with_the_task_that_began_it(heard):
    @skate.remote
    def begin(text):
        sys.stdout.write(text)
        print("!", end="", flush=True)
        print(text, end="", file=sys.stderr)
        return os.getpid()

    pid = skate.get([begin.remote("one"), begin.remote("two")])[0]
    eventually(lambda: heard_lines(heard, 2))
    assert heard.out.splitlines() == [f"(begin pid={pid}) one!", f"(begin pid={pid}) two!"]
    assert heard.err.splitlines() == [f"(begin pid={pid}) one", f"(begin pid={pid}) two"]


def heard_lines(heard, count):
    assert "" in heard
    return min(heard.out.count("\n"), heard.err.count("\n")) >= count


@local_only
def test_what_runs_side_by_side_has_lines_of_its_own(heard):
    @skate.remote(max_concurrency=2)
    class Speaker:
        def __init__(self):
            self.both = threading.Barrier(2)

        def speak(self, word):
            for letter in word:
                self.both.wait()
                print(letter, end="")
            return os.getpid()

    speaker = Speaker.remote()
    pid = skate.get([speaker.speak.remote(word) for word in ("abc", "xyz")], timeout=60)[0]
    eventually(lambda: "abc" in heard and "xyz" in heard)
    prefix = f"(Speaker pid={pid}) "
    assert sorted(heard.out.splitlines()) == [f"{prefix}abc", f"{prefix}xyz"]


@local_only
def test_a_bar_of_progress_is_one_line(heard):
    @skate.remote
    def progress():
        from tqdm import tqdm

        for _ in tqdm(range(3), desc="steps", mininterval=0, ncols=60):
            pass
        for _ in tqdm(range(3), desc="gone", mininterval=0, ncols=60, leave=False):
            pass
        print("afterwards", file=sys.stderr)
        return os.getpid()

    pid = skate.get(progress.remote())
    eventually(lambda: "afterwards" in heard)
    prefix = f"(progress pid={pid}) "
    bar, gone, _ = heard.err.split("\n")
    states = [state for state in bar.split("\r") if state]
    assert all(state.startswith(f"{prefix}steps:") for state in states)
    assert all(state.count(prefix) == 1 for state in states)
    assert "100%" in states[-1]
    assert "\r" + " " * len(prefix) in gone  # nothing of it is left
    assert gone.endswith(f"\r{prefix}afterwards")


@local_only
def test_others_do_not_continue_a_line(heard, flag):
    began, said = flag("began"), flag("said")

    @skate.remote
    def begin():
        print("one,", end="", flush=True)
        began.set()
        said.wait()
        print(" two")

    @skate.remote
    def interrupt():
        print("stop")

    ref = begin.remote()
    began.wait()
    skate.get(interrupt.remote())
    said.set()
    skate.get(ref)
    eventually(lambda: "two" in heard)
    spoken = [line.split(") ")[1] for line in heard.out.splitlines()]
    assert spoken == ["one,", "stop", " two"]
