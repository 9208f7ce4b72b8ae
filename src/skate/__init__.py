"""skate: Ray's tasks, actors and objects as an embedded library.

import skate

@skate.remote
def square(x):
    return x * x

skate.get([square.remote(i) for i in range(4)])  # [0, 1, 4, 9]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.ids import (
    ActorClassID,
    ActorID,
    FunctionID,
    JobID,
    NodeID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)
from skate._core.public_names import install_finder, lazy_names, name_publicly
from skate._core.refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from skate._facade.actor import Actor, ActorClass
from skate._facade.actor_handle import ActorHandle
from skate._facade.api import (
    ClientContext,
    available_resources,
    cancel,
    cluster_resources,
    get,
    get_actor,
    get_gpu_ids,
    init,
    is_initialized,
    kill,
    nodes,
    put,
    shutdown,
    timeline,
    wait,
)
from skate._facade.methods import method
from skate._facade.remote import remote
from skate.runtime_context import get_runtime_context

if TYPE_CHECKING:
    from skate import (
        actor as actor,
    )
    from skate import (
        air as air,
    )
    from skate import (
        client_builder as client_builder,
    )
    from skate import (
        compat as compat,
    )
    from skate import (
        dag as dag,
    )
    from skate import (
        data as data,
    )
    from skate import (
        exceptions as exceptions,
    )
    from skate import (
        experimental as experimental,
    )
    from skate import (
        job_config as job_config,
    )
    from skate import (
        job_submission as job_submission,
    )
    from skate import (
        logging_config as logging_config,
    )
    from skate import (
        predict as predict,
    )
    from skate import (
        runtime_env as runtime_env,
    )
    from skate import (
        serve as serve,
    )
    from skate import (
        testing as testing,
    )
    from skate import (
        train as train,
    )
    from skate import (
        tune as tune,
    )
    from skate import (
        util as util,
    )
    from skate.client_builder import client
    from skate.logging_config import LoggingConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)
    install_finder()

__version__ = "0.1.0"

ObjectID = ObjectRef  # its name until Ray 1.0

__all__ = [
    "Actor",
    "ActorClass",
    "ActorClassID",
    "ActorHandle",
    "ActorID",
    "ClientContext",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "__version__",
    "available_resources",
    "cancel",
    "client",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "wait",
]

name_publicly(__name__)
