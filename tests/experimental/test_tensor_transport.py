"""Tensor transports that programs define."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import skate
from skate._core import options
from skate.experimental import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
    register_tensor_transport,
)


class Pigeons(TensorTransportManager):
    def tensor_transport_backend(self) -> str:
        return "pigeons"

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return False

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: list[Any]
    ) -> TensorTransportMetadata:
        return TensorTransportMetadata([tensor.shape for tensor in rdt_object], "cpu")

    def get_communicator_metadata(self, *actors: Any, **more: Any) -> CommunicatorMetadata:
        return CommunicatorMetadata()

    def recv_multiple_tensors(self, *what: Any, **more: Any) -> list[Any]:
        raise NotImplementedError

    send_multiple_tensors: Any = recv_multiple_tensors
    garbage_collect: Any = recv_multiple_tensors
    abort_transport: Any = recv_multiple_tensors


@pytest.fixture(autouse=True)
def only_known_transports() -> Iterator[None]:
    known = options.TENSOR_TRANSPORTS[:]
    yield
    options.TENSOR_TRANSPORTS[:] = known


def test_methods_may_name_a_transport_of_ones_own(one_session: None) -> None:
    register_tensor_transport("Pigeons", ["cpu"], Pigeons, np.ndarray)

    @skate.remote(num_cpus=0)
    class Echo:
        @skate.method(tensor_transport="pigeons")
        def echo(self, array: Any) -> Any:
            return array

        def total(self, array: Any) -> int:
            return int(array.sum())

    sender, receiver = Echo.remote(), Echo.remote()
    sent = sender.echo.remote(np.arange(4))
    assert skate.get(receiver.total.remote(sent), timeout=60) == 6


def test_transports_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="already registered"):
        register_tensor_transport("GLOO", ["cpu"], Pigeons, np.ndarray)
    with pytest.raises(ValueError, match="subclass of TensorTransportManager"):
        register_tensor_transport("pigeons", ["cpu"], dict, np.ndarray)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="devices takes a list of names"):
        register_tensor_transport("pigeons", "cpu", Pigeons, np.ndarray)
    with pytest.raises(TypeError, match="data_type takes a type"):
        register_tensor_transport("pigeons", ["cpu"], Pigeons, 1)  # type: ignore[arg-type]
