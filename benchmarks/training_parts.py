"""Parts of a training that people wait for, each beside the bare thing, in processes of their own.

    python -m benchmarks.training_parts                      everything
    python -m benchmarks.training_parts --only start         the start, recovery, resize or staging

start      from `fit()` to the loop, in a program that had time and in one that had none, beside
           one bare `import torch`; and from there to the first step of DistributedDataParallel
recovery   from the death of a worker to the next step, beside the elastic restart of torchrun
resize     from room for another worker to the first step with it
staging    how long `report(..., checkpoint_upload_mode=ASYNC)` of 1 GB keeps the loop waiting,
           beside a copy of it
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.alone import compile_modules
from benchmarks.rows import Goal, Row, at_most

ROOT = Path(__file__).resolve().parents[1]
STEPS, DEATH_AT = 60, 20
GIGABYTE = 2**30
PATIENCE = 120.0  # seconds for a peer

NO_TIME = Goal(
    "<= 1.1 x import + 0.3 s", ("import",), lambda v: v["skate"] <= 1.1 * v["import"] + 0.3
)
A_COPY = Goal("<= 1.2 x a copy", ("copy",), lambda v: v["skate"] <= 1.2 * v["copy"])

TABLE = {
    "start": (
        Row("prepared", "fit called to loop entered, the program had time", "s",
            (at_most(0.3, "s"),), (), less_is_better=True),
        Row("at_once", "fit called to loop entered, at once", "s", (NO_TIME,), ("import",),
            less_is_better=True),
        Row("step", "loop entered to first step, the program had time", "s",
            (at_most(0.3, "s"),), (), less_is_better=True),
    ),
    "recovery": (
        Row("worker", "death to next step, restart='worker'", "s",
            (at_most(1.0, "s"),), ("torchrun",), less_is_better=True),
        Row("group", "death to next step, restart='group'", "s", (), ("torchrun",),
            less_is_better=True),
    ),
    "resize": (
        Row("resize", "room for a worker to first step with it", "s", (at_most(2.0, "s"),), (),
            less_is_better=True),
    ),
    "staging": (
        Row("staging", "1 GB reported asynchronously, loop blocked", "s", (A_COPY,), ("copy",),
            less_is_better=True),
    ),
}  # fmt: skip


# -- the start -----------------------------------------------------------------------------------


def started(wait: float) -> dict[str, float]:
    """Import, wait as if data were loaded, and fit."""
    from skate import train
    from skate.train.torch import TorchTrainer

    def loop() -> None:
        import torch

        entered = time.time()
        train.torch.prepare_model(torch.nn.Linear(2, 1))(torch.ones(1, 2)).sum().backward()
        train.report({"entered": entered, "stepped": time.time()})

    time.sleep(wait)
    called = time.time()
    with tempfile.TemporaryDirectory() as storage:
        metrics = TorchTrainer(
            loop,
            scaling_config=train.ScalingConfig(num_workers=2),
            run_config=train.RunConfig(storage_path=storage, verbose=0),
        ).fit().metrics  # fmt: skip
    assert metrics is not None
    return {
        "loop": metrics["entered"] - called,
        "step": metrics["stepped"] - metrics["entered"],
    }


def start() -> dict[str, dict[str, float]]:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    bare = time.perf_counter() - begun
    prepared, at_once = alone("started", 2 * bare), alone("started", 0.0)
    return {
        "prepared": {"skate": prepared["loop"]},
        "at_once": {"skate": at_once["loop"], "import": bare},
        "step": {"skate": prepared["step"]},
    }


# -- a death -------------------------------------------------------------------------------------


def step_with_a_death(folder: Path, rank: int, number: int) -> None:
    """One step together; rank 1 dies before its part of one, and rank 0 notes the end of that."""
    import torch
    import torch.distributed as dist

    death, after = folder / "death", folder / "after"
    if rank == 1 and number == DEATH_AT and not death.exists():
        death.write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))
    if rank == 0 and number == DEATH_AT and not after.exists():
        after.write_text(str(time.time()))
    time.sleep(0.01)


def recovery_time(folder: Path) -> float:
    return float((folder / "after").read_text()) - float((folder / "death").read_text())


def recovered(restart: str) -> dict[str, float]:
    from skate import train
    from skate.train.torch import ResilientState, TorchTrainer

    def loop(config: dict[str, Any]) -> None:
        folder, rank = Path(config["folder"]), train.get_context().get_world_rank()
        before = train.get_checkpoint()
        state = ResilientState(step=before.to_dict()["step"] if before else 0)

        def steps(state: Any) -> None:
            while state.step < STEPS:
                step_with_a_death(folder, rank, state.step)
                state.step += 1
                if state.step % 10 == 0:
                    kept = train.Checkpoint.from_dict({"step": state.step})
                    train.report({"step": state.step}, checkpoint=kept)
                state.commit()

        state.run(steps)

    failure = train.FailureConfig(restart=restart, max_failures=1)
    with tempfile.TemporaryDirectory() as storage:
        TorchTrainer(
            loop,
            train_loop_config={"folder": storage},
            scaling_config=train.ScalingConfig(num_workers=2),
            run_config=train.RunConfig(storage_path=storage, verbose=0, failure_config=failure),
        ).fit()
        return {"seconds": recovery_time(Path(storage))}


def rank_of_torchrun(place: str) -> None:
    """The same steps in a process of torchrun, from the last checkpoint on."""
    import torch.distributed as dist

    folder = Path(place)
    dist.init_process_group("gloo")
    for number in range(DEATH_AT if (folder / "death").exists() else 0, STEPS):
        step_with_a_death(folder, dist.get_rank(), number)
    dist.destroy_process_group()


def restarted_by_torchrun() -> float:
    """Its processes are ended as soon as they go on: they do not always end by themselves.
    Infinite, if they do not go on."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d"]
    launcher += ["--rdzv-endpoint", "127.0.0.1:0", "--monitor-interval", "0.1"]
    workers = ["--nproc-per-node", "2", "--max-restarts", "1"]
    program = ["-m", "benchmarks.training_parts", "--one", "rank_of_torchrun"]
    with tempfile.TemporaryDirectory() as place, open(os.devnull, "wb") as nowhere:
        command = [*launcher, *workers, *program, json.dumps(place)]
        peer = subprocess.Popen(
            command, cwd=ROOT, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        try:
            give_up = time.monotonic() + PATIENCE
            while not (Path(place) / "after").exists() and time.monotonic() < give_up:
                time.sleep(0.05)
        finally:
            os.killpg(peer.pid, signal.SIGTERM)
            peer.wait()
        return recovery_time(Path(place)) if (Path(place) / "after").exists() else math.inf


def recovery() -> dict[str, dict[str, float]]:
    peer = restarted_by_torchrun()
    return {
        restart: {"skate": alone("recovered", restart)["seconds"], "torchrun": peer}
        for restart in ("worker", "group")
    }


# -- room ----------------------------------------------------------------------------------------


def resized() -> dict[str, float]:
    from skate import train
    from skate.experimental import set_resource
    from skate.train.torch import ResilientState, TorchTrainer

    def loop() -> None:
        import torch.distributed as dist

        state = ResilientState(room=0.0)

        def steps(state: Any) -> None:
            if train.get_context().get_world_size() == 2:
                return
            state.room = time.time()
            state.commit()
            set_resource("seat", 2)
            while True:
                dist.barrier()
                state.commit()
                time.sleep(0.01)

        state.run(steps)
        train.report({"seconds": time.time() - state.room})

    set_resource("seat", 1)
    failure = train.FailureConfig(restart="worker")
    each = {"CPU": 0.1, "seat": 1}
    with tempfile.TemporaryDirectory() as storage:
        metrics = TorchTrainer(
            loop,
            scaling_config=train.ScalingConfig(num_workers=(1, 2), resources_per_worker=each),
            run_config=train.RunConfig(storage_path=storage, verbose=0, failure_config=failure),
        ).fit().metrics  # fmt: skip
    assert metrics is not None
    return {"seconds": metrics["seconds"]}


def resize() -> dict[str, dict[str, float]]:
    return {"resize": {"skate": alone("resized")["seconds"]}}


# -- a checkpoint --------------------------------------------------------------------------------


def staged() -> dict[str, float]:
    """The quickest of three reports, and the quickest of three copies."""
    from skate import train
    from skate.train.torch import TorchTrainer

    def loop() -> None:
        import torch

        state: dict[str, Any] = {str(n): torch.ones(GIGABYTE // 32) for n in range(8)}
        reports, copies = [], []
        for number in range(3):
            begun = time.perf_counter()
            copy = {name: tensor.clone() for name, tensor in state.items()}
            copies.append(time.perf_counter() - begun)
            del copy
            kept = train.Checkpoint.from_dict(state)
            mode = train.CheckpointUploadMode.ASYNC
            begun = time.perf_counter()
            train.report({"number": number}, checkpoint=kept, checkpoint_upload_mode=mode)
            reports.append(time.perf_counter() - begun)
        train.report({"skate": min(reports), "copy": min(copies)})

    with tempfile.TemporaryDirectory() as storage:
        keep = train.CheckpointConfig(num_to_keep=1)
        metrics = TorchTrainer(
            loop,
            run_config=train.RunConfig(storage_path=storage, verbose=0, checkpoint_config=keep),
        ).fit().metrics  # fmt: skip
    assert metrics is not None
    return {name: metrics[name] for name in ("skate", "copy")}


def staging() -> dict[str, dict[str, float]]:
    return {"staging": alone("staged")}


# -- the table -----------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], dict[str, dict[str, float]]]] = {
    part.__name__: part for part in (start, recovery, resize, staging)
}
ONES: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (started, recovered, rank_of_torchrun, resized, staged)
}


def alone(one: str, *arguments: object) -> dict[str, float]:
    """Measure something in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.training_parts", "--one", one]
    command += [json.dumps(argument) for argument in arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", choices=PARTS, help="one of the parts")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, *arguments = options.one
        print(json.dumps(ONES[name](*map(json.loads, arguments))))
        return
    from benchmarks.train import show  # which imports torch: what is measured must not have it

    compile_modules()
    for name, part in PARTS.items():
        if options.only in (None, name):
            values = part()
            for row in TABLE[name]:
                show(row, values[row.name])


if __name__ == "__main__":
    main()
