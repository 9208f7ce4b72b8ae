"""Weight averaging in PyTorch: networks that train apart and meet in the middle.

The same as the example for TensorFlow. A state dictionary of tensors travels through shared memory
as it is: the networks read one copy.
"""

from __future__ import annotations

import torch
from torch import nn

import skate

NETWORKS = 3
ROUNDS = 5

Weights = dict[str, torch.Tensor]


def make_data(seed: int, count: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return inputs, torch.sin(inputs.sum(dim=1, keepdim=True))


@skate.remote
class Network:
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02)
        self.inputs, self.targets = make_data(seed)

    def train(self, weights: Weights, steps: int = 16) -> Weights:
        """A round of training from these weights; the weights after it."""
        self.model.load_state_dict(weights)
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
            torch.autograd.backward(loss)
            self.optimizer.step()
        return self.model.state_dict()

    def get_weights(self) -> Weights:
        return self.model.state_dict()

    @torch.no_grad()
    def loss(self, weights: Weights) -> float:
        """On data that no network has seen."""
        self.model.load_state_dict(weights)
        inputs, targets = make_data(seed=1000)
        return float(nn.functional.mse_loss(self.model(inputs), targets))


def mean(all_weights: list[Weights]) -> Weights:
    return {name: torch.stack([w[name] for w in all_weights]).mean(0) for name in all_weights[0]}


def main() -> None:
    networks = [Network.remote(seed) for seed in range(NETWORKS)]
    weights = skate.get(networks[0].get_weights.remote())
    first = skate.get(networks[0].loss.remote(weights))
    for _ in range(ROUNDS):
        shared = skate.put(weights)  # one copy in shared memory, read by all
        weights = mean(skate.get([network.train.remote(shared) for network in networks]))
    last = skate.get(networks[0].loss.remote(weights))
    print(f"loss {first:.3f} -> {last:.3f}")
    print("averaging helps" if last < first / 2 else "averaging does not help")


if __name__ == "__main__":
    skate.init()
    main()
