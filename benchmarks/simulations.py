"""How the parts that stay in the driver grow, without the cluster they would steer.

    python -m benchmarks.simulations

The controller of skate.tune decides on 100 to 10,000 trials whose results come from a loop here;
the executor of skate.data runs its plan over 1,000 to 100,000 blocks of one row on the inline
engine, so that nothing but its own work is measured. A part that grows evenly takes the same time
per trial or block in each line.
"""

from __future__ import annotations

import resource
import tempfile
from collections import deque
from typing import Any

import skate
from benchmarks.timing import timed

RESULTS = 5  # per trial
AT_ONCE = 500  # trials that run at a time: a cluster of 500 CPUs


def trainable(config: dict[str, Any]) -> None:
    """Never called: its results are made up below."""


def run_trials(count: int, folder: str, scheduler: Any) -> None:
    """What the runner of an experiment does, with results from nowhere."""
    from skate.tune import uniform
    from skate.tune.execution.controller import TuneController
    from skate.tune.execution.events import Began, Reported, TrialVerdict
    from skate.tune.execution.performer import Performer
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.state_file import StateLog
    from skate.tune.search.basic_variant import BasicVariantGenerator

    experiment = Experiment(
        f"{type(scheduler).__name__}-{count}",
        trainable,
        config={"x": uniform(0, 1)},
        num_samples=count,
        storage_path=folder,
    )
    search = BasicVariantGenerator(max_concurrent=AT_ONCE)
    search.add_configurations([experiment])
    scheduler.set_search_properties("loss", "min")
    controller = TuneController(
        search_alg=search,
        scheduler=scheduler,
        stopper=None,
        total_resources={"CPU": AT_ONCE},
        max_concurrent=AT_ONCE,
    )
    performer = Performer(controller, [], StateLog(experiment.storage))
    running: deque[tuple[Any, int]] = deque()
    while not controller.is_finished:
        while (trial := performer.run(controller.next_trial_to_start())) is not None:
            controller.start(trial)
            performer.run(controller.on_event(trial, Began(0)))
            running.append((trial, 0))
        trial, step = running.popleft()
        result = {"loss": trial.config["x"] / (step + 1), "training_iteration": step + 1}
        verdict = TrialVerdict.HALT
        if step < RESULTS:
            verdict = performer.run(controller.on_event(trial, Reported(result)))
        if verdict is TrialVerdict.GO_ON:
            running.append((trial, step + 1))
        else:
            performer.run(controller.on_released(trial))
    experiment.storage.close()


def run_blocks(count: int) -> None:
    """A pass over `count` blocks, with a function of the user's in it."""
    dataset = skate.data.range(count, override_num_blocks=count)
    rows = sum(1 for _ in dataset.map_batches(lambda batch: batch).iter_batches(batch_size=None))
    assert rows == count, rows


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    from skate.tune.schedulers import ASHAScheduler, FIFOScheduler

    with tempfile.TemporaryDirectory() as folder:
        for kind in (FIFOScheduler, ASHAScheduler):
            for count in (100, 1_000, 10_000):
                seconds = timed(lambda n=count, k=kind: run_trials(n, folder, k()))  # type: ignore[misc]
                print(
                    f"{kind.__name__:<22} {count:>7,} trials {seconds:7.2f} s "
                    f"{seconds / count * 1e3:6.2f} ms each, {megabytes():.0f} MB at most"
                )
    skate.init(engine="inline")
    for count in (1_000, 10_000, 100_000):
        seconds = timed(lambda n=count: run_blocks(n))  # type: ignore[misc]
        print(
            f"{'blocks of a dataset':<22} {count:>7,} blocks {seconds:7.2f} s "
            f"{seconds / count * 1e3:6.2f} ms each, {megabytes():.0f} MB at most"
        )


if __name__ == "__main__":
    main()
