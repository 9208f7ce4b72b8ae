"""skate.serve side by side with Ray Serve and bare uvicorn, as ratios in one run.

Requests come from a process of its own, over connections that stay open. Every number comes from
a server of its own.

    python -m benchmarks.serve                  everything
    python -m benchmarks.serve --no-ray         without Ray, which takes most of the time
    python -m benchmarks.serve --only http      the rows whose name contains "http"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.alone import ROOT, report
from benchmarks.rows import (
    Goal,
    Row,
    at_least,
    at_most,
    share_of,
    times_faster_than_ray,
    times_ray,
)

SECONDS, CONNECTIONS, CHUNKS, WORK = 3.0, 16, 1000, 0.005

near_bare = Goal("<= bare + 0.5 ms", ("bare",), lambda v: v["skate"] <= v["bare"] + 0.5)
ahead_of_bare = Goal(">= 3 x bare", ("bare",), lambda v: v["skate"] >= 3 * v["bare"])

TABLE = (
    Row("http_rate", "hello world, 16 connections", "/s",
        (share_of("bare", 0.7), times_ray(8)), ("bare", "ray")),
    Row("http_time", "hello world, one connection, median", "ms",
        (near_bare,), ("bare", "ray"), less_is_better=True),
    Row("stream", "chunks of a streamed response", "/s",
        (share_of("bare", 0.5), times_ray(5)), ("bare", "ray")),
    Row("batch", "5 ms of work per batch, 16 connections", "/s",
        (ahead_of_bare, times_ray(1)), ("bare", "ray")),
    Row("handle", "calls of a handle, 100 at a time", "/s",
        (at_least(5000, "/s"), times_ray(10)), ("ray",)),
    Row("first", "from the start of a program to its first answer", "s",
        (at_most(0.5, "s"), times_faster_than_ray(10)), ("ray",), less_is_better=True),
)  # fmt: skip


# -- servers --------------------------------------------------------------------------------------


class Library:
    """skate or Ray: the same calls."""

    def __init__(self, name: str) -> None:
        core: Any = importlib.import_module(name)
        self.serve: Any = importlib.import_module(f"{name}.serve")
        extra = {"include_dashboard": False, "log_to_driver": False} if name == "ray" else {}
        core.init(num_cpus=4, **extra)
        self.port = _free_port()
        self.serve.start(http_options={"port": self.port})

    def hello(self) -> Any:
        class Hello:
            async def __call__(self, request: Any) -> str:
                return "hello"

        return self._run(Hello)

    def streaming(self) -> None:
        class Streaming:
            async def __call__(self, request: Any) -> Any:
                return _stream()

        self._run(Streaming)

    def batching(self) -> None:
        serve = self.serve

        class Batching:
            @serve.batch(max_batch_size=CONNECTIONS, batch_wait_timeout_s=0.002)  # type: ignore[untyped-decorator]
            async def compute(self, items: list[int]) -> list[str]:
                time.sleep(WORK)
                return ["hello"] * len(items)

            async def __call__(self, request: Any) -> Any:
                return await self.compute(1)

        self._run(Batching)

    def _run(self, target: Any) -> Any:
        deployment = self.serve.deployment(target).options(max_ongoing_requests=100)
        return self.serve.run(deployment.bind())


def bare_app() -> Any:
    """The same answers from Starlette alone."""
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def hello(request: Any) -> Any:
        return PlainTextResponse("hello")

    async def stream(request: Any) -> Any:
        return _stream()

    async def batch(request: Any) -> Any:
        time.sleep(WORK)
        return PlainTextResponse("hello")

    endpoints = {"/": hello, "/stream": stream, "/batch": batch}
    return Starlette(routes=[Route(path, function) for path, function in endpoints.items()])


def _stream() -> Any:
    from starlette.responses import StreamingResponse

    async def chunks() -> Any:
        for number in range(CHUNKS):
            yield f"chunk {number}\n"

    return StreamingResponse(chunks())


@contextlib.contextmanager
def bare_server() -> Iterator[int]:
    port = _free_port()
    command = [sys.executable, "-m", "benchmarks.serve", "--bare", str(port)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            _wait_for(port)
            yield port
        finally:
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


# -- the client -----------------------------------------------------------------------------------


async def _ask(port: int, path: str, until: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"chunked" in head:
            await reader.readuntil(b"0\r\n\r\n")
        else:
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        times.append(time.perf_counter() - start)
    writer.close()


async def _load(port: int, path: str, connections: int) -> list[float]:
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    await asyncio.gather(*(_ask(port, path, until, times) for _ in range(connections)))
    return times


def load(port: int, path: str, connections: int) -> list[float]:
    """How long each request took; sent by another process, which costs the server nothing."""
    command = [sys.executable, "-m", "benchmarks.serve", "--load"]
    arguments = [str(port), path, str(connections)]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    times: list[float] = json.loads(done.stdout)
    return times


# -- measuring ------------------------------------------------------------------------------------

PROGRAM = """
import urllib.request
from {name} import serve

@serve.deployment
class Hello:
    async def __call__(self, request):
        return "hello"

serve.start(http_options={{"port": {port}}})
serve.run(Hello.bind())
assert urllib.request.urlopen("http://127.0.0.1:{port}").read() == b"hello"
print("first")
"""


def first(name: str) -> float:
    program = PROGRAM.format(name=name, port=_free_port())
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        return time.perf_counter() - start


def handle_rate(library: Library) -> float:
    handle = library.hello()

    def some() -> None:
        responses = [handle.remote(None) for _ in range(100)]
        for response in responses:
            response.result()

    some()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        some()
        count += 100
    return count / (time.perf_counter() - start)


def of_times(name: str, times: list[float]) -> float:
    if name == "http_time":
        return sorted(times)[len(times) // 2] * 1000
    return len(times) * (CHUNKS if name == "stream" else 1) / SECONDS


def measure(system: str, name: str) -> float:
    if name == "first":
        return first(system)
    connections = CONNECTIONS if name in ("http_rate", "batch") else 1
    if system == "bare":
        path = {"stream": "/stream", "batch": "/batch"}.get(name, "/")
        with bare_server() as port:
            return of_times(name, load(port, path, connections))
    library = Library(system)
    if name == "handle":
        return handle_rate(library)
    run: Any = {"stream": library.streaming, "batch": library.batching}.get(name, library.hello)
    run()
    return of_times(name, load(library.port, "/", connections))


# -- the table ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--no-ray", action="store_true", help="without Ray")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "ROW"), help="one number")
    parser.add_argument("--bare", type=int, metavar="PORT", help="serve without skate or Ray")
    parser.add_argument("--load", nargs=3, metavar=("PORT", "PATH", "CONNECTIONS"))
    options = parser.parse_args()
    if options.bare:
        import uvicorn

        uvicorn.run(bare_app(), port=options.bare, log_level="critical", loop="asyncio")
    elif options.load:
        port, path, connections = options.load
        print(json.dumps(asyncio.run(_load(int(port), path, int(connections)))))
    elif options.one:
        with contextlib.redirect_stdout(sys.stderr):
            number = measure(*options.one)
        print(json.dumps(number))
    else:
        for row in TABLE:
            if options.only in row.name:
                report("serve", row, options.no_ray)


if __name__ == "__main__":
    main()
