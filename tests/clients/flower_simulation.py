"""Flower: two rounds of federated averaging over four simulated clients, on its ray backend."""

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation


class Client(NumPyClient):
    def fit(self, parameters, config):
        return [parameters[0] + 1.0], 1, {}

    def evaluate(self, parameters, config):
        return float(parameters[0].sum()), 1, {}


def client_fn(context: Context):
    return Client().to_client()


def server_fn(context: Context) -> ServerAppComponents:
    start = ndarrays_to_parameters([np.zeros(3)])
    strategy = FedAvg(initial_parameters=start, min_available_clients=4)
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2))


if __name__ == "__main__":
    run_simulation(
        server_app=ServerApp(server_fn=server_fn),
        client_app=ClientApp(client_fn=client_fn),
        num_supernodes=4,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    print("two rounds, four clients")
