"""Kills training workers at random moments, and compares the weights with an undisturbed run.

python -m tests.chaos.resilience --kills 100 --workers 3
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch

import skate
from skate import train
from skate.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from skate.train.torch import ResilientState, TorchTrainer

STEPS_PER_KILL = 60


def loop(config: dict[str, Any]) -> None:
    """Train a network with dropout, batch norm and Adam, so slowly that it can be killed."""
    Path(config["pids"], str(os.getpid())).touch()
    train.torch.enable_reproducibility(7)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.1),
        torch.nn.ReLU(), torch.nn.Linear(32, 1),
    )  # fmt: skip
    model = train.torch.prepare_model(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = ResilientState(model=model, optimizer=optimizer, step=0)

    def steps(state: ResilientState) -> None:
        while state.step < config["steps"]:
            where = torch.Generator().manual_seed(100 * state.step + train.world_rank())
            x = torch.rand(8, 6, generator=where)
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if state.step % 50 == 0:
                train.report({"step": state.step, "loss": loss.item()})
            state.step += 1
            state.commit()
            time.sleep(0.005)

    state.run(steps)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    train.report({"step": state.step}, checkpoint=Checkpoint.from_dict({"model": weights}))


class Killer(threading.Thread):
    """Kills one worker after the other, until so many are dead or the run is over."""

    def __init__(self, pids: Path, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.left = kills
        self.over = threading.Event()
        self._pids = pids
        self._dice = random.Random(seed)

    def run(self) -> None:
        while self.left and not self.over.wait(self._dice.uniform(0.02, 0.8)):
            alive = [pid for pid in map(int, os.listdir(self._pids)) if self._is_alive(pid)]
            if alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._dice.choice(alive), signal.SIGKILL)
                    self.left -= 1

    @staticmethod
    def _is_alive(pid: int) -> bool:
        return os.path.exists(f"/proc/{pid}")


def weights_after(kills: int, steps: int, workers: int, seed: int) -> dict[str, torch.Tensor]:
    """Train, with so many kills; the weights at the end."""
    with tempfile.TemporaryDirectory() as folder:
        pids = Path(folder, "pids")
        pids.mkdir()
        killer = Killer(pids, kills, seed)
        killer.start()
        begun = time.monotonic()
        result = TorchTrainer(
            loop,
            train_loop_config={"steps": steps, "pids": str(pids)},
            scaling_config=ScalingConfig(
                num_workers=workers, resources_per_worker={"CPU": 1 / workers}
            ),
            run_config=RunConfig(
                storage_path=folder,
                verbose=0,
                failure_config=FailureConfig(restart="worker"),
            ),
        ).fit()
        killer.over.set()
        killer.join()
        reported = list(result.metrics_dataframe["step"])
        assert reported == [*range(0, steps, 50), steps], reported
        print(f"{kills - killer.left} kills, {time.monotonic() - begun:.1f} s")
        assert result.checkpoint is not None
        weights: dict[str, torch.Tensor] = result.checkpoint.to_dict()["model"]
        return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    steps = given.kills * STEPS_PER_KILL
    skate.init(num_cpus=2)
    calm = weights_after(0, steps, given.workers, given.seed)
    killed = weights_after(given.kills, steps, given.workers, given.seed)
    different = [name for name in calm if not torch.equal(calm[name], killed[name])]
    print(f"different: {different}" if different else "weights are equal, bit by bit")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
