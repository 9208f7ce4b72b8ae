"""State that outlives the death of single workers: `FailureConfig(restart="worker")`.

    run ─► join ─► function ─► commit ─► commit ─► … ─► leave
            ▲          │ a peer is gone: a collective fails, or a report does
            └── back to the last commit ◄──┘

A commit copies the state beside the model. Whoever has the most commits when all join again sends
that copy to those who have fewer, with the new process group; then all begin the function anew.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from skate._run.session import RunSession, current
from skate.train._workers.events import Joined
from skate.train._workers.membership import SETUP, Membership, PeerLostError
from skate.train._workers.worker import WorkerSession, positions_of
from skate.train.torch._models import acceleration, preparations

NEWS_SECONDS = 60.0  # in which it is known that a collective has failed because a peer is gone

T = TypeVar("T")


class TensorPlace(NamedTuple):
    """Where a tensor was in a state that is sent."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str


class ResilientState:
    """Keep what a training loop needs to go on when another worker of its group dies.

    With `FailureConfig(restart="worker")` only the worker that died is replaced. The others go
    back to their last `commit`, and the new one is sent their state. Everything that workers do
    together, collectives, `train.report`, reading their parts of datasets, belongs into the
    function that is given to `run`; what comes before is done again by a new worker alone.

    Elsewhere, with another `restart` or a single worker, `run` just calls the function.

    Args:
        parts: What the state consists of, by name: models and optimizers, schedulers and all else
            with `state_dict` and `load_state_dict`; and values, as numbers, which are read and
            set as attributes: `state.step += 1`.

    Raises:
        TypeError: If a model is spread over the workers, so that no other one has its parts; or if
            it was wrapped by something else than `train.torch.prepare_model`.

    Example:
        >>> def loop(config):
        ...     model = train.torch.prepare_model(Net())
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     state = train.torch.ResilientState(model=model, optimizer=optimizer, step=0)
        ...
        ...     def steps(state):
        ...         while state.step < config["steps"]:
        ...             loss = model(batch(state.step)).mean()
        ...             optimizer.zero_grad()
        ...             loss.backward()
        ...             optimizer.step()
        ...             state.step += 1
        ...             state.commit()
        ...
        ...     state.run(steps)
    """

    _session: RunSession
    _stateful: dict[str, Any]
    _values: dict[str, Any]
    _snapshot: dict[str, Any] | None
    _commits: int

    def __init__(self, **parts: object) -> None:
        session = current("train.torch.ResilientState()")
        stateful = {name: part for name, part in parts.items() if _is_stateful(part)}
        for name, part in stateful.items() if _membership(session) is not None else ():
            _check_shareable(name, part, session)
        taken = sorted(name for name in parts if name.startswith("_") or hasattr(type(self), name))
        if taken:
            raise ValueError(f"a ResilientState has no room for the names {taken}: use others")
        self.__dict__.update(
            _session=session,
            _stateful=stateful,
            _values={name: part for name, part in parts.items() if name not in stateful},
            _snapshot=None,
            _commits=-1,
        )

    def __getattr__(self, name: str) -> Any:
        found = {**self.__dict__.get("_stateful", {}), **self.__dict__.get("_values", {})}
        if name not in found:
            raise AttributeError(f"this state has no {name!r}; it has {sorted(found)}")
        return found[name]

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._values:
            raise AttributeError(
                f"the values of this state are {sorted(self._values)}; give it {name!r} when it "
                f"is made: ResilientState({name}=…)"
            )
        self._values[name] = value

    # -- what a loop calls ----------------------------------------------------------------------

    def run(self, function: Callable[[ResilientState], T]) -> T:
        """Call a function with this state, again from the last commit whenever a peer is lost.

        Args:
            function: Trains, from where the state is, to the end.

        Returns:
            What it returns.

        Raises:
            RuntimeError: If a loop calls this twice: a new worker could not know which call it
                has to take part in.
        """
        membership = _membership(self._session)
        if membership is None:
            self._begin_step()
            return function(self)
        if membership.stage != SETUP:
            raise RuntimeError("ResilientState.run is for one function in a training loop")
        if not membership.is_newcomer:
            self._commit()
        while True:
            try:
                self._join(membership)
                value = function(self)
                membership.leave()
                return value
            except Exception as error:
                if not _is_about_a_peer(error, membership):
                    raise

    def commit(self) -> None:
        """Copy the state: this is where the worker goes on from if another one is lost.

        Random numbers begin anew here, by the seed of `enable_reproducibility` and the number of
        the commit, so that a step that is repeated draws the same ones; without a seed they go on.
        """
        membership = _membership(self._session)
        if membership is None:
            self._begin_step()
            return
        self._commit()
        membership.commit()

    # -- how it goes on -------------------------------------------------------------------------

    def _commit(self) -> None:
        before = self._snapshot or {}
        snapshot = {
            "parts": {name: part.state_dict() for name, part in self._stateful.items()},
            "values": self._values,
            "loaders": [loader.progress for loader in preparations(self._session).loaders],
            "positions": positions_of(self._session.datasets),
        }
        self.__dict__["_snapshot"] = _copied(snapshot, before)
        self._begin_step()

    def _begin_step(self) -> None:
        self.__dict__["_commits"] = self._commits + 1
        self._seed()

    def _seed(self) -> None:
        seed = acceleration("commit").seed
        if seed is not None:
            import numpy as np

            own = (seed + 1_000_003 * self._commits) % 2**32
            torch.manual_seed(own)
            random.seed(own)
            np.random.seed(own)

    def _join(self, membership: Membership) -> None:
        positions = self._snapshot["positions"] if self._snapshot else {}
        joined = membership.join(self._commits, positions)
        adopt: Any = self._session
        adopt.adopt(joined)
        if joined.is_new_group:
            for model in preparations(self._session).models:
                model.connect()
        if joined.share:
            self._share(joined)
        self._restore()

    def _share(self, joined: Joined) -> None:
        """Take part in sending the state that counts."""
        is_source = joined.info.world_rank == joined.source
        apart: list[Any] = []
        tensors: list[torch.Tensor] = []
        if is_source:
            apart = [_taken_apart(self._snapshot, tensors), self._commits]
        box = [apart]
        dist.broadcast_object_list(box, src=joined.source)
        whole, commits = box[0]
        places = _tensor_places(whole)
        keeps = is_source or self._commits == commits
        if not keeps:
            self.__dict__["_commits"] = -1  # there is none until all of it has come
        for number, place in enumerate(places):
            if not is_source:
                tensors.append(torch.empty(place.shape, dtype=place.dtype, device=place.device))
            dist.broadcast(tensors[number], src=joined.source)
        if not keeps:
            self.__dict__.update(_snapshot=_put_together(whole, iter(tensors)), _commits=commits)

    def _restore(self) -> None:
        """Be what the last commit has."""
        saved = _copied(self._snapshot)
        for name, part in self._stateful.items():
            part.load_state_dict(saved["parts"][name])
            if isinstance(part, torch.nn.Module):
                part.zero_grad(set_to_none=True)
        self._values.update(saved["values"])
        info = self._session.info
        loaders = preparations(self._session).loaders
        for loader, progress in zip(loaders, saved["loaders"], strict=True):
            loader.go_on_from(progress, info.world_size, info.world_rank)
        self._seed()


