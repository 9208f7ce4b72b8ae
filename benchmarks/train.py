"""skate.train side by side with Ray Train and with DistributedDataParallel by hand, in one run.

The network of Ray's guide from PyTorch to distributed training, on 20,000 images, two workers, two
epochs, a checkpoint after each. Every system runs in a process of its own, twice: the first `fit`
of a program, in which torch is imported, and the second.

    python -m benchmarks.train                  everything
    python -m benchmarks.train --no-ray         without Ray, which takes most of the time
    python -m benchmarks.train --images 2000    less of it

The images are those of FashionMNIST where Debian's `dataset-fashion-mnist` is installed, else as
many random ones of the same size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.alone import compile_modules
from benchmarks.fashion_mnist import fashion_images
from benchmarks.rows import Goal, Row, at_most, share_of

ROOT = Path(__file__).resolve().parents[1]
IMAGES, EPOCHS, WORKERS, BATCH = 20_000, 2, 2, 64
SYSTEMS = ("skate", "spawn", "ray")

FASTER = Goal("faster than spawn", ("spawn",), lambda v: v["skate"] < v["spawn"])

TABLE = (
    Row("cold", "fit called to loop entered, first", "s",
        (at_most(2.5, "s"),), ("spawn", "ray"), less_is_better=True),
    Row("warm", "fit called to loop entered, second", "s",
        (at_most(0.3, "s"),), ("spawn", "ray"), less_is_better=True),
    Row("whole", "whole fit, first", "s", (FASTER,), ("spawn", "ray"), less_is_better=True),
    Row("rows", "rows in the loop", "rows/s", (share_of("spawn", 1.0),), ("spawn", "ray")),
    Row("overhead", "second fit, without its loop", "s",
        (at_most(0.3, "s"),), ("spawn", "ray"), less_is_better=True),
)  # fmt: skip


# -- the work ------------------------------------------------------------------------------------


class Images(Dataset[Any]):
    def __init__(self, count: int) -> None:
        self.pixels, self.labels = fashion_images("train", count)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> Any:
        image = torch.from_numpy(self.pixels[number])[None].float() / 255
        return image, int(self.labels[number])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 10),
    )  # fmt: skip


def train_epochs(model: Any, loader: Any, after_epoch: Callable[[int, Any], None]) -> None:
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        for pixels, labels in loader:
            loss = loss_fn(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after_epoch(epoch, loss)


def timed_epochs(prepare: Any, report: Any, count: int) -> None:
    """The loop of all systems. Reports when it began, how long it trained, and when it ended."""
    entered = time.time()
    loader = DataLoader(Images(count), batch_size=BATCH // WORKERS)
    model, loader = prepare(network(), loader)
    start = time.perf_counter()

    def after_epoch(epoch: int, loss: Any) -> None:
        seconds = time.perf_counter() - start
        report(
            {"loss": loss.item(), "entered": entered, "training": seconds, "left": time.time()},
            {"model": model.module.state_dict(), "epoch": epoch},
        )

    train_epochs(model, loader, after_epoch)


# -- the systems ---------------------------------------------------------------------------------


def library_loop(name: str, config: dict[str, Any]) -> None:
    """On skate or on Ray: the same calls."""
    train: Any = import_module(f"{name}.train")
    import_module(f"{name}.train.torch")

    def prepare(model: Any, loader: Any) -> Any:
        return train.torch.prepare_model(model), train.torch.prepare_data_loader(loader)

    def report(metrics: dict[str, Any], state: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = train.Checkpoint.from_directory(folder)
            train.report(metrics, checkpoint=checkpoint)

    timed_epochs(prepare, report, config["count"])


def on_library(name: str, count: int, storage: str) -> dict[str, Any]:
    """One fit; what the loop reported."""
    train: Any = import_module(f"{name}.train")
    trainer = import_module(f"{name}.train.torch").TorchTrainer(
        partial(library_loop, name),
        train_loop_config={"count": count},
        scaling_config=train.ScalingConfig(num_workers=WORKERS),
        run_config=train.RunConfig(storage_path=storage),
    )
    metrics: dict[str, Any] = trainer.fit().metrics
    return metrics


def by_hand(count: int, storage: str) -> dict[str, Any]:
    """torch.multiprocessing and DistributedDataParallel, as torchrun would set them up."""
    place = os.path.join(storage, "metrics.json")
    store = tempfile.mktemp(dir=storage)
    spawn: Any = import_module("torch.multiprocessing").spawn
    spawn(hand_loop, (count, storage, place, store), nprocs=WORKERS)
    metrics: dict[str, Any] = json.loads(Path(place).read_text())
    return metrics


def hand_loop(rank: int, count: int, storage: str, place: str, store: str) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // WORKERS))  # as torchrun and Ray do
    dist.init_process_group("gloo", init_method=f"file:{store}", rank=rank, world_size=WORKERS)

    def prepare(model: Any, loader: Any) -> Any:
        sampler: Any = torch.utils.data.DistributedSampler(loader.dataset, shuffle=False)
        loader = DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=sampler)
        return DistributedDataParallel(model), loader

    def report(metrics: dict[str, Any], state: dict[str, Any]) -> None:
        if rank == 0:
            torch.save(state, os.path.join(storage, f"state-{state['epoch']}.pt"))
            Path(place).write_text(json.dumps(metrics))

    timed_epochs(prepare, report, count)
    dist.destroy_process_group()


def one(system: str, count: int) -> dict[str, float]:
    """All numbers of one system."""
    with tempfile.TemporaryDirectory() as storage:
        if system == "ray":
            import ray

            ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level="ERROR")
        fit = by_hand if system == "spawn" else partial(on_library, system)
        runs = []
        for _ in range(2):
            called = time.time()
            metrics = fit(count, storage)
            runs.append((called, time.time(), metrics))
    (called, ended, first), (called_again, ended_again, second) = runs
    return {
        "cold": first["entered"] - called,
        "warm": second["entered"] - called_again,
        "whole": ended - called,
        "rows": count * EPOCHS / min(first["training"], second["training"]),
        "overhead": ended_again - called_again - (second["left"] - second["entered"]),
    }


# -- the table -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--no-ray", action="store_true", help="leave Ray out")
    parser.add_argument("--images", type=int, default=IMAGES, help=f"instead of {IMAGES:,}")
    parser.add_argument("--one", metavar="SYSTEM")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.images)))
        return
    compile_modules()
    systems = [name for name in SYSTEMS if not (options.no_ray and name == "ray")]
    values = {system: alone(system, options.images) for system in systems}
    for row in TABLE:
        show(row, {system: found[row.name] for system, found in values.items() if found})


def alone(system: str, images: int) -> dict[str, float] | None:
    command = [sys.executable, "-m", "benchmarks.train", "--one", system, "--images", str(images)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    if done.returncode:
        print(f"  {system}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def show(row: Row, values: dict[str, float]) -> None:
    numbers = "  ".join(f"{system} {value:,.2f}" for system, value in values.items())
    goals = "; ".join(f"{goal.text}: {verdict(goal, values)}" for goal in row.goals)
    print(f"{row.title} ({row.unit}): {numbers}  {goals}")


def verdict(goal: Goal, values: dict[str, float]) -> str:
    if not {"skate", *goal.needs} <= values.keys():
        return "?"
    return "yes" if goal.holds(values) else "no"


if __name__ == "__main__":
    main()
