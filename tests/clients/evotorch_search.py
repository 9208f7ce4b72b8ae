"""evotorch: an evolution strategy whose fitness is computed by two actors."""

import torch
from evotorch import Problem
from evotorch.algorithms import SNES


def sphere(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x**2)


if __name__ == "__main__":
    problem = Problem("min", sphere, solution_length=5, initial_bounds=(-1, 1), num_actors=2)
    searcher = SNES(problem, stdev_init=1.0, popsize=40)
    searcher.run(30)
    assert len(problem.actors) == 2
    assert searcher.status["best_eval"] < 0.5, searcher.status["best_eval"]
    problem.kill_actors()
    print("best", round(float(searcher.status["best_eval"]), 4))
