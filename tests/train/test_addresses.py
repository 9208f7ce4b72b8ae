"""Which ports are open while workers train together: on one machine, those of loopback only."""

from __future__ import annotations

import os

import pytest

from skate import train
from skate.train import ScalingConfig
from skate.train.torch import TorchConfig, TorchTrainer
from tests.train.ports import listening


@pytest.mark.parametrize("init_method", ["env", "tcp"])
def test_torch_listens_on_loopback_only(run_config, init_method):
    def loop():
        import torch
        import torch.distributed as dist

        total = torch.ones(1)
        dist.all_reduce(total)
        dist.new_group([0, 1])
        found = listening()
        train.collective.barrier()
        return total.item(), found, os.environ["MASTER_ADDR"]

    result = TorchTrainer(
        loop,
        torch_config=TorchConfig(backend="gloo", init_method=init_method),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=run_config(),
    ).fit()
    total, found, address = result.return_value
    assert total == 2
    assert address == "127.0.0.1"
    assert found["loopback"]
    assert found["elsewhere"] == []


def test_a_store_that_listens_on_all_interfaces_is_told_of(caplog, monkeypatch):
    from skate.train.torch import _config

    monkeypatch.setattr(_config, "_listeners", [])
    _config._listen("127.0.0.1")
    assert caplog.messages == []
    port = _config._listen("192.0.2.1")  # an address that no machine has
    for listener in _config._listeners:
        listener.close()
    assert port
    (warning,) = caplog.messages
    assert "all interfaces" in warning
    assert "192.0.2.1" in warning


def test_a_loop_may_begin_anew_by_the_environment(run_config):
    def loop():
        import torch
        import torch.distributed as dist

        dist.destroy_process_group()
        train.collective.barrier()  # the old store is that of rank 0, which closes it only now
        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    result = TorchTrainer(
        loop, scaling_config=ScalingConfig(num_workers=2), run_config=run_config()
    ).fit()
    assert result.return_value == 2
