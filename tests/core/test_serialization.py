"""Values to bytes and back: exact, without copies, and with a path to what cannot be."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from skate._core import serialization
from skate._core.refs import ObjectRef
from skate._core.serialization import (
    deregister_serializer,
    dumps,
    is_plain,
    loads,
    register_serializer,
)
from skate.engine.local.store import Store, parts_of


def round_trip(value: Any) -> Any:
    return loads(dumps(value).packed())


# -- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [0, 1.5, True, None, "ü", b"\x00", 2j, [1, (2, {3})], {"a": None}, 1 << 200]
)
def test_plain_values(value: Any) -> None:
    packed = dumps(value).packed()
    assert isinstance(packed, bytes)
    assert loads(packed) == value
    assert type(loads(packed)) is type(value)


def test_only_exact_types_are_plain() -> None:
    class Number(int):
        pass

    assert is_plain((1, "x", None))
    assert not is_plain((1, [2]))
    assert not is_plain((Number(1),))


def test_functions_and_classes_from_here_travel_by_value() -> None:
    offset = 3

    class Local:
        def method(self) -> int:
            return offset

    assert round_trip(lambda x: x + offset)(4) == 7
    assert round_trip(Local()).method() == 3


def test_references_are_recorded_in_order() -> None:
    home: Any = None
    first: ObjectRef[Any] = ObjectRef(1, home)
    second: ObjectRef[Any] = ObjectRef(2, home)
    assert dumps([second, {"k": (first, second)}]).refs == [second, first]


def test_sizes_count_buffers() -> None:
    serialized = dumps({"a": np.zeros(1000), "b": 1})
    assert serialized.size == len(serialized.payload) + 8000
    assert len(serialized.payload) < 500


# -- arrays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(100)[::7],
        np.zeros((0, 5)),
        np.array(3),
        np.array([True, False]),
        np.array(["a", "bc"]),
        np.array([1, "x", None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_are_exact(array: Any) -> None:
    back = round_trip(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_arrays_are_views_and_copies_are_writable() -> None:
    packed = dumps(np.arange(10)).packed()
    with pytest.raises(ValueError, match="read-only"):
        loads(packed)[0] = 1
    copy = loads(packed, copy=True)
    copy[0] = 5
    assert loads(packed)[0] == 0


def test_packed_values_do_not_follow_the_original() -> None:
    array = np.arange(10)
    packed = dumps(array).packed()
    array[:] = 0
    assert loads(packed).sum() == 45


# -- tensors -----------------------------------------------------------------------------------

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_are_exact_and_out_of_band(dtype: torch.dtype) -> None:
    tensor = torch.randn(3, 5).mul(10).to(dtype)
    serialized = dumps(tensor)
    assert len(serialized.buffers) == 1
    back = loads(serialized.packed())
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


BASE = torch.arange(60.0).reshape(3, 4, 5)


@pytest.mark.parametrize(
    "tensor",
    [
        BASE,
        BASE.permute(2, 0, 1),
        BASE.transpose(0, 1),
        BASE[1],
        BASE[:1],
        BASE[:, 1:3],
        BASE[:, ::2],
        BASE[..., 3],
        BASE.to(memory_format=torch.contiguous_format)
        .unsqueeze(0)
        .contiguous(memory_format=torch.channels_last),
        torch.ones(1, 3).expand(4, 3),
        torch.arange(6).unfold(0, 3, 1),
        torch.tensor(7),
        torch.zeros(0, 3),
        torch.zeros(3, 0, 2),
    ],
    ids=lambda tensor: f"{tuple(tensor.shape)}{tensor.stride()}",
)
def test_tensors_of_every_layout_are_exact(tensor: torch.Tensor) -> None:
    back = round_trip(tensor)
    assert back.shape == tensor.shape
    assert torch.equal(back, tensor)


def test_strides_of_dense_tensors_are_kept() -> None:
    for tensor in (BASE.permute(2, 0, 1), BASE.transpose(0, 1), BASE[1]):
        assert round_trip(tensor).stride() == tensor.stride()


def test_a_part_of_a_tensor_is_all_that_travels() -> None:
    large = torch.zeros(1_000_000)
    for part in (large[:10], large[::100_000], large[500_000:500_010]):
        assert dumps(part).size < 1_000


def test_overlapping_elements_are_separate_afterwards() -> None:
    back = round_trip(torch.ones(1, 3).expand(4, 3))
    back[0, 0] = 5
    assert back.sum() == 16


def test_the_same_tensor_twice_is_one_tensor() -> None:
    tensor = torch.ones(4)
    first, second = round_trip([tensor, tensor])
    assert first is second


def test_gradients_are_still_wanted() -> None:
    leaf = torch.ones(3, requires_grad=True)
    assert round_trip(leaf).requires_grad
    assert round_trip(leaf * 2).requires_grad
    assert torch.equal(round_trip(leaf.detach() * 2), torch.full((3,), 2.0))


def test_parameters_and_modules() -> None:
    parameter = round_trip(torch.nn.Parameter(torch.arange(3.0)))
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.requires_grad
    layer = torch.nn.Linear(3, 2)
    serialized = dumps(layer)
    assert len(serialized.buffers) == 2
    back = loads(serialized.packed())
    inputs = torch.randn(4, 3)
    assert torch.equal(back(inputs), layer(inputs))
    back(inputs).sum().backward()
    assert back.weight.grad is not None


def test_lazy_conjugates_and_negatives_are_what_they_show() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(round_trip(tensor.conj()), tensor.conj())
    assert torch.equal(round_trip(tensor.conj().imag), tensor.conj().imag)


def test_sparse_tensors_and_attributes_are_kept() -> None:
    assert torch.equal(round_trip(torch.eye(3).to_sparse()).to_dense(), torch.eye(3))
    tagged = torch.ones(3)
    tagged.tag = "x"
    assert round_trip(tagged).tag == "x"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)])
    assert [len(part) for part in round_trip(nested).unbind()] == [2, 3]


def test_a_read_can_be_changed_and_the_next_one_does_not_see_it(tmp_path: Path) -> None:
    small = dumps(torch.zeros(10)).packed()
    loads(small).add_(1)
    assert loads(small).sum() == 0
    store = Store(str(tmp_path), str(tmp_path), 0, 1 << 20, lambda *timer: None)
    location = store.write(dumps(torch.zeros(10_000)), lambda size: False)
    first = loads(parts_of(store.open(location)))
    first.add_(1)
    second = loads(parts_of(store.open(location)))
    assert first.sum() == 10_000
    assert second.sum() == 0


def test_mapped_tensors_are_not_copied(tmp_path: Path) -> None:
    store = Store(str(tmp_path), str(tmp_path), 0, 1 << 20, lambda *timer: None)
    location = store.write(dumps(torch.arange(10_000)), lambda size: False)
    parts: Any = parts_of(store.open(location))
    start = np.frombuffer(parts[1], np.uint8).ctypes.data
    before = serialization.tensors_rebuilt()
    assert loads(parts).data_ptr() == start
    assert serialization.tensors_rebuilt() == before + 1
    assert loads(parts, copy=True).data_ptr() != start


# -- serializers of the user -------------------------------------------------------------------


class Handle:
    """Cannot be pickled by itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()


