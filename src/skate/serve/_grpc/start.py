"""The start of gRPC, and where it is answered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import skate
from skate._core import notices
from skate._core.optional_imports import install_command, is_installed
from skate.serve._grpc.methods import servicer_function
from skate.serve._grpc.server import GrpcServer
from skate.serve._identity import GRPC_SERVER, NAMESPACE
from skate.serve._start_options import warn_of_other_grpc
from skate.serve._system_actors import system_actor

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions, gRPCOptions


def grpc_address() -> str:
    """Return where gRPC is answered: "host:port".

    Raises:
        RuntimeError: If it is not.
    """
    server = running_server()
    if server is None:
        raise RuntimeError(
            "gRPC is not answered: serve.start(grpc_options=gRPCOptions("
            "grpc_servicer_functions=[...])) says which methods are"
        )
    address: str = skate.get(server.address.remote())
    return address


def running_server() -> Any:
    """Return the actor; None if there is none."""
    try:
        return skate.get_actor(GRPC_SERVER, namespace=NAMESPACE)
    except ValueError:
        return None


def is_wanted(options: gRPCOptions) -> bool:
    """Return whether gRPC is to be answered, and can be.

    Without its packages all else works, and a notice says what is missing.

    Raises:
        ModuleNotFoundError: If a generated function cannot be imported.
        ValueError: If one is no function.
    """
    if not options.grpc_servicer_functions:
        return False
    missing = [name for name in ("grpc", "google.protobuf") if not is_installed(name)]
    if missing:
        notices.once(
            "serve without gRPC",
            f"gRPC is not answered: {', '.join(missing)} cannot be imported: "
            f"{install_command('grpc')}",
        )
        return False
    for path in options.grpc_servicer_functions:
        servicer_function(path)
    return True


def start_server(options: gRPCOptions, http: HTTPOptions) -> None:
    """Have gRPC answered, by one process until serving is shut down; one that runs is left as it
    is.

    Args:
        options: Where, and which methods.
        http: Whose host, certificate and token are those of gRPC too.

    Raises:
        RuntimeError: If the port is taken.
    """
    running = running_server()
    if running is not None:
        skate.get(running.address.remote())  # raises, if it could not be opened again
        warn_of_other_grpc(skate.get(running.options.remote()), options)
        return
    server = system_actor(GrpcServer, GRPC_SERVER).remote(options, http, os.getpid())
    server.run.remote()  # again, if the process dies
    try:
        skate.get(server.address.remote())
    except BaseException:
        skate.kill(server)
        raise
