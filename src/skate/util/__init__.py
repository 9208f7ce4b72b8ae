"""What is built on tasks and actors and small enough not to be a library of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names, name_publicly
from skate._core.serialization import deregister_serializer, register_serializer
from skate.util._completion import as_completed, map_unordered
from skate.util._surroundings import get_node_ip_address, list_named_actors
from skate.util.actor_pool import ActorPool
from skate.util.check_serialize import inspect_serializability
from skate.util.debug import disable_log_once_globally, enable_periodic_logging, log_once

# The function must hide the module of the same name, so the module is loaded here and now:
# loading it later would put the module back.
from skate.util.placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from skate.util.profiling import profile

if TYPE_CHECKING:
    from skate.util import (
        collective as collective,
    )
    from skate.util import (
        dask as dask,
    )
    from skate.util import (
        executor as executor,
    )
    from skate.util import (
        joblib as joblib,
    )
    from skate.util import (
        metrics as metrics,
    )
    from skate.util import (
        multiprocessing as multiprocessing,
    )
    from skate.util import (
        queue as queue,
    )
    from skate.util import (
        scheduling_strategies as scheduling_strategies,
    )
    from skate.util import (
        state as state,
    )
    from skate.util.executor import CallCrashedError, Executor
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ActorPool",
    "CallCrashedError",
    "Executor",
    "as_completed",
    "deregister_serializer",
    "disable_log_once_globally",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "profile",
    "register_serializer",
    "remove_placement_group",
]

name_publicly(__name__)
