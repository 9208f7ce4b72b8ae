"""What the system shows of workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.support import eventually, local_only

pytestmark = local_only


def shown() -> tuple[str, str]:
    """The command line and the name of this process."""
    line = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode()
    return line, Path("/proc/self/comm").read_text().strip()


@skate.remote
def first() -> tuple[str, str]:
    return shown()


@skate.remote
def second() -> tuple[str, str]:
    return shown()


@skate.remote
class Teller:
    def __init__(self) -> None:
        self.at_first = shown()

    def tell(self) -> Any:
        return self.at_first, shown()

    def pid(self) -> int:
        return os.getpid()


@skate.remote
class AsyncTeller:
    async def other(self) -> Any:
        return shown()


def test_titles_with_setproctitle(start: Any) -> None:
    start(num_cpus=1)
    assert skate.get(first.options(name="named").remote())[0] == "skate::named"
    assert skate.get([first.remote(), second.remote(), first.remote()]) == [
        ("skate::first", "skate::first"),
        ("skate::second", "skate::second"),
        ("skate::first", "skate::first"),
    ]
    teller = Teller.remote()
    at_first, now = skate.get(teller.tell.remote())
    assert (at_first[0], now[0]) == ("skate::Teller.__init__", "skate::Teller.tell")
    assert skate.get(teller.tell.options(name="named").remote())[1][0] == "skate::named"
    assert skate.get(AsyncTeller.remote().other.remote())[0] == "skate::AsyncTeller.other"


def test_the_name_of_a_process_whose_calls_run_on_threads(start: Any) -> None:
    start(num_cpus=1)
    teller = Teller.options(max_concurrency=2).remote()
    assert skate.get(teller.tell.remote())[1] == ("skate::Teller.tell", "skate::Teller")


def test_titles_without_it(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setproctitle.py").write_text("raise ImportError('not installed')")
    monkeypatch.syspath_prepend(tmp_path)
    start(num_cpus=1)
    assert skate.get([first.remote(), second.remote(), first.remote()]) == [
        ("skate::first", "skate::first"),
        ("skate::second", "skate::second"),
        ("skate::first", "skate::first"),
    ]
    teller = Teller.remote()
    line, name = skate.get(teller.tell.remote())[1]
    assert line == "skate::Teller.tell"
    assert name == "skate::Teller.t"  # there is no more room


@pytest.mark.parametrize("with_package", [True, False])
def test_titles_of_processes_without_work(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_package: bool
) -> None:
    if not with_package:
        (tmp_path / "setproctitle.py").write_text("raise ImportError('not installed')")
        monkeypatch.syspath_prepend(tmp_path)
    start(num_cpus=1)
    teller = Teller.options(num_cpus=0).remote()
    skate.get(teller.tell.remote())
    pids = skate.get([skate.remote(os.getpid).remote(), teller.pid.remote()])

    def titles() -> list[str]:
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0") for pid in pids]
        return [line.decode() for line in lines]

    eventually(lambda: titles() == ["skate::IDLE", "skate::Teller"])
    assert skate.get(first.remote())[0] == "skate::first"


def test_titles_of_a_program_that_imports_ray(start: Any) -> None:
    import skate.compat.ray

    skate.compat.ray.install()
    try:
        import ray  # noqa: F401

        start(num_cpus=1)
        assert skate.get(first.remote())[0] == "ray::first"
    finally:
        skate.shutdown()
        skate.compat.ray.uninstall()


def test_workers_go_before_the_driver_when_memory_ends(start: Any) -> None:
    start(num_cpus=1)
    score = skate.remote(lambda: int(Path("/proc/self/oom_score_adj").read_text()))
    here = int(Path("/proc/self/oom_score_adj").read_text())
    assert skate.get(score.remote()) == 1000
    assert here < 1000


def test_the_environment_of_a_worker_stays_readable(start: Any) -> None:
    start(num_cpus=1)
    variables = skate.remote(lambda: Path("/proc/self/environ").read_bytes())
    name = f"PATH={os.environ['PATH']}".encode()
    assert name in skate.get(variables.remote())
    assert "SPT_NOENV" not in skate.get(skate.remote(lambda: dict(os.environ)).remote())
    assert sys.platform == "linux"
