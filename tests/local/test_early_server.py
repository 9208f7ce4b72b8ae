"""A fork server that begins before there is a session."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from skate.engine.local import forkserver
from tests.support import run_program

BEGIN = """
import os, sys
import skate
from skate._facade.early_start import expect_work

def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]

@skate.remote
def worker():
    import os, sys
    return os.getppid(), sorted({"decimal", "fractions"} & {*sys.modules})
"""


def run(program: str, **environment: str) -> None:
    """Run it, with what tests switch off."""
    inherited = {k: v for k, v in os.environ.items() if k != "SKATE_EARLY_START"}
    code = BEGIN + textwrap.dedent(program)
    command = [sys.executable, "-c", code]
    run_program(command, env={**inherited, **environment}, check=True)


def test_a_session_forks_from_it_whatever_was_announced_when():
    run("""
        expect_work(["decimal"])
        [early] = children()
        expect_work(["fractions"])
        assert children() == [early]
        skate.init(num_cpus=1, preload=["decimal"])
        assert early in children()
        assert skate.get(worker.remote()) == (early, ["decimal", "fractions"])
        skate.shutdown()
        assert children() == []
        expect_work(["decimal"])
        assert children() == [], "once in the life of a program"
    """)


def test_its_variables_are_not_those_of_workers():
    """What is only for its imports."""
    run("""
        @skate.remote
        def variables():
            return {**os.environ}

        expect_work(["decimal"])
        skate.init(num_cpus=1)
        assert "OPENBLAS_THREAD_TIMEOUT" not in skate.get(variables.remote())
    """)


def test_another_environment_has_another_server():
    run("""
        expect_work(["decimal"])
        [early] = children()
        os.environ["OMP_NUM_THREADS"] = "1"
        skate.init(num_cpus=1, preload=["decimal"])
        assert early not in children()
        parent, modules = skate.get(worker.remote())
        assert parent in children()
        assert "decimal" in modules
    """)


def test_what_is_announced_in_another_environment_begins_there():
    run("""
        expect_work(["decimal"])
        [early] = children()
        os.environ["OMP_NUM_THREADS"] = "1"
        expect_work(["fractions"])
        [second] = children()
        assert second != early
        skate.init(num_cpus=1, preload=["decimal"])
        assert skate.get(worker.remote()) == (second, ["decimal", "fractions"])
    """)


def test_what_libraries_set_for_themselves_is_no_other_environment():
    run("""
        expect_work(["decimal"])
        [early] = children()
        os.environ["KMP_INIT_AT_FORK"] = "FALSE"  # as by `import sklearn`
        skate.init(num_cpus=1, preload=["decimal"])
        assert skate.get(worker.remote())[0] == early
    """)


def test_what_the_program_has_waited_for_is_not_killed_again():
    """Its pid may be another's by then."""
    run("""
        from skate.engine.local import early_server

        expect_work(["decimal"])
        [early] = children()
        os.kill(early, 9)
        assert os.waitpid(-1, 0)[0] == early
        killed = []
        os.kill = lambda *call: killed.append(call)
        early_server._end()
        assert killed == []
    """)


def test_it_ends_with_a_program_that_does_nothing():
    run("expect_work(['decimal']); assert children()")


def test_one_that_has_ended_is_not_waited_for():
    run("""
        import signal
        expect_work(["decimal"])
        [early] = children()
        os.kill(early, signal.SIGKILL)
        os.waitid(os.P_PID, early, os.WEXITED | os.WNOWAIT)
        skate.init(num_cpus=1, preload=["decimal"])
        assert skate.get(worker.remote())[0] != early
    """)


@pytest.mark.parametrize(
    "environment",
    [{"SKATE_EARLY_START": "0"}, {"SKATE_ENGINE": "inline"}, {"SKATE_ADDRESS": "ray://host:1"}],
    ids=str,
)
def test_where_nothing_begins(environment):
    run("expect_work(['decimal']); assert children() == []", **environment)


def test_no_worker_begins_one():
    run("""
        @skate.remote
        def inside():
            expect_work(["decimal"])
            return children()

        skate.init(num_cpus=1)
        assert skate.get(inside.remote()) == []
    """)


def test_how_long_it_waits() -> None:
    """Before there is a session it imports without a pause, and waits for one for a minute."""
    server: Any = forkserver._Server.__new__(forkserver._Server)
    waits = []
    for dirs, later in ([], ["a"]), ([], []), (["here"], ["a"]), (["here"], []):
        server._session_dirs, server._later = dirs, later
        waits.append(server._patience())
    assert waits == [0, 60_000, 2000, None]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_of_multiprocessing_start_none(method: str, tmp_path: Path) -> None:
    """They import the program before they know that they are none."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
            import multiprocessing
            from skate._facade.early_start import expect_work
            from skate.engine.local import early_server

            expect_work(["decimal"])
            drivers = early_server._early and early_server._early.driver

            def driver(_):
                return drivers

            if __name__ == "__main__":
                assert drivers
                with multiprocessing.get_context({method!r}).Pool(1) as pool:
                    assert pool.map(driver, [0]) == [None]
        """)
    )
    inherited = {k: v for k, v in os.environ.items() if k != "SKATE_EARLY_START"}
    run_program([sys.executable, program], env=inherited, check=True)
