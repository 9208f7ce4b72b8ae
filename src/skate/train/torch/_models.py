"""Models and optimizers, prepared for several workers and for mixed precision."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

import torch

from skate._core.optional_imports import without_collections
from skate._run.session import RunSession, current
from skate.train.torch._devices import get_device

STRATEGIES = ("ddp", "fsdp", "fsdp2", None)


@dataclass
class Acceleration:
    """What a worker's loop has switched on."""

    amp: bool = False
    scaler: Any = None
    seed: int | None = None


def acceleration(caller: str) -> Acceleration:
    """Return the settings for speed of the current session."""
    session = current(f"train.torch.{caller}()")
    found: Acceleration = session.__dict__.setdefault("acceleration", Acceleration())
    return found


@dataclass
class Preparations:
    """What was prepared for a worker's loop, and must know when its group is another one."""

    models: list[ReconnectingDDP] = field(default_factory=list)
    loaders: list[Any] = field(default_factory=list)


def preparations(session: RunSession) -> Preparations:
    """Return what was prepared in a session."""
    found: Preparations = session.__dict__.setdefault("preparations", Preparations())
    return found


def check_kind(function: str, given: object, kind: type[object]) -> None:
    """Raise TypeError unless what a function of this package is given is of a kind."""
    if not isinstance(given, kind):
        raise TypeError(
            f"train.torch.{function} takes a {kind.__module__}.{kind.__name__}; "
            f"got {type(given).__name__}: {given!r}"
        )


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
    *,
    wrap_ddp: bool = True,
    ddp_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """Put a model on this worker's device, and let the workers train it together.

    A single worker needs no wrapper, and gets the model itself; `.module` is the model without
    what is around it in any case.

    Args:
        model: The model.
        move_to_device: Whether it is put on the worker's device; or the device.
        parallel_strategy: "ddp" averages gradients over all workers, "fsdp" spreads parameters
            over them, and "fsdp2" does so by `torch.distributed.fsdp.fully_shard`, whose states
            `torch.distributed.checkpoint` saves on so many workers and loads on another number;
            None does neither.
        parallel_strategy_kwargs: More arguments of DistributedDataParallel,
            FullyShardedDataParallel or `fully_shard`.
        wrap_ddp: An older spelling: False means no strategy.
        ddp_kwargs: An older spelling of `parallel_strategy_kwargs`.

    Returns:
        The model, wrapped if there are several workers; the bare one is its `module` then.

    Raises:
        TypeError: If it is no `torch.nn.Module`.
        ValueError: If there is no such strategy.

    Example:
        >>> import torch
        >>> from skate.train.torch import TorchTrainer, prepare_model
        >>> def loop():
        ...     model = prepare_model(torch.nn.Linear(2, 1))
        ...     skate.train.report({"outputs": model(torch.ones(4, 2)).shape[0]})
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> TorchTrainer(loop, run_config=quiet).fit().metrics["outputs"]
        4
    """
    session = current("train.torch.prepare_model()")
    check_kind("prepare_model", model, torch.nn.Module)
    if hasattr(session, "connect"):
        session.connect()
    if parallel_strategy not in STRATEGIES:
        raise ValueError(f"parallel_strategy is one of {STRATEGIES}; got {parallel_strategy!r}")
    device = move_to_device if isinstance(move_to_device, torch.device) else get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if move_to_device:
        model = model.to(device)
    if acceleration("prepare_model").amp:
        model = _in_mixed_precision(model, device)
    options = {**(ddp_kwargs or {}), **(parallel_strategy_kwargs or {})}
    if parallel_strategy is None or not wrap_ddp:
        return model
    replaces = session.replaces
    if session.info.world_size == 1 and not replaces:
        return _with_module(model)
    if parallel_strategy == "fsdp2":
        return _fully_sharded(model, device, session.info.world_size, options)
    if parallel_strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        if device.type == "cpu":
            options = {"device_id": device, **options}
        return FullyShardedDataParallel(model, **options)
    if device.type == "cuda":
        options = {"device_ids": [device], "output_device": device, **options}
    with without_collections():  # the first one in a process imports torch._dynamo
        if not replaces:
            return torch.nn.parallel.DistributedDataParallel(model, **options)
        prepared = ReconnectingDDP(model, options)
        preparations(session).models.append(prepared)
        return prepared