class Special(Handle):
    pass


@pytest.fixture
def registered() -> Iterator[None]:
    register_serializer(Handle, serializer=lambda h: h.name, deserializer=Handle)
    yield
    deregister_serializer(Handle)


@pytest.mark.usefixtures("registered")
def test_registered_serializers_are_used_at_any_depth() -> None:
    back = round_trip({"a": [Handle("x")]})
    assert back["a"][0].name == "x"


@pytest.mark.usefixtures("registered")
def test_registered_serializers_are_for_exactly_their_class() -> None:
    with pytest.raises(TypeError, match=r"value\.lock"):
        dumps(Special("x"))


@pytest.mark.usefixtures("registered")
def test_a_serializer_can_be_replaced_and_taken_back() -> None:
    register_serializer(Handle, serializer=lambda h: h.name * 2, deserializer=Handle)
    assert round_trip(Handle("x")).name == "xx"
    deregister_serializer(Handle)
    deregister_serializer(Handle)
    with pytest.raises(TypeError, match=r"value\.lock"):
        dumps(Handle("x"))


@pytest.mark.usefixtures("registered")
def test_references_inside_of_custom_state_are_recorded() -> None:
    home: Any = None
    ref: ObjectRef[Any] = ObjectRef(1, home)
    register_serializer(Handle, serializer=lambda h: [ref], deserializer=lambda state: state)
    assert dumps(Handle("x")).refs == [ref]


# -- what cannot be ----------------------------------------------------------------------------


def test_the_error_names_the_path_the_type_and_a_way_out() -> None:
    with pytest.raises(TypeError) as caught:
        dumps({"a": [1, {"b": threading.Lock()}]}, "config")
    text = str(caught.value)
    assert "Could not serialize config['a'][1]['b']: _thread.lock" in text
    assert "__getstate__" in text
    assert isinstance(caught.value.__cause__, (TypeError, pickle.PicklingError))


def test_errors_of_the_users_own_code_are_explained_too() -> None:
    class Stubborn:
        def __reduce__(self) -> Any:
            raise RuntimeError("not me")

    with pytest.raises(TypeError, match=r"Could not serialize value\[1\].*Stubborn: not me"):
        dumps([0, Stubborn()])


def test_what_is_nested_too_deeply_is_an_error_not_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="recursion"):
        dumps(deep)