def _membership(session: RunSession) -> Membership | None:
    """Return the membership of a worker whose group replaces workers one by one; None in
    others."""
    if isinstance(session, WorkerSession) and session.replaces:
        return session.membership
    return None


def _is_about_a_peer(error: Exception, membership: Membership) -> bool:
    """Return whether something has failed because a peer is gone. The news may be on its way."""
    if isinstance(error, PeerLostError) or membership.lost.is_set():
        return True
    text = str(error).lower()
    is_of_group = isinstance(error, dist.DistError) or "gloo" in text or "nccl" in text
    return is_of_group and membership.lost.wait(NEWS_SECONDS)


def _is_stateful(part: object) -> bool:
    return hasattr(part, "state_dict") and hasattr(part, "load_state_dict")


def _check_shareable(name: str, part: object, session: RunSession) -> None:
    if not isinstance(part, torch.nn.Module):
        return
    sharded = any(type(p).__name__ == "DTensor" for p in part.parameters())
    if sharded or any(type(m).__name__ == "FullyShardedDataParallel" for m in part.modules()):
        raise TypeError(
            f"the model {name!r} is spread over the workers: what a worker had is lost with it, "
            "so that it cannot be replaced alone. Use parallel_strategy='ddp', or restart='group' "
            "with checkpoints"
        )
    ours = preparations(session).models
    if isinstance(part, DistributedDataParallel) and part not in ours:
        raise TypeError(
            f"the model {name!r} was wrapped in DistributedDataParallel by the loop: give the "
            "bare one to train.torch.prepare_model, whose wrapper can be connected anew"
        )


# -- nested states --------------------------------------------------------------------------------


def _copied(value: Any, into: Any = None) -> Any:
    """Copy nested containers of tensors and values, into the memory of `into` where it fits."""
    if isinstance(value, torch.Tensor):
        source = value.detach()
        if isinstance(into, torch.Tensor) and _alike(source, into):
            return into.copy_(source)
        return source.clone()
    if isinstance(value, dict):
        known = into if isinstance(into, dict) else {}
        return {name: _copied(inner, known.get(name)) for name, inner in value.items()}
    if type(value) in (list, tuple):
        fits = type(into) is type(value) and len(into) == len(value)
        places = into if fits else [None] * len(value)
        return type(value)(_copied(a, b) for a, b in zip(value, places, strict=True))
    return copy.deepcopy(value)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)


def _taken_apart(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Copy the containers with places for the tensors, which are added to the list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.contiguous())
        return TensorPlace(tuple(value.shape), value.dtype, value.device.type)
    if isinstance(value, dict):
        return {name: _taken_apart(inner, tensors) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_taken_apart(inner, tensors) for inner in value)
    return value


def _tensor_places(value: Any) -> list[TensorPlace]:
    if isinstance(value, TensorPlace):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if type(value) in (list, tuple):
        return [place for inner in value for place in _tensor_places(inner)]
    return []


def _put_together(value: Any, tensors: Any) -> Any:
    if isinstance(value, TensorPlace):
        return next(tensors)
    if isinstance(value, dict):
        return {name: _put_together(inner, tensors) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_put_together(inner, tensors) for inner in value)
    return value
