"""A limit for all tests together: a hang that no test's own time-out ends would be one for whoever
waits for the tests."""

from __future__ import annotations

import faulthandler
import os
import threading
import time

from tests.leftovers import kill_marked_processes

#: Seconds for all the tests of one pytest process; 0 for no limit.
LIMIT_SECONDS = float(os.environ.get("SKATE_TEST_LIMIT_SECONDS", "3600"))
_GRACE_SECONDS = 60.0  # for a thread that needs the GIL, before it is done without


def limit_the_whole() -> None:
    """After the limit, show what every thread does, kill what tests have started, and end."""
    if LIMIT_SECONDS <= 0:
        return
    screen = os.dup(2)  # pytest captures the descriptor itself while tests run
    threading.Thread(target=_watch, args=(screen,), daemon=True, name="time-limit").start()
    faulthandler.dump_traceback_later(LIMIT_SECONDS + _GRACE_SECONDS, exit=True, file=screen)


def _watch(screen: int) -> None:
    time.sleep(LIMIT_SECONDS)
    text = f"\nThe tests have not ended within {LIMIT_SECONDS:g} s. What they do now:\n\n"
    os.write(screen, text.encode())
    faulthandler.dump_traceback(screen)
    kill_marked_processes()
    os._exit(124)
