"""A program for the page to show. It does what it is told, line by line, and says when it has."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import skate

HOSTILE = os.environ.get("SHOWN_TEXT", "<img src=x onerror=\"document.body.dataset.owned='1'\">")


@skate.remote
def quick(seconds: float) -> None:
    time.sleep(seconds)


@skate.remote
def load(seconds: float) -> None:
    print(f"loading for {seconds} s {HOSTILE}")
    time.sleep(seconds)


@skate.remote(max_retries=0)
def fails() -> None:
    raise ValueError(HOSTILE)


@skate.remote
class Account:
    def __init__(self) -> None:
        self.other: Any = None

    def know(self, other: Any) -> None:
        self.other = other

    def pay(self) -> Any:
        return skate.get(self.other.take.remote())

    def take(self) -> Any:
        return skate.get(self.other.pay.remote())


class Show:
    """What it can be told."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.kept: list[Any] = []

    def tasks(self, count: str = "60", seconds: str = "0.05") -> None:
        """Run tasks, one of which fails."""
        refs = [(load if one % 3 else quick).remote(float(seconds)) for one in range(int(count))]
        skate.wait(refs, num_returns=len(refs))
        skate.wait([fails.options(name=f"fails {HOSTILE}").remote()])

    def hold(self) -> None:
        """Keep an object, and let a task run for long."""
        self.kept += [skate.put(bytes(3_000_000)), load.remote(3600.0)]

    def actors(self) -> None:
        """Have an actor, and one that is gone."""
        first, second = Account.options(name="first").remote(), Account.remote()
        skate.get([first.know.remote(second), second.know.remote(first)])
        skate.kill(gone := Account.options(name="gone").remote())
        self.kept += [first, second, gone]

    def deadlock(self) -> None:
        """Let two actors wait for each other."""
        self.kept.append(self.kept[-3].pay.remote())

    def dataset(self) -> None:
        """Have a dataset under way."""
        import skate.data

        def slow(row: dict[str, Any]) -> dict[str, Any]:
            time.sleep(0.002)
            return {"x": row["id"] * 2}

        rows = skate.data.range(4000, override_num_blocks=40).map(slow).filter(lambda row: True)
        items = iter(rows.iter_batches(batch_size=100))
        next(items)
        self.kept.append(items)

    def search(self) -> None:
        """Run a search, some trials of which fail."""
        from skate import tune
        from skate.train import RunConfig

        def objective(config: dict[str, Any]) -> None:
            for step in range(1, 21):
                loss = config["lr"] ** 0.5 + 1 / (step * config["width"])
                tune.report({"loss": loss, "accuracy": 1 / (1 + loss)})
                if config["lr"] > 0.3 and step == 4:
                    raise RuntimeError(f"diverged {HOSTILE}")

        tune.Tuner(
            objective,
            param_space={
                "lr": tune.grid_search([0.0001, 0.0006, 0.003, 0.02, 0.1, 0.5]),
                "width": tune.grid_search([1, 4]),
                "kind": tune.choice(["relu", "gelu", HOSTILE]),
            },
            tune_config=tune.TuneConfig(metric="loss", mode="min"),
            run_config=RunConfig(name="search", storage_path=self.folder, verbose=0),
        ).fit()

    def train(self) -> None:
        """Train for a while, in a thread, until told to `finish`."""
        import threading

        from skate import train
        from skate.train import RunConfig, ScalingConfig
        from skate.train.data_parallel_trainer import DataParallelTrainer

        finish = os.path.join(self.folder, "finish")

        def loop() -> None:
            epoch = 0
            while epoch < 3 or not os.path.exists(finish):
                epoch += 1
                train.report({"loss": 1 / epoch, "epoch": epoch})
                time.sleep(0.05)

        trainer = DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name="training", storage_path=self.folder, verbose=0),
        )
        thread = threading.Thread(target=trainer.fit)
        thread.start()
        self.kept.append(thread)

    def finish(self) -> None:
        """End the training."""
        open(os.path.join(self.folder, "finish"), "w").close()
        self.kept.pop().join()

    def serve(self) -> None:
        """Deploy something, and call it."""
        from skate import serve

        @serve.deployment(num_replicas=2)
        class Double:
            def __call__(self, number: int) -> int:
                time.sleep(0.01)
                return 2 * number

        serve.start(proxy_location="Disabled")  # another program may have the usual port
        handle = serve.run(Double.bind(), route_prefix=None)
        self.kept.append(handle)
        self.call()

    def call(self, count: str = "40") -> None:
        """Call what was deployed."""
        for one in range(int(count)):
            self.kept[-1].remote(one).result()


def main(*arguments: str) -> None:
    context = skate.init(num_cpus=4, dashboard="page" in arguments)
    print(f"up {context.dashboard_url}", flush=True)
    show = Show(os.getcwd())
    for line in sys.stdin:
        name, *words = line.split()
        if name == "shutdown":
            skate.shutdown()
        else:
            getattr(show, name)(*words)
        print(f"done {name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
