"""Programs whose standard streams are closed, absent, or somebody's own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import skate
import skate.data
from skate import train, tune
from skate._core.standard_streams import is_terminal, say
from skate.train.data_parallel_trainer import DataParallelTrainer
from tests.support import run_program

# Everything that draws or says something on the way.
PROGRAM = """
import json, os, sys, skate
from tests.core import test_standard_streams
skate.init(num_cpus=2, engine="local")
skate.get(skate.remote(print).remote("in a task"))
said = {
    "libraries": test_standard_streams.use_all_libraries(sys.argv[1]),
    "streams": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
}
with open(os.path.join(sys.argv[1], "said"), "w") as file:
    json.dump(said, file)
"""


@skate.remote
def task(x: int) -> int:
    subprocess.run(["echo", "below Python"], check=True)
    return x + 1


def slow(batch: Any) -> Any:
    time.sleep(0.02)
    return batch


def loop() -> None:
    train.report({"step": 1})


def trial(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"]})


def use_all_libraries(folder: str) -> list[Any]:
    """What a task, a dataset, a training and a search find."""
    blocks = skate.data.range(40, override_num_blocks=40)
    run = tune.RunConfig(storage_path=folder, verbose=2)
    trainer = DataParallelTrainer(loop, scaling_config={"num_workers": 1}, run_config=run)
    logged = tune.RunConfig(storage_path=folder, verbose=2, log_to_file=True)
    search = tune.Tuner(trial, param_space={"x": tune.grid_search([3])}, run_config=logged)
    return [
        skate.get(task.remote(1)),
        blocks.map_batches(slow).count(),
        (trainer.fit().metrics or {})["step"],
        (search.fit()[0].metrics or {})["loss"],
    ]


def test_descriptors_that_are_closed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    closing = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    done = run_program([*closing, *command], cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    said = json.loads((tmp_path / "said").read_text())
    assert said == {"libraries": [2, 40, 1, 3], "streams": [os.devnull] * 3}


class Little:
    """A stream as some programs write them."""

    def write(self, text: str) -> int:
        return len(text)


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"absent": lambda: None, "closed": closed, "little": Little}


@pytest.mark.engines("inline")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", STREAMS)
def test_streams_that_are_not_what_they_usually_are(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, STREAMS[kind]())
        found = use_all_libraries(str(tmp_path))
    assert found == [2, 40, 1, 3]


@pytest.mark.parametrize("stream", [None, object(), closed(), io.StringIO()])
def test_what_is_no_terminal(stream: Any) -> None:
    assert not is_terminal(stream)


def test_a_line_is_said_where_that_is_possible() -> None:
    stream = io.StringIO()
    say(stream, "hello")
    assert stream.getvalue() == "hello\n"
    for impossible in (None, object(), closed()):
        say(impossible, "hello")
