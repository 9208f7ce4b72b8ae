"""Fork servers that are busy or die: nobody waits for them in vain, and no work is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.engine.local.hub import servers
from tests.support import PATIENCE, Flag, Tally, eventually, local_only

pytestmark = [local_only, pytest.mark.usefixtures("usual_servers")]

#: Everywhere but in the driver, its import takes until a flag is set.
SLOW = """
import os, time
imported_by = os.getpid()
if imported_by != {driver}:
    with open({begun!r}, "a") as file:
        file.write(f"{{imported_by}}\\n")
    while not os.path.exists({go!r}):
        time.sleep(0.01)
"""


@pytest.fixture
def go(
    tmp_path: Path, tally: Tally, flag: Callable[[str], Flag], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Flag]:
    """What the module `skate_slow` waits for. The tally has the processes that import it."""
    made = flag("go")
    text = SLOW.format(driver=os.getpid(), begun=tally.path, go=made.path)
    (tmp_path / "skate_slow.py").write_text(text)
    (tmp_path / "skate_quick.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield made
    sys.modules.pop("skate_slow", None)


def test_what_a_dying_server_had_not_started_is_started_by_another(
    start: Any, go: Flag, tally: Tally
) -> None:
    start(num_cpus=2, preload=["skate_slow"])

    @skate.remote(max_retries=0)
    def task() -> bool:
        return bool(import_module("skate_slow").imported_by != os.getpid())

    @skate.remote
    class Actor:
        def inherits(self) -> bool:
            return bool(import_module("skate_slow").imported_by != os.getpid())

    refs = [Actor.remote().inherits.remote(), task.remote()]
    eventually(lambda: len(tally) == 1)
    os.kill(int(tally.words()[0]), signal.SIGKILL)
    go.set()
    assert skate.get(refs, timeout=PATIENCE) == [True, True]


def test_nobody_waits_for_an_import_that_only_others_need(
    start: Any, go: Flag, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_SLOW", ("skate_slow",))
    start(num_cpus=2, preload=["skate_quick"])

    @skate.remote
    def quick() -> bool:
        return "skate_quick" in sys.modules

    @skate.remote
    class Slow:
        def inherits(self) -> bool:
            return bool(import_module("skate_slow").imported_by != os.getpid())

    @skate.remote
    class Other:
        def answer(self) -> int:
            return 42

    assert skate.get(quick.remote(), timeout=PATIENCE)  # there is a warm server
    import_module("skate_slow")
    inherits = Slow.remote().inherits.remote()
    eventually(lambda: len(tally) == 1)  # which begins to import
    assert skate.get(Other.remote().answer.remote(), timeout=PATIENCE) == 42
    go.set()
    assert skate.get(inherits, timeout=PATIENCE)
    assert len(tally) == 1
