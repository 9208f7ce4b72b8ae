"""Collective communication between actors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import skate
from skate.util import collective
from skate.util.collective import Backend, ReduceOp
from tests.support import PATIENCE, eventually

with_engine = pytest.mark.usefixtures("engine")


@skate.remote
class Member:
    """Runs any function of the collective API; returns its first argument as it is then."""

    def join(self, world_size: int, rank: int, name: str = "default", timeout: int = 60000) -> int:
        collective.init_collective_group(world_size, rank, "gloo", name, timeout)
        return collective.get_rank(name)

    def leave(self, name: str = "default") -> bool:
        collective.destroy_collective_group(name)
        return collective.is_group_initialized(name)

    def call(self, operation: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(target, np.ndarray):
            target = target.copy()
        elif isinstance(target, list):
            target = [part.copy() for part in target]
        getattr(collective, operation)(target, *args, **kwargs)
        return target

    def standing(self, name: str = "default") -> tuple[bool, int, int]:
        return (
            collective.is_group_initialized(name),
            collective.get_rank(name),
            collective.get_collective_group_size(name),
        )

    def strided(self) -> Any:
        whole = np.zeros((3, 2))
        whole[:, 0] = collective.get_rank() + 1
        collective.allreduce(whole[:, 0])
        return whole

    def exchange(self, peer: int) -> Any:
        array = np.full(3, float(collective.get_rank()))
        if collective.get_rank() == 0:
            collective.send(array, peer)
            collective.recv(array, peer)
        else:
            received = np.empty(3)
            collective.recv(received, peer)
            collective.send(received + 10, peer)
        return array

    def given(self, array: Any) -> Any:
        collective.allreduce(array)
        return array

    def mapped(self, path: str) -> None:
        collective.allreduce(np.memmap(path, np.uint8, "r"))


def everyone(members: list[Any], method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
    refs = [getattr(m, method).remote(*a) for m, a in zip(members, arguments, strict=True)]
    results: list[Any] = skate.get(refs, timeout=PATIENCE)
    return results


@pytest.fixture
def pair(one_session: None) -> list[Any]:
    members = [Member.remote() for _ in range(2)]
    assert everyone(members, "join", [(2, 0), (2, 1)]) == [0, 1]
    return members


def both(pair: list[Any], operation: str, targets: Any, *args: Any) -> list[Any]:
    return everyone(pair, "call", [(operation, target, *args) for target in targets])


def arrays(*values: float) -> list[Any]:
    return [np.full(3, float(value)) for value in values]


@pytest.mark.usefixtures("one_session")
class TestGroups:
    @pytest.mark.parametrize(
        ("op", "expected"),
        [(ReduceOp.SUM, 5), (ReduceOp.PRODUCT, 6), (ReduceOp.MIN, 2), (ReduceOp.MAX, 3)],
    )
    def test_allreduce(self, pair: list[Any], op: ReduceOp, expected: float) -> None:
        for result in both(pair, "allreduce", arrays(2, 3), "default", op):
            assert result.tolist() == [expected] * 3

    def test_the_other_operations(self, pair: list[Any]) -> None:
        first, second = both(pair, "reduce", arrays(2, 3), 1)
        assert (first.tolist(), second.tolist()) == ([2] * 3, [5] * 3)
        for result in both(pair, "broadcast", arrays(2, 3), 1):
            assert result.tolist() == [3] * 3
        refs = [
            member.call.remote("allgather", arrays(0, 0), array)
            for member, array in zip(pair, arrays(2, 3), strict=True)
        ]
        for gathered in skate.get(refs, timeout=PATIENCE):
            assert [part.tolist() for part in gathered] == [[2] * 3, [3] * 3]
        refs = [member.call.remote("reducescatter", np.zeros(3), arrays(2, 3)) for member in pair]
        scattered = skate.get(refs, timeout=PATIENCE)
        assert [part.tolist() for part in scattered] == [[4] * 3, [6] * 3]
        sent = everyone(pair, "exchange", [(1,), (0,)])
        assert [part.tolist() for part in sent] == [[10] * 3, [1] * 3]

    def test_torch_tensors(self, pair: list[Any]) -> None:
        targets = [torch.ones(2, dtype=torch.int64), torch.full((2,), 4)]
        for result in both(pair, "allreduce", targets):
            assert result.tolist() == [5, 5]

    @pytest.mark.parametrize("operation", ["allreduce", "reduce", "broadcast"])
    def test_unequal_tensors_are_an_error_in_all_ranks(
        self, pair: list[Any], operation: str
    ) -> None:
        for targets in ([np.ones(2), np.ones(3)], [np.ones(2), np.ones(2, np.float32)]):
            calls = [m.call.remote(operation, t) for m, t in zip(pair, targets, strict=True)]
            for call in calls:
                with pytest.raises(ValueError, match="the same shape and dtype") as error:
                    skate.get(call, timeout=PATIENCE)
                for rank, target in enumerate(targets):
                    described = f"{operation}({target.dtype} of shape {target.shape})"
                    assert f"rank {rank}: {described}" in str(error.value)
        for result in both(pair, "allreduce", arrays(1, 2)):
            assert result.tolist() == [3] * 3

    def test_unequal_lists_are_an_error_in_all_ranks(self, pair: list[Any]) -> None:
        gathers = [
            m.call.remote("allgather", [np.ones(n)] * 2, np.ones(n))
            for m, n in zip(pair, (2, 3), strict=True)
        ]
        scatters = [
            m.call.remote("reducescatter", np.ones(n), [np.ones(n)] * 2)
            for m, n in zip(pair, (2, 3), strict=True)
        ]
        for call in [*gathers, *scatters]:
            with pytest.raises(ValueError, match=r"rank 0: .*\(2,\).*rank 1: .*\(3,\)"):
                skate.get(call, timeout=PATIENCE)

    def test_ranks_that_call_different_operations_are_told(self, pair: list[Any]) -> None:
        calls = [
            pair[0].call.remote("allreduce", np.ones(2)),
            pair[1].call.remote("broadcast", np.ones(2)),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"rank 0: allreduce.*rank 1: broadcast"):
                skate.get(call, timeout=PATIENCE)

    def test_shapes_may_differ_where_sizes_are_equal(self, pair: list[Any]) -> None:
        row, column = both(pair, "allreduce", [np.ones((1, 3)), np.ones((3, 1))])
        assert (row.tolist(), column.tolist()) == ([[2] * 3], [[2]] * 3)

    def test_a_part_of_an_array_is_changed_in_place(self, pair: list[Any]) -> None:
        for result in everyone(pair, "strided", [(), ()]):
            assert result.tolist() == [[3, 0], [3, 0], [3, 0]]

    def test_several_groups_and_a_second_life(self, pair: list[Any]) -> None:
        assert everyone(pair, "join", [(2, 1, "other"), (2, 0, "other")]) == [1, 0]
        assert everyone(pair, "standing", [("other",)] * 2) == [(True, 1, 2), (True, 0, 2)]
        assert everyone(pair, "leave", [()] * 2) == [False, False]
        assert everyone(pair, "standing", [()] * 2) == [(False, -1, -1)] * 2
        assert everyone(pair, "join", [(2, 0), (2, 1)]) == [0, 1]
        for name in ("default", "other"):
            for result in both(pair, "allreduce", arrays(1, 1), name):
                assert result.tolist() == [2] * 3

    def test_the_meeting_ends_when_all_are_connected(self, pair: list[Any]) -> None:
        assert both(pair, "allreduce", arrays(1, 1))
        eventually(lambda: skate.util.list_named_actors() == [])

    def test_a_group_declared_from_outside(self) -> None:
        members = [Member.remote() for _ in range(2)]
        collective.create_collective_group(members, 2, [1, 0], backend="gloo", group_name="g")
        with pytest.raises(RuntimeError, match="exists already"):
            collective.create_collective_group(members, 2, [1, 0], backend="gloo", group_name="g")
        for result in both(members, "allreduce", arrays(1, 2), "g"):
            assert result.tolist() == [3] * 3
        assert everyone(members, "standing", [("g",)] * 2) == [(True, 1, 2), (True, 0, 2)]
        assert everyone(members, "leave", [("g",)] * 2) == [False, False]
        with pytest.raises(RuntimeError, match="not in a collective group"):
            both(members, "allreduce", arrays(1, 2), "g")

    def test_a_member_that_never_comes_is_named(self) -> None:
        member = Member.remote()
        with pytest.raises(TimeoutError, match=r"rank 0, 2 of 3 did not join"):
            skate.get(member.join.remote(3, 1, "default", 200), timeout=PATIENCE)
        others = [Member.remote(), member]
        assert everyone(others, "join", [(2, 0), (2, 1)]) == [0, 1]

    def test_a_rank_that_is_taken_is_refused(self) -> None:
        members = [Member.remote(), Member.remote()]
        joins = [member.join.remote(2, 0, "taken") for member in members]
        (refused,), (waiting,) = skate.wait(joins, timeout=PATIENCE)
        with pytest.raises(ValueError, match="rank 0"):
            skate.get(refused)
        skate.kill(members[joins.index(waiting)])
        with pytest.raises(skate.exceptions.ActorDiedError):
            skate.get(waiting, timeout=PATIENCE)

    def test_an_array_that_was_given_is_filled_in_its_process_only(self, pair: list[Any]) -> None:
        ref = skate.put(np.ones(1_000_000))
        for result in everyone(pair, "given", [(ref,), (ref,)]):
            assert (result == 2).all()
        assert (skate.get(ref) == 1).all()

    def test_a_file_that_is_mapped_to_be_read_is_refused(
        self, pair: list[Any], tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_bytes(b"abc")
        with pytest.raises(ValueError, match="copy"):
            skate.get(pair[0].mapped.remote(str(tmp_path / "file")), timeout=PATIENCE)


@with_engine
def test_a_group_of_one_needs_nobody() -> None:
    member = Member.remote()
    assert skate.get(member.join.remote(1, 0, "alone")) == 0
    result = skate.get(member.call.remote("allreduce", np.ones(2), "alone"))
    assert result.tolist() == [1, 1]
    for wrong in (
        ("send", np.ones(2), 0, "alone"),
        ("allgather", [np.ones(2)] * 2, np.ones(2), "alone"),
    ):
        with pytest.raises(RuntimeError, match=r"this process itself|a list of 1"):
            skate.get(member.call.remote(*wrong))
    with pytest.raises(ValueError, match="ranks 0 to 0"):
        skate.get(member.call.remote("broadcast", np.ones(2), 1, "alone"))
    with pytest.raises(TypeError, match="or a numpy"):
        skate.get(member.call.remote("allreduce", "text", "alone"))
    with pytest.raises(RuntimeError, match="already"):
        skate.get(member.join.remote(1, 0, "alone"))
    assert skate.get(member.leave.remote("alone")) is False


@with_engine
def test_outside_a_group() -> None:
    assert not collective.is_group_initialized("none")
    assert collective.get_rank("none") == collective.get_collective_group_size("none") == -1
    collective.destroy_collective_group("none")
    with pytest.raises(RuntimeError, match="not in a collective group 'none'"):
        collective.barrier("none")


@with_engine
@pytest.mark.parametrize(("world_size", "rank"), [(0, 0), (2, 2), (2, -1)])
def test_bad_ranks_are_refused(world_size: int, rank: int) -> None:
    with pytest.raises(ValueError, match="rank must be"):
        collective.init_collective_group(world_size, rank)
    with pytest.raises(ValueError, match="a rank of its own"):
        collective.create_collective_group([None], world_size, [rank])


@with_engine
def test_backends() -> None:
    assert Backend("gloo") == Backend("torch_gloo") == Backend.GLOO == "GLOO"
    assert Backend("nccl") == Backend.NCCL
    with pytest.raises(ValueError, match="mpi"):
        Backend("mpi")
    assert collective.gloo_available()
    assert collective.is_backend_available("gloo")
    assert not collective.is_backend_available("nccl")
    assert not collective.nccl_available()
    with pytest.raises(RuntimeError, match="use gloo"):
        collective.init_collective_group(1, 0, backend="nccl")


@with_engine
def test_without_torch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[torch\]"'):
        collective.init_collective_group(1, 0)
