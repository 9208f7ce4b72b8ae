"""sktime: cross-validation of a forecaster with `backend="ray"`."""

from sktime.datasets import load_airline
from sktime.forecasting.model_evaluation import evaluate
from sktime.forecasting.naive import NaiveForecaster
from sktime.split import ExpandingWindowSplitter

if __name__ == "__main__":
    splits = ExpandingWindowSplitter(initial_window=96, step_length=12, fh=[1, 2, 3])
    arguments = {"forecaster": NaiveForecaster(sp=12), "cv": splits, "y": load_airline()}
    here = evaluate(**arguments)
    there = evaluate(
        **arguments, backend="ray", backend_params={"ray_remote_args": {"num_cpus": 2}}
    )
    column = next(name for name in here.columns if name.startswith("test_"))
    assert (here[column] - there[column]).abs().max() == 0
    print(len(there), "windows, the same scores as without")
