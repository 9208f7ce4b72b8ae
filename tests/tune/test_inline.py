"""The engine without processes."""

import skate
from skate import tune
from skate.tune.schedulers import ASHAScheduler


def test_without_processes(tmp_path):
    def objective(config):
        for step in range(3):
            empty = tune.Checkpoint.from_dict({})
            tune.report({"loss": config["x"] / (step + 1)}, checkpoint=empty)

    skate.init(engine="inline", num_cpus=2)
    try:
        analysis = tune.run(
            objective, config={"x": tune.grid_search([1, 2, 3])}, storage_path=tmp_path,
            metric="loss", mode="min", scheduler=ASHAScheduler(max_t=3, reduction_factor=2),
        )  # fmt: skip
    finally:
        skate.shutdown()
    assert analysis.best_config == {"x": 1}
