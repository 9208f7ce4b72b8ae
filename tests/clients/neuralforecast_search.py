"""neuralforecast: a network whose settings Ray Tune chooses."""

from neuralforecast import NeuralForecast
from neuralforecast.auto import AutoMLP
from neuralforecast.utils import AirPassengersDF
from ray import tune

if __name__ == "__main__":
    space = {
        "input_size": tune.choice([12, 24]),
        "learning_rate": tune.loguniform(1e-4, 1e-1),
        "max_steps": 5,
        "val_check_steps": 5,
        "enable_progress_bar": False,
        "logger": False,
    }
    model = AutoMLP(h=12, config=space, num_samples=2)
    forecast = NeuralForecast(models=[model], freq="ME")
    forecast.fit(AirPassengersDF, val_size=12)
    predicted = forecast.predict()
    assert len(predicted) == 12
    assert predicted["AutoMLP"].notna().all()
    print("2 trials, 12 months ahead")
