"""The n-th call of a system call fails: no hang, nothing left behind, a typed error or the answer.

`scripts/chaos --faults` tries every n of every call.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import skate
from tests.chaos import faults

pytestmark = [
    pytest.mark.differs_from_ray("what happens inside of the local engine"),
    pytest.mark.usefixtures("usual_servers"),
]

#: Scenarios that take milliseconds, or the calls that matter in those that take longer.
CASES = {
    "put_and_get": (["os.open", "os.writev", "os.ftruncate", faults.MAP], 3),
    "call": (["os.open", "os.writev", faults.MAP], 3),
    "spill": (["os.open", "os.writev", "os.sendfile", faults.MAP], 8),
    "report": (["builtins.open", "os.open", "os.rename", "os.replace"], 6),
    "search": (["os.replace"], 2),
    "deploy": (["socket.send_fds"], 1),
}


@pytest.mark.parametrize("scenario", CASES)
def test_a_call_that_fails(scenario: str, tmp_path: Path) -> None:
    names, most = CASES[scenario]
    struck = 0
    with faults.session():
        for name in names:
            for nth in range(1, most + 1):
                if not faults.struck_by(name, nth, scenario, str(tmp_path)):
                    break
                struck += 1
    assert struck


def test_a_call_that_fails_in_a_worker() -> None:
    struck = 0
    with faults.session():
        worker = faults.Worker.remote()
        for name in ("os.open", "os.writev", "os.ftruncate", faults.MAP):
            nth = 1
            while faults.struck_in(worker, name, nth):
                nth, struck = nth + 1, struck + 1
    assert struck > 4


@pytest.mark.parametrize("name", ["os.open", "os.mkdir", "os.rename", "os.posix_spawn"])
def test_a_start_that_fails_leaves_nothing_behind(name: str) -> None:
    """The check for leftovers does the rest."""
    failed, nth, struck = 0, 1, True
    while struck:
        with faults.Fault(name, nth) as fault:
            try:
                skate.init(engine="local", num_cpus=1, log_to_driver=False)
            except OSError:
                failed += 1
                assert not skate.is_initialized()
        skate.shutdown()
        struck, nth = fault.struck, nth + 1
    assert failed
