"""FLAML: its search on Ray Tune (`use_ray=True`)."""

from flaml import tune


def evaluate(config: dict) -> None:
    tune.report(score=(config["x"] - 3) ** 2 + config["y"])


if __name__ == "__main__":
    analysis = tune.run(
        evaluate,
        config={"x": tune.uniform(0, 10), "y": tune.randint(0, 4)},
        metric="score",
        mode="min",
        num_samples=8,
        use_ray=True,
        verbose=0,
    )
    assert analysis.best_result["score"] >= 0
    print("best", {name: round(value, 2) for name, value in analysis.best_config.items()})
