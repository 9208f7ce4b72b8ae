"""System calls that fail: the n-th call of one of them that skate makes in a scenario.

    scripts/chaos --faults      every scenario, every call, every n until there is none any more

A scenario must end with the right answer or a typed error, leave the session usable, and no
descriptor or file behind. What is told to fail is what Python code of skate calls in the driver:
`fork` is the fork server's, and stands for itself there (`os.posix_spawn` starts that). The same
in a worker: `struck_in`.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import errno
import faulthandler
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import skate
from skate import serve, train, tune
from skate.train import Checkpoint, RunConfig
from skate.train.data_parallel_trainer import DataParallelTrainer
from tests.leftovers import Picture, leftovers_since

HUNG_SECONDS = 120.0
MB = 1_000_000

MAP = "skate.engine.local.mapping._map"

#: What may fail, and how.
CALLS = {
    "builtins.open": errno.EMFILE,
    "os.open": errno.EMFILE,
    "os.mkdir": errno.ENOSPC,
    "os.writev": errno.EIO,
    "os.write": errno.ENOSPC,
    "os.ftruncate": errno.EIO,
    "os.sendfile": errno.ENOSPC,
    "os.rename": errno.EIO,
    "os.replace": errno.ENOSPC,
    "os.memfd_create": errno.EMFILE,
    "os.pipe2": errno.EMFILE,
    "os.posix_spawn": errno.EAGAIN,
    "socket.send_fds": errno.ENOBUFS,
    MAP: errno.ENOMEM,
}


class Fault:
    """Fails the n-th call of a function, if code of skate makes it."""

    def __init__(self, name: str, nth: int) -> None:
        module, _, self._attribute = name.rpartition(".")
        self._home: Any = builtins if module == "builtins" else importlib.import_module(module)
        self._real = getattr(self._home, self._attribute)
        self._error = CALLS[name]
        self._left = nth
        self.struck = False

    def __call__(self, *args: Any, **options: Any) -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("skate."):
            self._left -= 1
            if self._left == 0:
                self.struck = True
                raise OSError(self._error, f"{os.strerror(self._error)} (on purpose)")
        return self._real(*args, **options)

    def __enter__(self) -> Fault:
        setattr(self._home, self._attribute, self)
        return self

    def __exit__(self, *exc: object) -> None:
        setattr(self._home, self._attribute, self._real)


# -- scenarios ------------------------------------------------------------------------------------


@skate.remote
def doubled(array: Any) -> Any:
    return array * 2


def put_and_get(folder: str) -> None:
    array = np.arange(MB // 8)
    np.testing.assert_array_equal(skate.get(skate.put(array)), array)


def call(folder: str) -> None:
    array = np.arange(MB // 8)
    np.testing.assert_array_equal(skate.get(doubled.remote(array), timeout=60), array * 2)


@skate.remote
class Worker:
    """Has faults in its own process."""

    def arm(self, name: str, nth: int) -> None:
        self.fault = Fault(name, nth).__enter__()

    def disarm(self) -> bool:
        self.fault.__exit__()
        return self.fault.struck

    def work(self, array: Any) -> Any:
        return skate.get(skate.put(array)) * 2


def struck_in(worker: Any, name: str, nth: int) -> bool:
    """Let a call fail in an actor that reads, stores and returns large values; whether there was
    such a call. Raises AssertionError, or whatever is not a typed error."""
    array = np.arange(MB // 8)
    skate.get(worker.arm.remote(name, nth), timeout=60)
    with contextlib.suppress(*TYPED):
        np.testing.assert_array_equal(
            skate.get(worker.work.remote(skate.put(array)), timeout=60), array * 2
        )
    struck: bool = skate.get(worker.disarm.remote(), timeout=60)
    np.testing.assert_array_equal(skate.get(worker.work.remote(array), timeout=60), array * 2)
    return struck


def spill(folder: str) -> None:
    refs = [skate.put(np.full(4 * MB, number, "u1")) for number in range(6)]
    assert [int(skate.get(ref)[0]) for ref in refs] == list(range(6))


def report(folder: str) -> None:
    def loop() -> None:
        train.report({"step": 1}, checkpoint=Checkpoint.from_dict({"step": 1}))

    with tempfile.TemporaryDirectory(dir=folder) as place:
        run = RunConfig(name="run", storage_path=place, verbose=0)
        result = DataParallelTrainer(loop, scaling_config={"num_workers": 0}, run_config=run).fit()
        assert result.checkpoint is not None
        assert result.checkpoint.to_dict() == {"step": 1}


def trial(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"]}, checkpoint=Checkpoint.from_dict({"x": config["x"]}))


def search(folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        run = RunConfig(name="search", storage_path=place, verbose=0)
        space = {"x": tune.grid_search([1, 2])}
        grid = tune.Tuner(trial, param_space=space, run_config=run).fit()
        if grid.errors:
            raise grid.errors[0]
        assert sorted((result.metrics or {})["loss"] for result in grid) == [1, 2]


@serve.deployment
class Model:
    def __call__(self) -> int:
        return 42


def deploy(folder: str) -> None:
    try:
        serve.start(proxy_location="Disabled")
        assert serve.run(Model.bind()).remote().result(timeout_s=60) == 42
    finally:
        serve.shutdown()


def start(folder: str) -> None:
    skate.shutdown()
    skate.init(engine="local", num_cpus=2, log_to_driver=False)
    call(folder)


SCENARIOS: dict[str, Callable[[str], None]] = {
    function.__name__: function
    for function in (put_and_get, call, spill, report, search, deploy, start)
}

TYPED = (
    skate.exceptions.SkateError,
    OSError,
    MemoryError,
    tune.TuneError,
    train.TrainingFailedError,
)


def struck_by(name: str, nth: int, scenario: str, folder: str) -> bool:
    """Run a scenario with a fault, and check what must hold; whether there was such a call.

    Raises AssertionError, or whatever is not a typed error.
    """
    before = _descriptors()
    with Fault(name, nth) as fault, contextlib.suppress(*TYPED):
        SCENARIOS[scenario](folder)
    if not skate.is_initialized():
        skate.init(engine="local", num_cpus=2, log_to_driver=False)
    put_and_get(folder)
    call(folder)
    if scenario != "start":
        deadline = time.monotonic() + 10
        while (after := _descriptors()) > before + 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert after <= before + 1, f"{after - before} descriptors more"
    assert not os.listdir(folder)
    return fault.struck


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def session() -> Iterator[None]:
    """A session with little memory, in which two workers are there already."""
    skate.init(engine="local", num_cpus=2, object_store_memory=16 * MB, log_to_driver=False)
    skate.get([doubled.remote(np.ones(10)) for _ in range(4)], timeout=60)
    try:
        yield
    finally:
        skate.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", action="store_true", help="this program")
    parser.add_argument("--most", type=int, default=1000, help="the largest n")
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--call", choices=CALLS, action="append")
    options = parser.parse_args()
    survived = lost = leftovers = 0
    for scenario in options.scenario or SCENARIOS:
        for name in options.call or CALLS:
            before = Picture.take()
            with tempfile.TemporaryDirectory() as folder, session():
                for nth in range(1, options.most + 1):
                    case = f"{scenario}: call {nth} of {name}"
                    faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
                    print(f"{case} ...", end="\r", flush=True)
                    try:
                        if not struck_by(name, nth, scenario, folder):
                            break
                        survived += 1
                    except Exception as error:
                        lost += 1
                        print(f"lost: {case}: {error!r}", flush=True)
                    finally:
                        faulthandler.cancel_dump_traceback_later()
            if left := leftovers_since(before):
                leftovers += len(left)
                print(f"left behind by {scenario}, {name}:\n  " + "\n  ".join(left), flush=True)
            print(f"{scenario}: {name}: {nth - 1} calls failed on purpose", flush=True)
    print(f"survived {survived}  lost {lost}  leftovers {leftovers}")
    return int(lost > 0 or leftovers > 0)


if __name__ == "__main__":
    from tests.chaos import faults

    sys.exit(faults.main())
