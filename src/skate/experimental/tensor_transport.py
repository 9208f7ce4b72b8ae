"""Tensors that actors return by `tensor_transport`.

Between actors of one machine they travel through shared memory, whatever the transport is. One of
a program's own is a name that methods may use; its methods are never called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skate._core.argument_checks import text, wrong_type
from skate._core.options import TENSOR_TRANSPORTS

__all__ = [
    "CommunicatorMetadata",
    "TensorTransportManager",
    "TensorTransportMetadata",
    "register_tensor_transport",
    "wait_tensor_freed",
]


@dataclass
class CommunicatorMetadata:
    """What both ends of a transfer know; transports add fields."""


@dataclass
class TensorTransportMetadata:
    """What the sender tells the receiver.

    Attributes:
        tensor_meta: Shape and type of each tensor.
        tensor_device: The device that they are on.
    """

    tensor_meta: list[Any]
    tensor_device: str | None = None


class TensorTransportManager(ABC):
    """What a transport of one's own has to define."""

    @abstractmethod
    def tensor_transport_backend(self) -> str:
        """Return the name of the transport."""

    @staticmethod
    @abstractmethod
    def is_one_sided() -> bool:
        """Return whether the receiver alone does the work."""

    @staticmethod
    @abstractmethod
    def can_abort_transport() -> bool:
        """Return whether a transfer can be given up."""

    @abstractmethod
    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """Return whether an actor can use it.

        Args:
            actor: The actor's handle.
        """

    @abstractmethod
    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: list[Any]
    ) -> TensorTransportMetadata:
        """Describe the tensors of a result, where it was made.

        Args:
            obj_id: The result.
            rdt_object: Its tensors.
        """

    @abstractmethod
    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Describe the way between two actors.

        Args:
            src_actor: The handle of the sender.
            dst_actor: The handle of the receiver.
            backend: What connects them, where there is a choice.
        """

    @abstractmethod
    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """Receive the tensors of a result.

        Args:
            obj_id: The result.
            tensor_transport_metadata: What the sender says of them.
            communicator_metadata: The way between the actors.
            target_buffers: Tensors to receive into, if there are any.
        """

    @abstractmethod
    def send_multiple_tensors(
        self,
        tensors: list[Any],
        tensor_transport_metadata: TensorTransportMetadata,
        communicator_metadata: CommunicatorMetadata,
    ) -> None:
        """Send tensors.

        Args:
            tensors: The tensors.
            tensor_transport_metadata: What the receiver is told of them.
            communicator_metadata: The way between the actors.
        """

    @abstractmethod
    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: TensorTransportMetadata, tensors: list[Any]
    ) -> None:
        """Free what the sender holds of a result.

        Args:
            obj_id: The result.
            tensor_transport_meta: What the receiver was told of it.
            tensors: Its tensors.
        """

    @abstractmethod
    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Give up a transfer.

        Args:
            obj_id: The result.
            communicator_metadata: The way between the actors.
        """


def register_tensor_transport(
    transport_name: str,
    devices: Sequence[str],
    transport_manager_class: type[TensorTransportManager],
    data_type: type,
) -> None:
    """Let methods in this process name a transport: `@method(tensor_transport=name)`.

    What they return travels through shared memory all the same.

    Args:
        transport_name: Its name, in whatever case.
        devices: The kinds of devices that it is for, such as "cpu".
        transport_manager_class: The class that defines it; it is not used.
        data_type: The type of what it carries.

    Raises:
        ValueError: If the name is taken, or the class is no `TensorTransportManager`.
    """
    name = text("transport_name", transport_name).lower()
    if name in TENSOR_TRANSPORTS:
        raise ValueError(f"the tensor transport {transport_name!r} is already registered")
    given: object = transport_manager_class
    if not (isinstance(given, type) and issubclass(given, TensorTransportManager)):
        raise ValueError(
            "transport_manager_class must be a subclass of TensorTransportManager; got "
            f"{transport_manager_class!r}"
        )
    if isinstance(devices, str) or not all(isinstance(device, str) for device in devices):
        raise wrong_type("devices", devices, "a list of names")
    if not isinstance(data_type, type):
        raise wrong_type("data_type", data_type, "a type")
    TENSOR_TRANSPORTS.append(name)


def wait_tensor_freed(tensor: object, timeout: float | None = None) -> None:
    """Return when a tensor that was returned, or put, can be written to: at once.

    Others have copies of it, whatever its `tensor_transport` was, so that they never see what is
    written later.

    Args:
        tensor: The tensor.
        timeout: Without effect: nothing is waited for.
    """
