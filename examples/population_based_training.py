"""Population-based training: bad trials go on from a copy of a good one, with another rate.

Each trial walks towards zero by a rate; slow ones are given the place and the rate of fast ones.
"""

from __future__ import annotations

import tempfile
from typing import Any

from skate import train, tune
from skate.train import Checkpoint, RunConfig
from skate.tune.schedulers import PopulationBasedTraining


def walk(config: dict[str, Any]) -> None:
    state = {"position": 10.0, "step": 0}
    if (checkpoint := tune.get_checkpoint()) is not None:
        state = checkpoint.to_dict()
    while state["step"] < 20:
        state["position"] *= 1 - config["rate"]
        state["step"] += 1
        tune.report(
            {"distance": abs(state["position"])}, checkpoint=Checkpoint.from_dict(dict(state))
        )


def main() -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=5,
        hyperparam_mutations={"rate": tune.uniform(0.01, 0.5)},
    )
    with tempfile.TemporaryDirectory() as place:
        grid = tune.Tuner(
            walk,
            param_space={"rate": tune.grid_search([0.01, 0.05, 0.1, 0.3])},
            tune_config=tune.TuneConfig(metric="distance", mode="min", scheduler=scheduler),
            run_config=RunConfig(
                storage_path=place,
                verbose=0,
                checkpoint_config=train.CheckpointConfig(num_to_keep=2),
            ),
        ).fit()
        best = grid.get_best_result(filter_nan_and_inf=False)
    print(f"{len(grid)} trials, the best came to {(best.metrics or {})['distance']:.3f}")


if __name__ == "__main__":
    main()
