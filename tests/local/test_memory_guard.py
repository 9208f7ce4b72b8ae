"""Who is ended when memory runs out, and what becomes of the work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import skate
from skate._core import machine
from skate._core.machine import MemoryGauge, MemoryUse, ProcessMemory
from skate.engine.local.hub import memory_guard
from skate.engine.local.hub.memory_guard import Candidate, MemoryGuard, Verdict, choose
from skate.engine.local.hub.work import HubTask
from skate.engine.local.hub.workers import WorkerProcess
from skate.exceptions import ActorDiedError, OutOfMemoryError
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench
from tests.support import PATIENCE, Flag, Tally, eventually

GIB = 1 << 30

# -- the decision ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], None),
        # Two of the same owner: the newest, which is repeated.
        ([Candidate(1, 1, True, "a"), Candidate(2, 2, True, "a")], Verdict(2, True)),
        # What can be repeated goes first, however old.
        ([Candidate(1, 1, True, "a"), Candidate(2, 9, False, "a")], Verdict(1, False)),
        # Whoever runs most gives one up.
        (
            [
                Candidate(1, 1, True, "a"),
                Candidate(2, 2, True, "a"),
                Candidate(3, 3, True, "b"),
            ],
            Verdict(2, True),
        ),
        # One each: the newest, and it would fare no better the next time.
        ([Candidate(1, 1, True, "a"), Candidate(2, 2, True, "b")], Verdict(2, False)),
        # Nothing can be repeated: the newest of all, each for itself.
        ([Candidate(1, 5, False, "a"), Candidate(2, 4, False, "a")], Verdict(1, False)),
    ],
)
def test_who_is_ended(candidates: list[Candidate], expected: Verdict | None) -> None:
    assert choose(candidates) == expected


# -- what the guard sees --------------------------------------------------------------------------


class Watched:
    """A guard of the workers of a bench, whose processes have as much memory as the test says."""

    def __init__(self, bench: HubBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.killed: list[WorkerProcess] = []
        self.dismissed: list[WorkerProcess] = []
        self.has: dict[int, ProcessMemory] = {}
        self.use: MemoryUse | None = MemoryUse(used=99 * GIB, total=100 * GIB)
        monkeypatch.setattr(memory_guard, "process_memory", self.has.get)
        monkeypatch.setattr(memory_guard, "memory_gauge", lambda: self)
        ports: Any = SimpleNamespace(call_later=lambda *_: None, reactor=bench.reactor)
        workers = bench.hub.state.workers
        kill, dismiss = self.killed.append, self.dismissed.append
        self.guard = MemoryGuard(ports, workers, kill, dismiss, 0.9, 1.0)

    def read(self) -> MemoryUse | None:
        return self.use

    def start(self, task: HubTask, has: int) -> WorkerProcess:
        worker = worker_of(task)
        worker.pid = (1 << 23) + worker.number  # higher than any
        self.has[worker.pid] = ProcessMemory(has, has)
        return worker


@pytest.fixture
def watched(hub_bench: HubBench, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(hub_bench, monkeypatch)


def test_large_processes_without_work_go_first(hub_bench: HubBench, watched: Watched) -> None:
    idle, running = hub_bench.submit(), hub_bench.submit()
    watched.start(running, GIB)
    large = watched.start(idle, GIB)
    hub_bench.finish(idle)
    watched.guard._look()
    assert watched.killed == watched.dismissed == [large]


def test_small_ones_without_work_are_of_no_use(hub_bench: HubBench, watched: Watched) -> None:
    idle, running = hub_bench.submit(), hub_bench.submit()
    busy = watched.start(running, GIB)
    watched.start(idle, 1)
    hub_bench.finish(idle)
    watched.guard._look()
    assert watched.killed == [busy]
    assert watched.dismissed == []
    assert busy.evicted is not None
    watched.guard._look()  # who is being ended gives back what it has
    assert watched.killed == [busy]


def test_a_machine_that_says_nothing_is_not_full(hub_bench: HubBench, watched: Watched) -> None:
    watched.start(hub_bench.submit(), GIB)
    watched.use = None
    watched.guard._look()
    assert watched.killed == []


def test_limits_of_processes_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = HubBench(memory=100 * GIB)
    watched = Watched(bench, monkeypatch)
    watched.use = None
    gone = watched.start(bench.submit(memory=GIB), GIB)
    beyond = watched.start(bench.submit(memory=GIB), 2 * GIB)
    del watched.has[gone.pid]
    watched.guard._look()
    assert watched.killed == [beyond]
    bench.close()


# -- where memory is short ------------------------------------------------------------------------


class Groups:
    """Control groups in a folder, and the memory of a machine that has plenty."""

    def __init__(self, root: Path, version: int = 2, path: str = "/") -> None:
        self.proc, self.root = root / "proc", root / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        line = f"0::{path}\n" if version == 2 else f"4:memory:{path}\n0::/\n"
        (self.proc / "self/cgroup").write_text(line)
        (self.proc / "meminfo").write_text(
            f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {60 << 20} kB\n"
        )
        self.names = (
            ("memory.max", "memory.current", "inactive_file")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        self.mount = self.root if version == 2 else self.root / "memory"

    def set(self, limit: object, used: int, cached: int = 0, path: str = "") -> None:
        folder = self.mount / path
        folder.mkdir(parents=True, exist_ok=True)
        limits, uses, name = self.names
        for file, text in (
            (limits, f"{limit}\n"),
            ("memory.stat", f"anon 5\n{name} {cached}\n"),
            (uses, f"{used}\n"),
        ):
            draft = folder / f"{file}.draft"
            draft.write_text(text)
            os.replace(draft, folder / file)

    def gauge(self) -> MemoryGauge:
        return MemoryGauge(str(self.proc), str(self.root))


@pytest.mark.parametrize("version", [1, 2])
def test_the_memory_of_a_container(tmp_path: Path, version: int) -> None:
    groups = Groups(tmp_path, version)
    groups.set(2 * GIB, used=GIB, cached=GIB // 4)
    assert groups.gauge().read() == MemoryUse(GIB * 3 // 4, 2 * GIB)
    assert groups.gauge().total == 2 * GIB


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_within_groups(tmp_path: Path, version: int) -> None:
    groups = Groups(tmp_path, version, path="/user/session")
    groups.set("max", used=9 * GIB)
    groups.set(4 * GIB, used=3 * GIB, path="user")
    groups.set(2 * GIB, used=GIB // 2, path="user/session")
    assert groups.gauge().read() == MemoryUse(3 * GIB, 4 * GIB)  # where least is left
    assert groups.gauge().total == 2 * GIB


def test_the_memory_of_a_machine(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    groups.set("max", used=9 * GIB)
    assert groups.gauge().read() == MemoryUse(4 * GIB, 64 * GIB)


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    assert MemoryGauge(str(tmp_path / "none"), str(tmp_path / "none")).read() is None


# -- near the end of memory -----------------------------------------------------------------------


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    """A container of 2 GiB, half used, as the driver sees it."""
    groups = Groups(tmp_path / "system")
    groups.set(2 * GIB, used=GIB)
    gauge = groups.gauge()
    monkeypatch.setattr("skate.engine.local.hub.memory_guard.memory_gauge", lambda: gauge)
    monkeypatch.setenv("SKATE_MEMORY_MONITOR_REFRESH_MS", "20")
    return groups


def has_memory(pid: str) -> bool:
    """Whether a process is there, and not only what its parent has not collected yet."""
    try:
        return bool(Path(f"/proc/{pid}/statm").read_text().split()[0] != "0")
    except FileNotFoundError:
        return False


def full_while_it_lives(monkeypatch: pytest.MonkeyPatch, pid: str) -> None:
    """Let memory be full until a process has ended: what runs after it has all it needs."""

    def read(gauge: MemoryGauge) -> MemoryUse:
        return MemoryUse(2 * GIB if has_memory(pid) else GIB, 2 * GIB)

    monkeypatch.setattr(MemoryGauge, "read", read)


def hold(tally: Tally, go: Flag, name: str) -> str:
    tally.add(f"{name}:{os.getpid()}")
    go.wait()
    return name


def test_the_newest_is_ended_and_repeated(
    container: Groups, tally: Tally, flag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, task = flag("go"), skate.remote(hold)
    with skate.init(num_cpus=2):
        first = task.remote(tally, go, "first")
        eventually(lambda: len(tally) == 1)
        second = task.options(max_retries=1).remote(tally, go, "second")
        eventually(lambda: len(tally) == 2)
        full_while_it_lives(monkeypatch, tally.words()[1].split(":")[1])
        eventually(lambda: len(tally) == 3)  # it has begun again
        go.set()
        assert skate.get([first, second], timeout=PATIENCE) == ["first", "second"]
        names = [word.split(":")[0] for word in tally.words()]
        assert names == ["first", "second", "second"]


def test_the_only_one_fails(container: Groups, tally: Tally, flag: Any) -> None:
    task = skate.remote(hold)
    with skate.init(num_cpus=1):
        ref = task.remote(tally, flag("go"), "only")
        eventually(lambda: len(tally) == 1)
        container.set(2 * GIB, used=2 * GIB - 1)
        with pytest.raises(OutOfMemoryError, match=r"hold \(pid=\d+\)") as caught:
            skate.get(ref, timeout=PATIENCE)
        for words in ("2.00 GiB of 2.00 GiB", "peak", "SKATE_MEMORY_USAGE_THRESHOLD"):
            assert words in str(caught.value)
        assert len(tally) == 1
        container.set(2 * GIB, used=GIB)
        assert skate.get(skate.remote(abs).remote(-1)) == 1


def test_actors_are_restarted_if_they_may(
    container: Groups, tally: Tally, flag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Actor:
        def hold(self, *args: Any) -> str:
            return hold(*args)

        def pid(self) -> int:
            return os.getpid()

    go = flag("go")
    with skate.init(num_cpus=2):
        for restarts, later in ((0, ActorDiedError), (1, None)):
            actor = skate.remote(max_restarts=restarts)(Actor).remote()
            before = len(tally)
            ref = actor.hold.remote(tally, go, "actor")
            eventually(lambda: len(tally) > before)  # noqa: B023
            full_while_it_lives(monkeypatch, tally.words()[-1].split(":")[1])
            with pytest.raises(OutOfMemoryError, match="Actor"):
                skate.get(ref, timeout=PATIENCE)
            if later is None:
                assert skate.get(actor.pid.remote(), timeout=PATIENCE) > 0
            else:
                with pytest.raises(later, match="memory ran out"):
                    skate.get(actor.pid.remote(), timeout=PATIENCE)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an item for each look that a guard has finished."""
    made: list[int] = []
    look = MemoryGuard._look

    def counted(guard: MemoryGuard) -> None:
        look(guard)
        made.append(1)

    monkeypatch.setattr(MemoryGuard, "_look", counted)
    return made


