"""The same measures on process pools and Dask, and on the bare parts that all of them stand on."""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.processes import engine_megabytes
from benchmarks.timing import fastest, rate, timed
from benchmarks.workloads import BATCH, MEGABYTE, repeat


def answer(*args: Any) -> bytes:
    return b"ok"


# -- pools ---------------------------------------------------------------------------------------


def ppe_pool() -> Any:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(2)


def loky_pool() -> Any:
    from loky import ProcessPoolExecutor

    return ProcessPoolExecutor(2)


@contextlib.contextmanager
def dask_client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def ppe(workload: str, budget: float) -> float:
    return futures_workload(ppe_pool(), workload, budget)


def loky(workload: str, budget: float) -> float:
    return futures_workload(loky_pool(), workload, budget)


def futures_workload(pool: Any, workload: str, budget: float) -> float:
    with pool:
        [future.result() for future in [pool.submit(time.sleep, 0.3) for _ in range(2)]]
        if workload == "task_sync":
            return rate(repeat(200, lambda: pool.submit(answer).result()), 200, budget)
        if workload in ("task_async", "executor"):
            return rate(lambda: results(pool.submit(answer) for _ in range(BATCH)), BATCH, budget)
        if workload == "memory_idle":
            return engine_megabytes()
        return timed(pool.shutdown)


def results(futures: Iterator[Any]) -> list[Any]:
    return [future.result() for future in list(futures)]


def dask(workload: str, budget: float) -> float:
    with dask_client() as client:
        if workload == "task_sync":
            return rate(repeat(50, lambda: dask_call(client)), 50, budget)
        if workload == "task_async":
            return rate(lambda: dask_batch(client), BATCH, budget)
        client.gather(client.map(time.sleep, [0.3, 0.3], pure=False))
        return engine_megabytes()


def dask_call(client: Any) -> bytes:
    reply: bytes = client.submit(answer, pure=False).result()
    return reply


def dask_batch(client: Any) -> None:
    client.gather(client.map(answer, range(BATCH), pure=False))


# -- bare parts ----------------------------------------------------------------------------------

HEADER = struct.Struct("<I")
CALL: tuple[Any, ...] = ("answer", (), {}, 0)


def bare_socket(workload: str, budget: float) -> float:
    """Pickled request and answer between two processes over a Unix socket, per second."""
    import multiprocessing

    here, there = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(here, there))
    process.start()
    there.close()

    def round_trip() -> None:
        send(here, CALL)
        receive(here)

    best = rate(repeat(BATCH, round_trip), BATCH, budget)
    here.close()
    process.join()
    return best


def serve(parents: socket.socket, connection: socket.socket) -> None:
    parents.close()  # or the end of the parent would never be noticed
    with contextlib.suppress(EOFError):
        while True:
            _, _, _, index = receive(connection)
            send(connection, (index, b"ok"))


def send(connection: socket.socket, message: Any) -> None:
    data = pickle.dumps(message, protocol=5)
    connection.sendall(HEADER.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    chunk = connection.recv(65536)
    if not chunk:
        raise EOFError
    (length,) = HEADER.unpack_from(chunk)
    while len(chunk) < HEADER.size + length:
        chunk += connection.recv(65536)
    return pickle.loads(memoryview(chunk)[HEADER.size :])


def bare_memcpy(workload: str, budget: float) -> float:
    """GB per second between two buffers that are in memory already."""
    import numpy as np

    source = np.ones(64 * MEGABYTE, np.uint8)
    target = np.zeros_like(source)
    return source.nbytes / 1e9 / fastest(lambda: np.copyto(target, source), budget)
