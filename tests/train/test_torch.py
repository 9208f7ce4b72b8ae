"""Training with PyTorch, on two processes that really train together."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
)

import skate.data
from skate import train
from skate.train.torch import TorchCheckpoint, TorchConfig, TorchTrainer, load_checkpoint


def fit(loop, run_config, workers=2, config=None, **settings):
    return TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config={"num_workers": workers, "use_gpu": False},
        run_config=run_config,
        **settings,
    ).fit()


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def points(count=32):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 4, generator=generator)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def step(model, optimizer, inputs, targets):
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_two_workers_learn_what_one_would(run_config):
    """Half of each batch on each of two workers gives the gradients of the whole batch on one."""

    def loop():
        model = train.torch.prepare_model(network())
        loader = train.torch.prepare_data_loader(DataLoader(points(), batch_size=4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs, targets in loader:
            loss = step(model, optimizer, inputs, targets)
        train.save_checkpoint(model=model.module.state_dict())
        train.report(loss=loss, batches=len(loader))

    result = fit(loop, run_config())
    alone = network()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    data = points().tensors
    for number in range(4):  # the sampler gives every other row to each worker
        step(alone, optimizer, *(t[8 * number : 8 * number + 8] for t in data))
    trained, preprocessor = load_checkpoint(result.checkpoint, network(seed=5))
    assert preprocessor is None
    assert result.metrics["batches"] == 4
    for mine, theirs in zip(alone.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_process_group_is_as_torchrun_would_have_it(run_config, tmp_path):
    def loop():
        import os

        import torch.distributed as dist

        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
        total = torch.ones(1) * dist.get_rank()
        dist.all_reduce(total)
        found = [dist.get_backend(), total.item(), *(os.environ[name] for name in names)]
        (tmp_path / str(train.world_rank())).write_text(json.dumps(found))
        assert torch.get_num_threads() == 1
        assert train.torch.get_device() == torch.device("cpu")
        assert os.environ["ACCELERATE_TORCH_DEVICE"] == "cpu"
        with pytest.raises(ValueError, match="shape"):
            train.report(network().state_dict())
        assert train.torch.get_devices() == [torch.device("cpu")]

    fit(loop, run_config(), torch_config=TorchConfig(backend="gloo", init_method="tcp"))
    for rank in ("0", "1"):
        found = json.loads((tmp_path / rank).read_text())
        assert found == ["gloo", 1.0, rank, "2", rank, "2", "0"]


def test_a_single_worker_and_no_worker_need_no_wrapper(run_config):
    def loop():
        model = network()
        names = list(model.state_dict())
        assert train.torch.prepare_model(model) is model
        assert list(model.state_dict()) == list(model.module.state_dict()) == names
        model.module.load_state_dict(network(seed=5).state_dict())
        torch.testing.assert_close(model(torch.ones(4)), network(seed=5)(torch.ones(4)))
        assert not hasattr(model.module, "module")  # where unwrapping ends
        copied = pickle.loads(pickle.dumps(model))
        assert type(copied) is type(model.module) is nn.Sequential
        loader = train.torch.prepare_data_loader(DataLoader(points(), batch_size=8))
        train.report(batches=sum(1 for _ in loader))

    assert fit(loop, run_config(), workers=1).metrics["batches"] == 4
    assert fit(loop, run_config(name="here"), workers=0).metrics["batches"] == 4


def orders_of(place, loader, epochs=2, counting=False):
    """Notes in which order the rows came, epoch by epoch."""
    orders = []
    for epoch in range(epochs):
        if counting:
            loader.sampler.set_epoch(epoch + 10)
        orders.append([int(value) for batch in loader for value in batch[0]])
    (place / f"{train.world_rank()}").write_text(json.dumps(orders))


@pytest.mark.parametrize(("counting", "moving"), [(False, True), (True, True), (False, False)])
def test_loaders_keep_shuffling_and_each_epoch_differs(run_config, tmp_path, counting, moving):
    def loop():
        data = TensorDataset(torch.arange(16))
        loader = DataLoader(data, batch_size=4, shuffle=True, drop_last=True)
        loader = train.torch.prepare_data_loader(loader, move_to_device=moving)
        assert isinstance(loader.sampler, DistributedSampler)
        assert (len(loader), loader.drop_last, loader.dataset) == (2, True, data)
        orders_of(tmp_path, loader, counting=counting)

    fit(loop, run_config())
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    for epoch in (0, 1):
        assert sorted(first[epoch] + second[epoch]) == list(range(16))
    assert first[0] != first[1]
    sampler = DistributedSampler(range(16), 2, 0, shuffle=True)
    sampler.set_epoch(10 if counting else 0)
    assert first[0] == list(sampler)


class EveryThirdTwice(Sampler[int]):
    def __iter__(self):
        yield from [0, 0, 3, 3, 6, 6, 9]

    def __len__(self):
        return 7


@pytest.mark.parametrize(
    ("sampler", "drop_last", "expected"),
    [
        (EveryThirdTwice(), False, [[0, 3, 6, 9], [0, 3, 6, 0]]),
        (EveryThirdTwice(), True, [[0, 3, 6], [0, 3, 6]]),
        (RandomSampler(range(10), replacement=True, num_samples=6), False, None),
        (WeightedRandomSampler([0, 1, 0, 1], 6), False, None),
    ],
)
def test_samplers_of_ones_own_are_shared_out(run_config, tmp_path, sampler, drop_last, expected):
    def loop():
        data = TensorDataset(torch.arange(10))
        torch.manual_seed(train.world_rank())
        loader = DataLoader(data, sampler=sampler, batch_size=2, drop_last=drop_last)
        orders_of(tmp_path, train.torch.prepare_data_loader(loader))

    fit(loop, run_config())
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    if expected is not None:
        even = [part[:-1] if drop_last else part for part in expected]  # whole batches only
        assert [first[0], second[0]] == even
        return
    torch.manual_seed(0)
    drawn = list(sampler)
    assert [first[0], second[0]] == [drawn[::2], drawn[1::2]]
    assert first[0] + second[0] != first[1] + second[1]  # another epoch, another draw


def test_no_row_is_repeated_if_the_last_ones_may_be_dropped(run_config, tmp_path):
    def loop():
        data = TensorDataset(torch.arange(7))
        loader = DataLoader(data, batch_size=1, shuffle=True, drop_last=True)
        orders_of(tmp_path, train.torch.prepare_data_loader(loader))

    fit(loop, run_config())
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    assert len(first[0]) == len(second[0]) == 3
    assert len({*first[0], *second[0]}) == 6


def test_a_stream_that_is_not_split_is_worth_a_warning(run_config):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    def loop():
        stream = DataLoader(Stream(), batch_size=None)
        if train.world_rank() == 0:
            with pytest.warns(UserWarning, match="all of Stream.*add_dist_sampler=False"):
                stream = train.torch.prepare_data_loader(stream)
        assert list(stream) == [0, 1, 2]

    fit(loop, run_config())


def test_loaders_in_order_and_loaders_that_are_left_alone(run_config, tmp_path):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    def loop():
        loader = train.torch.prepare_data_loader(DataLoader(TensorDataset(torch.arange(6))))
        orders_of(tmp_path, loader)
        whole = DataLoader(TensorDataset(torch.arange(6)))
        whole = train.torch.prepare_data_loader(whole, add_dist_sampler=False)
        stream = DataLoader(Stream(), batch_size=None)
        stream = train.torch.prepare_data_loader(stream, add_dist_sampler=False)
        assert (len(list(whole)), list(stream)) == (6, [0, 1, 2])

    fit(loop, run_config())
    assert json.loads((tmp_path / "1").read_text()) == [[1, 3, 5]] * 2


def test_mixed_precision(run_config):
    def loop():
        train.torch.accelerate(amp=True)
        model = train.torch.prepare_model(network())
        optimizer = train.torch.prepare_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        inputs, targets = points().tensors
        for _ in range(3):
            output = model(inputs)
            assert output.dtype == torch.bfloat16
            loss = nn.functional.mse_loss(output.float(), targets)
            optimizer.zero_grad()
            train.torch.backward(loss)
            optimizer.step()
        copied = pickle.loads(pickle.dumps(model.module))
        assert type(copied) is nn.Sequential
        with pytest.raises(RuntimeError, match="once"):
            train.torch.accelerate()
        train.report(loss=loss.item(), groups=len(optimizer.param_groups))

    result = fit(loop, run_config())
    assert result.metrics["groups"] == 1


def test_parameters_spread_over_the_workers(run_config):
    def loop():
        options = {"use_orig_params": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch: there is no GPU
            model = train.torch.prepare_model(
                network(), parallel_strategy="fsdp", parallel_strategy_kwargs=options
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            first = step(model, optimizer, *points().tensors)
            last = step(model, optimizer, *points().tensors)
        train.report(first=first, last=last, kind=type(model).__name__)

    metrics = fit(loop, run_config()).metrics
    assert metrics["kind"] == "FullyShardedDataParallel"
    assert metrics["last"] < metrics["first"]


def test_the_same_numbers_again(run_config):
    def loop():
        train.torch.enable_reproducibility(seed=3)
        loader = DataLoader(points(), batch_size=8, shuffle=True)
        loader = train.torch.prepare_data_loader(loader)
        model = train.torch.prepare_model(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = [step(model, optimizer, *batch) for batch in loader]
        train.report(losses=losses)

    first, second = (fit(loop, run_config(name=name)).metrics["losses"] for name in "ab")
    assert first == second


@pytest.mark.parametrize("call", ["prepare_model", "get_device", "accelerate"])
def test_outside_of_a_loop(call):
    arguments = [network()] if call == "prepare_model" else []
    with pytest.raises(RuntimeError, match=rf"train\.torch\.{call}|train\.torch\.get_devices"):
        getattr(train.torch, call)(*arguments)


def test_a_model_in_a_checkpoint(tmp_path):
    model = network()
    whole = TorchCheckpoint.from_model(model).get_model()
    torch.testing.assert_close(whole.state_dict(), model.state_dict())
    weights = TorchCheckpoint.from_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="only weights"):
        weights.get_model()
    restored = weights.get_model(network(seed=2))
    torch.testing.assert_close(restored.state_dict(), model.state_dict())
    wrapped = {f"module.{name}": value for name, value in model.state_dict().items()}
    found, _ = load_checkpoint(train.Checkpoint.from_dict({"model": wrapped}), network(seed=3))
    torch.testing.assert_close(found.state_dict(), model.state_dict())
    with pytest.raises(ValueError, match=r"model\.pt"):
        load_checkpoint(train.Checkpoint.from_dict({"epoch": 1}), network())


def test_batches_of_a_dataset(run_config):
    rows = skate.data.from_items([{"x": float(n), "y": 2.0 * n} for n in range(64)])

    def loop():
        torch.manual_seed(0)
        model = train.torch.prepare_model(nn.Linear(1, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        for _ in range(3):
            shard = train.get_dataset_shard("train")
            for batch in shard.iter_torch_batches(batch_size=8, dtypes=torch.float32):
                loss = step(model, optimizer, batch["x"][:, None], batch["y"][:, None])
            train.report(loss=loss)

    losses = list(fit(loop, run_config(), datasets={"train": rows}).metrics_dataframe["loss"])
    assert losses[-1] < losses[0]


def test_a_killed_worker_trains_on_to_the_same_weights(run_config, tally):
    def loop(config):
        import os
        import signal

        model = train.torch.prepare_model(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before, first = train.get_checkpoint(), 0
        if before is not None:
            with before.as_directory() as folder:
                saved = torch.load(Path(folder, "state.pt"))
            model.module.load_state_dict(saved["model"])
            first = saved["epoch"] + 1
        for epoch in range(first, 4):
            if config["kill"] and epoch == 2 and train.world_rank() == 1 and not len(tally):
                tally.add()
                os.kill(os.getpid(), signal.SIGKILL)
            loss = step(model, optimizer, *points().tensors)
            folder = Path(config["folder"], f"{train.world_rank()}-{epoch}-{os.getpid()}")
            checkpoint = None
            if train.world_rank() == 0:
                folder.mkdir()
                state = {"model": model.module.state_dict(), "epoch": epoch}
                torch.save(state, folder / "state.pt")
                checkpoint = train.Checkpoint.from_directory(folder)
            train.report({"loss": loss, "epoch": epoch}, checkpoint=checkpoint)

    results = []
    for kill in (False, True):
        settings = run_config(
            name=f"kill-{kill}", failure_config=train.FailureConfig(max_failures=1)
        )
        folder = Path(settings.storage_path, f"drafts-{kill}")
        folder.mkdir(parents=True)
        results.append(fit(loop, settings, config={"kill": kill, "folder": str(folder)}))
    plain, killed = (copy.copy(result.metrics_dataframe) for result in results)
    assert list(plain["loss"]) == list(killed["loss"])
    assert list(killed["epoch"]) == [0, 1, 2, 3]


def test_a_rank_is_killed_while_the_others_wait_for_it(run_config, tally):
    """The others fail too, in the collective operation that it leaves."""

    def loop():
        import os
        import signal

        import torch.distributed as dist

        before = train.get_checkpoint()
        for epoch in range(before.to_dict()["epoch"] + 1 if before else 0, 3):
            if epoch == 1 and train.world_rank() == 1 and tally.add() <= 2:
                os.kill(os.getpid(), signal.SIGKILL)
            total = torch.ones(1)
            dist.all_reduce(total)
            checkpoint = train.Checkpoint.from_dict({"epoch": epoch})
            train.report({"epoch": epoch, "total": total.item()}, checkpoint=checkpoint)

    with pytest.raises(train.WorkerGroupError, match="rank 1: its process is dead") as caught:
        fit(loop, run_config())
    assert list(caught.value.worker_failures) == [1]
    once = train.FailureConfig(max_failures=1)
    result = fit(loop, run_config(failure_config=once))  # killed once more, then not
    assert len(tally) == 3
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2]
    assert list(result.metrics_dataframe["total"]) == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "call", ["prepare_model", "prepare_data_loader", "prepare_optimizer", "backward"]
)
def test_what_cannot_be_prepared(run_config, call):
    with pytest.raises(TypeError, match=rf"train\.torch\.{call} takes a torch.*got int: 5"):
        fit(lambda: getattr(train.torch, call)(5), run_config(), workers=0)


def test_what_is_not_a_checkpoint():
    for make in (TorchCheckpoint.from_model, TorchCheckpoint.from_state_dict):
        with pytest.raises(TypeError, match=f"{make.__name__} takes .*got int"):
            make(5)
    with pytest.raises(TypeError, match=r"load_checkpoint takes a Checkpoint.*report none"):
        load_checkpoint(None, network())


def test_the_example_that_programs_import_learns_a_line(run_config):
    from ray_test_helpers.torch_linear_example import train_func

    result = fit(train_func, run_config(), config={"epochs": 3, "data_size": 200, "lr": 1e-2})
    losses = result.metrics_dataframe["loss"]
    assert losses.iloc[-1] < losses.iloc[0]
    assert [report["loss"] for report in result.return_value] == list(losses)
