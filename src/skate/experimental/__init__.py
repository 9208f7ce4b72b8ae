"""What Ray keeps under `ray.experimental`.

Where values are, how much there is, weights of TensorFlow networks, bars of progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.experimental import tf_utils, tqdm_ray
    from skate.experimental.dynamic_resources import set_resource
    from skate.experimental.locations import get_local_object_locations, get_object_locations
    from skate.experimental.tensor_transport import (
        CommunicatorMetadata,
        TensorTransportManager,
        TensorTransportMetadata,
        register_tensor_transport,
        wait_tensor_freed,
    )
    from skate.experimental.tf_utils import TensorFlowVariables
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "CommunicatorMetadata",
    "TensorFlowVariables",
    "TensorTransportManager",
    "TensorTransportMetadata",
    "get_local_object_locations",
    "get_object_locations",
    "register_tensor_transport",
    "set_resource",
    "tf_utils",
    "tqdm_ray",
    "wait_tensor_freed",
]
