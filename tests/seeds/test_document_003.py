"""Ray's walkthrough of tuning a PyTorch network: its code blocks, in the program they describe.

Only `ray` is called `skate`. The images come from this machine (see `standin`), and are fewer.
"""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

from tests.seeds.documents import blocks, text_of
from tests.support import run_program

DOCUMENT = text_of("003")
STANDIN = Path(__file__).parent / "standin"
ROOT = Path(__file__).parents[2]

# What the guide describes in words, around what it shows.
PROGRAM = """
import os
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torchvision
import torchvision.transforms as transforms
from torch.utils.data import random_split

import skate
from skate import tune
from skate.tune import CLIReporter
from skate.tune.schedulers import ASHAScheduler

MEAN, STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


def load_data(data_dir="./data"):
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    return tuple(
        torchvision.datasets.CIFAR10(root=data_dir, train=t, download=True, transform=transform)
        for t in (True, False)
    )


class Net(nn.Module):
    def __init__(self, l1=120, l2=84):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, l1), nn.Linear(l1, l2), nn.Linear(l2, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv2(self.pool(F.relu(self.conv1(x))))))
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


def train_cifar(config, checkpoint=None, data_dir=None):
{build}
{device}
    criterion = nn.CrossEntropyLoss()
{optimizer}
    trainset, _ = load_data(data_dir)
    size = int(len(trainset) * 0.8)
    parts = random_split(trainset, [size, len(trainset) - size])
    trainloader, valloader = (
        torch.utils.data.DataLoader(part, batch_size=int(config["batch_size"]), shuffle=True)
        for part in parts
    )
    for epoch in range(3):
{loop}
            optimizer.zero_grad()
            criterion(net(inputs), labels).backward()
            optimizer.step()
        val_loss, val_steps, total, correct = 0.0, 0, 0, 0
        with torch.no_grad():
            for inputs, labels in valloader:
                outputs = net(inputs.to(device))
                total += labels.size(0)
                correct += (outputs.argmax(1) == labels.to(device)).sum().item()
                val_loss += criterion(outputs, labels.to(device)).item()
                val_steps += 1
{report}


def test_accuracy(net, device="cpu"):
    _, testset = load_data()
    loader = torch.utils.data.DataLoader(testset, batch_size=16)
    with torch.no_grad():
        right = sum((net(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in loader)
    return right / len(testset)


def main(num_samples=4, max_num_epochs=3):
    data_dir = os.path.abspath("./data")
    load_data(data_dir)
{space}
    scheduler = ASHAScheduler(
        metric="loss", mode="min", max_t=max_num_epochs, grace_period=1, reduction_factor=2
    )
    reporter = CLIReporter(metric_columns=["loss", "accuracy", "training_iteration"])
{run}
    best_trial = result.get_best_trial("loss", "min", "last")
    print(f"Best trial config: {{best_trial.config}}")
    print("Best trial final validation loss:", best_trial.last_result["loss"])
    print("Best trial final validation accuracy:", best_trial.last_result["accuracy"])
    assert best_trial.last_result["loss"] == min(t.last_result["loss"] for t in result.trials)
    net = Net(best_trial.config["l1"], best_trial.config["l2"])
    model_state, optimizer_state = torch.load(best_trial.checkpoint.value)
    net.load_state_dict(model_state)
    print("Best trial test set accuracy:", test_accuracy(net))


skate.init(num_cpus=8, num_gpus=2)  # this machine need not have them
main()
print("checked")
"""


def program(text: str) -> str:
    """The program, with the guide's own blocks at their places."""
    build, optimizer, device, loop, report, space, run = blocks(text)[:7]
    places = {"build": build, "optimizer": optimizer, "device": device, "report": report,
              "loop": loop, "space": space, "run": run}  # fmt: skip
    deeper = {"report": 8, "loop": 8}
    inserted = {
        name: textwrap.indent(block.rstrip(), " " * deeper.get(name, 4))
        for name, block in places.items()
    }
    return PROGRAM.format(**inserted)


if DOCUMENT is not None:
    TEXT = DOCUMENT

    def test_the_walkthrough(tmp_path: Path, warm_python: str) -> None:
        (tmp_path / "guide.py").write_text(program(TEXT))
        settings = {
            "PYTHONPATH": os.pathsep.join([str(STANDIN), str(ROOT)]),
            "SKATE_STORAGE": str(tmp_path / "results"),
            "STANDIN_IMAGES": "240",
        }
        command = [warm_python, "guide.py"]
        done = run_program(command, cwd=tmp_path, env=os.environ | settings, timeout=240)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("checked\n")
        assert "Number of trials: 4 (4 TERMINATED)" in done.stdout
        header = r"\| Trial name +\| status +\| loc +\| +l1 \| +l2 \| +lr \| +batch_size \| +loss "
        assert re.search(header + r"\| +accuracy \| +training_iteration \|", done.stdout)
        last_table = done.stdout.rpartition("Number of trials")[2]
        assert len(re.findall(r"\| train_cifar_\w{5}_\d{5} \| TERMINATED ", last_table)) == 4
        assert "Best trial test set accuracy: 0." in done.stdout