def _fully_sharded(
    model: torch.nn.Module, device: torch.device, size: int, options: dict[str, Any]
) -> torch.nn.Module:
    """Shard the model, whose parameters are DTensors then. Those of its parts that were given to
    `fully_shard` before are gathered by themselves."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    options = {"mesh": init_device_mesh(device.type, (size,)), **options}
    fully_shard(model, **options)
    kind = type(model)  # which is another one by now
    about = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    model.__class__ = type(kind.__name__, (kind,), {**about, "module": property(_itself)})
    return model


class ReconnectingDDP(torch.nn.parallel.DistributedDataParallel):
    """The same, which can be connected to another process group."""

    def __init__(self, module: torch.nn.Module, options: dict[str, Any]) -> None:
        self._options = options
        super().__init__(module, **self._all_options())
        self._equalize_buffers()

    def connect(self) -> None:
        """Use the process group that is the default one now."""
        super().__init__(self.module, **{**self._all_options(), "init_sync": False})
        self._equalize_buffers()

    def _all_options(self) -> dict[str, Any]:
        # Gradients of three and more are summed up in an order that depends on where they are in
        # the buffers that are sent. DDP orders those anew in its second step, unless it looks for
        # unused parameters: then a group that was formed anew would get other sums.
        return {"find_unused_parameters": torch.distributed.get_world_size() > 2, **self._options}

    def _equalize_buffers(self) -> None:
        """Have all workers take over the buffers of rank 0, as running means, after each forward
        and not before the next: so they are not lost with rank 0."""
        from torch.nn.parallel.distributed import _BufferCommHookLocation

        if self.broadcast_buffers:
            self._register_buffer_comm_hook(
                self, _broadcast_buffers, _BufferCommHookLocation.POST_FORWARD
            )


def _broadcast_buffers(model: Any, buffers: dict[str, torch.Tensor]) -> list[object]:
    model._default_broadcast_coalesced(list(buffers.values()), model.broadcast_bucket_size, 0)
    return []


def _in_mixed_precision(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Have the model's forward run under autocast."""
    original: Any = type(model)

    def forward(self: Any, *args: object, **kwargs: object) -> object:
        with torch.autocast(device.type):
            return original.forward(self, *args, **kwargs)

    return _given(model, {"forward": forward})


def _with_module(model: torch.nn.Module) -> torch.nn.Module:
    """Give the model a `.module`, as if it were wrapped: the model as it was. The two have all in
    common, so that names of weights stay what they are. What goes down from `.module` to `.module`
    ends there."""
    if hasattr(model, "module") or isinstance(model, torch.jit.ScriptModule):
        return model
    original = type(model)
    return _given(model, {"module": property(lambda self: _twin(self, original))})


def _given(model: torch.nn.Module, names: dict[str, object]) -> torch.nn.Module:
    """Give the model these names besides those of its class. A copy of it, as in a checkpoint, is
    what it was before."""
    original = type(model)
    pickled = {"__reduce_ex__": lambda self, protocol: (_itself, (_twin(self, original),))}
    about = {"__module__": original.__module__, "__qualname__": original.__qualname__}
    model.__class__ = type(original.__name__, (original,), {**about, **pickled, **names})
    return model


def _twin(model: torch.nn.Module, original: type[torch.nn.Module]) -> torch.nn.Module:
    """Return the model as an instance of its former class."""
    twin = original.__new__(original)
    twin.__dict__ = model.__dict__
    return twin


def _itself(value: object) -> object:
    return value


def accelerate(amp: bool = False) -> None:
    """Train in mixed precision; to be called first in the loop.

    Args:
        amp: Whether to do so.

    Raises:
        RuntimeError: If it is called twice, or after what it is about.
    """
    session = current("train.torch.accelerate()")
    if "acceleration" in session.__dict__:
        raise RuntimeError(
            "train.torch.accelerate() is to be called once, and before prepare_model, "
            "prepare_data_loader and prepare_optimizer"
        )
    found = acceleration("accelerate")
    found.amp = amp
    if amp:
        found.scaler = torch.amp.GradScaler(get_device().type)


def prepare_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return an optimizer whose steps undo the scaling of mixed precision.

    Args:
        optimizer: The optimizer.
    """
    check_kind("prepare_optimizer", optimizer, torch.optim.Optimizer)
    return ScaledOptimizer(optimizer, acceleration("prepare_optimizer").scaler)


def backward(tensor: torch.Tensor) -> None:
    """Call `tensor.backward()`, scaled for mixed precision.

    Args:
        tensor: The loss.
    """
    check_kind("backward", tensor, torch.Tensor)
    scaler = acceleration("backward").scaler
    (tensor if scaler is None else scaler.scale(tensor)).backward()


class ScaledOptimizer(torch.optim.Optimizer):
    """The same optimizer, all but its steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: Any) -> None:
        self.__dict__.update(optimizer.__dict__)
        self.optimizer = optimizer
        self.scaler = scaler

    def add_param_group(self, param_group: dict[str, object]) -> None:
        self.optimizer.add_param_group(param_group)

    def load_state_dict(self, state_dict: Any) -> None:
        self.optimizer.load_state_dict(state_dict)
        self.__dict__.update(state=self.optimizer.state, param_groups=self.optimizer.param_groups)

    def state_dict(self) -> dict[str, object]:
        return self.optimizer.state_dict()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        if self.scaler is None:
            return self.optimizer.step(closure)
        if closure is not None:
            raise ValueError("an optimizer with a closure cannot be used in mixed precision")
        done = self.scaler.step(self.optimizer)
        self.scaler.update()
        return done


def enable_reproducibility(seed: int = 0) -> None:
    """Compute the same numbers in every run.

    It seeds torch, NumPy, random and the workers of data loaders, and keeps to deterministic
    algorithms.

    Args:
        seed: The seed.
    """
    acceleration("enable_reproducibility").seed = seed
    import numpy as np

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