def test_it_can_be_switched_off(
    container: Groups,
    tally: Tally,
    flag: Any,
    looks: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[float] = []
    monkeypatch.setattr(MemoryGuard, "_look_again", lambda guard, delay: planned.append(delay))
    monkeypatch.delenv("SKATE_MEMORY_MONITOR_REFRESH_MS")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    go = flag("go")
    with skate.init(num_cpus=1):
        container.set(2 * GIB, used=2 * GIB - 1)
        ref = skate.remote(hold).remote(tally, go, "lives")
        eventually(lambda: len(tally) == 1)
        go.set()
        assert skate.get(ref, timeout=PATIENCE) == "lives"
    assert planned == looks == []


def test_settings_of_a_program_for_ray(container: Groups, tally: Tally, flag: Any) -> None:
    config = {"memory_usage_threshold": 0.4, "memory_monitor_refresh_ms": 10}
    found = pytest.raises(OutOfMemoryError, match=r"threshold of 0\.4")
    with skate.init(num_cpus=1, _system_config=config), found:
        skate.get(skate.remote(hold).remote(tally, flag("go"), "x"), timeout=PATIENCE)
    with pytest.raises(ValueError, match="memory_usage_threshold"):
        skate.init(num_cpus=1, _system_config={"memory_usage_threshold": "half"})


def test_settings_that_make_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_MEMORY_USAGE_THRESHOLD", "much")
    with pytest.raises(ValueError, match=r"SKATE_MEMORY_USAGE_THRESHOLD.*'much'"):
        skate.init(num_cpus=1)


def test_nobody_looks_while_nothing_runs(container: Groups, monkeypatch: Any) -> None:
    looks: list[int] = []
    read = MemoryGauge.read

    def count(gauge: MemoryGauge) -> MemoryUse | None:
        looks.append(1)
        return read(gauge)

    monkeypatch.setattr(MemoryGauge, "read", count)
    with skate.init(num_cpus=1):
        actor = skate.remote(Idle).remote()
        skate.get(actor.ready.remote())
        skate.get(skate.remote(abs).remote(-1))
        eventually(lambda: _quiet_for(0.4, looks))
        before = len(looks)
        skate.get(skate.remote(time.sleep).remote(0.3))
        assert len(looks) > before


class Idle:
    def ready(self) -> bool:
        return True


def _quiet_for(seconds: float, looks: list[int]) -> bool:
    before = len(looks)
    time.sleep(seconds)
    return len(looks) == before


def test_watching_costs_next_to_nothing(
    hub_bench: HubBench, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks at the processes and the machine as they are, with room for some seconds of growth."""
    for _ in range(2):
        watched.start(hub_bench.submit(), GIB)
    monkeypatch.undo()
    here = machine.process_memory
    monkeypatch.setattr(memory_guard, "process_memory", lambda pid: here(os.getpid()))
    pauses: list[float] = []
    guard = MemoryGuard(
        SimpleNamespace(  # type: ignore[arg-type]
            call_later=lambda delay, _: pauses.append(delay), reactor=hub_bench.reactor
        ),
        hub_bench.hub.state.workers,
        watched.killed.append,
        watched.dismissed.append,
        threshold=1.0,
        refresh_seconds=0.25,  # as it is by default
    )
    times = []
    for _ in range(200):
        begun = time.thread_time()
        guard._look()
        times.append(time.thread_time() - begun)
    assert watched.killed == []
    share = sorted(times)[100] / pauses[0]
    assert share < 0.005, f"{share:.3%} of a core"


# -- beyond its own limit -------------------------------------------------------------------------


def fill(megabytes: int, then: Callable[[], Any] | None = None) -> int:
    kept = b"x" * (megabytes << 20)
    if then is not None:
        then()
    return len(kept) >> 20


def test_a_task_beyond_its_limit(tally: Tally, flag: Any) -> None:
    limited = skate.remote(memory=128 << 20)(fill)
    with skate.init(num_cpus=2):
        assert skate.get(limited.remote(60)) == 60
        with pytest.raises(OutOfMemoryError, match="fill") as caught:
            skate.get(limited.remote(300, flag("never").wait), timeout=PATIENCE)
        for words in ("memory=134,217,728 (128 MiB)", "and used", "peak", "memory="):
            assert words in str(caught.value)
        assert skate.get(skate.remote(fill).remote(300)) == 300  # without a limit


def test_limits_that_no_interpreter_could_keep_are_not_taken_at_their_word(
    tally: Tally, flag: Any, looks: list[int]
) -> None:
    go = flag("go")
    with skate.init(num_cpus=1):
        ref = skate.remote(memory=1)(hold).remote(tally, go, "lives")
        eventually(lambda: len(tally) == 1)
        before = len(looks)
        eventually(lambda: len(looks) >= before + 2)  # of which the last one began while it ran
        go.set()
        assert skate.get(ref, timeout=PATIENCE) == "lives"


def test_what_a_machine_has_is_found_once() -> None:
    assert machine.memory_gauge() is machine.memory_gauge()
    assert machine.memory() == machine.memory_gauge().total > 0
