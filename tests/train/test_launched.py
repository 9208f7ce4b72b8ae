"""One loop, every launcher: a process group that skate did not start."""

from __future__ import annotations

import json
import sys

import pytest

from skate.train import Result
from tests.support import run_program

PROGRAM = """
import torch
from skate import train
from skate.train import Checkpoint

context = train.get_context()
rank, size = context.get_world_rank(), context.get_world_size()
torch.manual_seed(rank)
model = train.torch.prepare_model(torch.nn.Linear(2, 1))
loader = torch.utils.data.DataLoader(torch.arange(16.0).reshape(8, 2), batch_size=2)
loader = train.torch.prepare_data_loader(loader)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
before = train.get_checkpoint()
first = before.to_dict()["epoch"] + 1 if before else 0
for epoch in range(first, first + 2):
    rows = 0
    for batch in loader:
        rows += len(batch)
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    weights = model.module.weight.tolist()
    checkpoint = Checkpoint.from_dict({"epoch": epoch, "weights": weights})
    train.report({"epoch": epoch, "rows": rows, "size": size}, checkpoint=checkpoint)
assert train.get_checkpoint().to_dict()["epoch"] == epoch
assert train.collective.broadcast_from_rank_zero(weights) == weights
"""

WITHOUT_TORCH = """
from skate import train
from skate.train import Checkpoint

before = train.get_checkpoint()
first = before.to_dict()["epoch"] + 1 if before else 0
for epoch in range(first, first + 2):
    train.report({"epoch": epoch}, checkpoint=Checkpoint.from_dict({"epoch": epoch}))
if first:
    raise ValueError("enough")
"""

LAUNCHERS = {
    "torchrun": (["torch.distributed.run", "--standalone", "--nproc-per-node", "2"], 2),
    "accelerate": (
        ["accelerate.commands.launch", "--cpu", "--num_processes", "1", "--num_machines", "1",
         "--mixed_precision", "no", "--dynamo_backend", "no"],
        1,
    ),
    "accelerate with two processes": (  # which it counts as GPUs, here too
        ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
         "--num_machines", "1", "--main_process_port", "0",
         "--mixed_precision", "no", "--dynamo_backend", "no"],
        2,
    ),
    "fabric": (["lightning.fabric.cli", "--accelerator", "cpu", "--devices", "2"], 2),
    "skate": (["skate", "run"], 1),
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_same_file_by_every_launcher(launcher, tmp_path, monkeypatch, warm_python):
    command, size = LAUNCHERS[launcher]
    program = tmp_path / "loop.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run_program([warm_python, "-m", *command, str(program)], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    result = Result.from_path(run)
    assert list(result.metrics_dataframe["epoch"]) == [0, 1]
    assert result.metrics["rows"] * size == 8
    assert result.metrics["size"] == size
    assert result.checkpoint.to_dict()["epoch"] == 1


def test_a_run_with_a_name_goes_on_and_an_error_ends_it(tmp_path, monkeypatch):
    program = tmp_path / "loop.py"
    program.write_text(WITHOUT_TORCH)
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))
    monkeypatch.setenv("SKATE_RUN_NAME", "mine")
    command = [sys.executable, "-m", "skate", "run", str(program)]
    assert run_program(command).returncode == 0
    assert run_program(command).returncode == 1
    lines = (tmp_path / "mine" / "result.json").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2, 3]
    assert "enough" in str(Result.from_path(tmp_path / "mine").error)
