"""A program that commands look into: it prints "up" once all of it runs."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

import skate


@skate.remote
def sleeper() -> None:
    time.sleep(3600)


@skate.remote
def caller() -> None:
    print("calling")
    skate.get(sleeper.remote())


@skate.remote
class Counter:
    async def wait(self) -> None:
        await self.forever()

    async def forever(self) -> None:
        import asyncio

        await asyncio.Event().wait()


@skate.remote
def hog(flag: str) -> None:
    Path(flag).touch()
    ctypes.PyDLL(None).sleep(3600)  # keeps the GIL


def main(folder: str, how: str) -> None:
    skate.init(num_cpus=4, namespace="looked-at")
    array = skate.put(bytes(200_000))
    flag = f"{folder}/hogging"
    counter = Counter.options(name="counting").remote()
    pending = [caller.remote(), counter.wait.remote(), hog.remote(flag)]
    from skate.util.state import list_tasks

    wanted = {"caller", "sleeper", "Counter.wait", "hog"}
    while {row.name for row in list_tasks() if row.state == "RUNNING"} != wanted:
        time.sleep(0.01)
    while not Path(flag).exists():
        time.sleep(0.01)
    print("up", flush=True)
    if how == "busy":
        ctypes.PyDLL(None).sleep(3600)
    skate.get(pending)
    del array


if __name__ == "__main__":
    main(*sys.argv[1:])
