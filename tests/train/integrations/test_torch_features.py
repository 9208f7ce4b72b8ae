"""What loops use of torch itself, and of Accelerate, in workers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from skate import train
from skate.train import Checkpoint
from skate.train.torch import TorchTrainer
from tests.support import Tally


def fit(loop: Any, run_config: Any, workers: int = 2) -> Any:
    scaling = {"num_workers": workers, "resources_per_worker": {"CPU": 0.5}}
    return TorchTrainer(loop, scaling_config=scaling, run_config=run_config).fit()


def batch(rank: int) -> torch.Tensor:
    """Other rows on each rank."""
    return torch.rand(4, 3, generator=torch.Generator().manual_seed(rank))


def linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 1)


def is_equal_everywhere(value: torch.Tensor) -> bool:
    gathered = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, value.contiguous())
    return all(torch.equal(one, value) for one in gathered)


def test_tensors_in_reports_and_checkpoints(run_config):
    def loop():
        weights = torch.arange(6.0).reshape(2, 3)
        state = {"weights": weights, "row": weights[1], "half": weights.bfloat16()}
        metrics = {"loss": torch.tensor(0.5), "half": torch.tensor(2.0, dtype=torch.bfloat16)}
        loss = torch.nn.Parameter(torch.tensor(0.25)) * 1
        assert loss.requires_grad
        train.report({**metrics, "graph": loss}, checkpoint=Checkpoint.from_dict(state))

    result = fit(loop, run_config())
    assert [result.metrics[name] for name in ("loss", "half", "graph")] == [0.5, 2.0, 0.25]
    found = result.checkpoint.to_dict()
    assert torch.equal(found["row"], found["weights"][1])
    assert found["half"].dtype == torch.bfloat16
    row = result.metrics_dataframe.iloc[-1]
    assert row["loss"] == 0.5


def test_autocast_and_a_grad_scaler(run_config):
    def loop():
        model = train.torch.prepare_model(linear())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        rows = batch(train.world_rank())
        before = model.module.weight.detach().clone()
        for _ in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = model(rows)
                loss = (output - 1).pow(2).mean()
            assert output.dtype == torch.bfloat16
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        weight = model.module.weight.detach()
        assert not torch.equal(weight, before)
        assert weight.isfinite().all()
        train.report({"equal": is_equal_everywhere(weight)})

    assert fit(loop, run_config()).metrics["equal"]


def test_gradients_are_accumulated_before_they_are_averaged(run_config):
    def loop():
        model = train.torch.prepare_model(linear())
        rows = batch(train.world_rank())
        for number, part in enumerate(rows.split(2)):
            last = number == 1
            with nullcontext() if last else model.no_sync():
                (model(part).pow(2).mean() / 2).backward()
            assert is_equal_everywhere(model.module.weight.grad) == last
        alone = linear()
        alone(torch.cat([batch(0), batch(1)])).pow(2).mean().backward()
        torch.testing.assert_close(model.module.weight.grad, alone.weight.grad)

    fit(loop, run_config())


def test_compiled_models(run_config):
    def loop():
        model = train.torch.prepare_model(linear())
        compiled = torch.compile(model, backend="aot_eager")
        compiled(batch(train.world_rank())).sum().backward()
        torch.testing.assert_close(compiled(batch(5)), model(batch(5)))
        train.report({"equal": is_equal_everywhere(model.module.weight.grad)})

    assert fit(loop, run_config()).metrics["equal"]


@pytest.mark.parametrize("persistent", [False, True])
def test_loaders_with_processes_of_their_own(run_config, tmp_path, persistent):
    def loop():
        loader: Any = DataLoader(
            range(16), batch_size=2, num_workers=2, persistent_workers=persistent
        )
        loader = train.torch.prepare_data_loader(loader)
        tally = Tally(tmp_path / "rows")
        for _ in range(2):
            for rows in loader:
                for row in rows.tolist():
                    tally.add(row)

    fit(loop, run_config())
    assert sorted(map(int, Tally(tmp_path / "rows").words())) == sorted([*range(16)] * 2)


def test_accelerate_in_a_loop(run_config):
    def loop():
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=2)
        assert accelerator.num_processes == 2
        assert accelerator.process_index == train.world_rank()
        net = linear()
        optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.1)
        loader: Any = DataLoader(torch.rand(16, 3), batch_size=2)
        model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
        rows = 0
        for inputs in loader:
            with accelerator.accumulate(model):
                loss = model(inputs).pow(2).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            rows += len(accelerator.gather_for_metrics(inputs))
        weight = accelerator.unwrap_model(model).weight.detach()
        train.report({"rows": rows, "equal": is_equal_everywhere(weight)})

    metrics = fit(loop, run_config()).metrics
    assert metrics["rows"] == 16
    assert metrics["equal"]
