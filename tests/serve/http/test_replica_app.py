"""Requests over HTTP to real replicas."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastapi
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

import skate
from skate import serve
from skate.exceptions import ActorDiedError
from skate.serve import _client
from skate.serve.handle import DeploymentHandle
from skate.util.state import list_actors
from tests.support import PATIENCE, Flag, Tally, eventually

Client = httpx.Client


@pytest.fixture(scope="module")
def instance() -> Iterator[str]:
    """Serving on a free port; its address."""
    skate.init(num_cpus=8)
    serve.start(http_options={"port": 0})
    yield serve.http_address()
    skate.shutdown()


@pytest.fixture
def client(instance: str) -> Iterator[Client]:
    with httpx.Client(base_url=instance, timeout=PATIENCE) as client:
        yield client
    for name in serve.status().applications:
        serve.delete(name)


pytestmark = pytest.mark.leaves("one instance serves all tests of this module")


# -- what is called -----------------------------------------------------------------------------


def test_a_function_without_and_with_a_request(client: Client) -> None:
    @serve.deployment
    def without() -> str:
        return "no request"

    @serve.deployment
    async def with_request(request: Request) -> Any:
        return {"body": await request.json(), "query": request.query_params["q"]}

    serve.run(without.bind(), name="a", route_prefix="/a")
    serve.run(with_request.bind(), name="b", route_prefix="/b")
    assert client.get("/a").text == "no request"
    assert client.post("/b?q=1", json=[1, 2]).json() == {"body": [1, 2], "query": "1"}


@pytest.mark.parametrize("prefix", ["/", "/sub/path"])
def test_a_class_sees_its_path(client: Client, prefix: str) -> None:
    @serve.deployment
    class Shows:
        def __call__(self, request: Request) -> Any:
            return [request.url.path, request.scope["root_path"], request.method]

    serve.run(Shows.bind(), route_prefix=prefix)
    path = f"{prefix.rstrip('/')}/x"
    root = "" if prefix == "/" else prefix
    assert client.put(path).json() == [path, root, "PUT"]


def test_responses_are_sent_as_they_are(client: Client) -> None:
    @serve.deployment
    class Responds:
        def __call__(self) -> Any:
            return JSONResponse({"a": 1}, status_code=418, headers={"x-own": "yes"})

    serve.run(Responds.bind())
    answer = client.get("/")
    assert (answer.status_code, answer.json(), answer.headers["x-own"]) == (418, {"a": 1}, "yes")


def test_requests_are_logged_where_that_is_asked_for(client: Client, tmp_path: Path) -> None:
    app = fastapi.FastAPI()

    @serve.deployment(logging_config={"logs_dir": str(tmp_path)})
    @serve.ingress(app)
    class Api:
        @app.get("/items/{number}")
        def item(self, number: int) -> int:
            return 1 // number

    serve.run(Api.bind(), name="shop", route_prefix="/shop")
    assert client.get("/shop/items/1", headers={"x-request-id": "first"}).json() == 1
    assert client.get("/shop/items/0").status_code == 500
    (file,) = tmp_path.iterdir()
    eventually(lambda: "GET /shop/items/{number} 500" in file.read_text())
    eventually(lambda: "ZeroDivisionError" in file.read_text())
    first = file.read_text().splitlines()[0]
    assert " shop_Api " in first
    assert " first -- GET /shop/items/{number} 200 " in first
    assert first.endswith("ms")


def test_the_route_is_the_pattern_of_an_application(client: Client) -> None:
    app = fastapi.FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Items:
        @app.get("/items/{number}")
        def item(self, number: int) -> str:
            return serve.context._get_serve_request_context().route

    @serve.deployment
    def plain() -> str:
        return serve.context._get_serve_request_context().route

    serve.run(Items.bind(), name="items", route_prefix="/shop")
    serve.run(plain.bind(), name="plain", route_prefix="/plain")
    assert client.get("/shop/items/3").json() == "/shop/items/{number}"
    assert client.get("/plain/below").text == "/plain"


def test_composition(client: Client) -> None:
    @serve.deployment
    class Adder:
        def __init__(self, increment: int) -> None:
            self.increment = increment

        def add(self, number: int) -> int:
            return number + self.increment

    @serve.deployment
    class Ingress:
        def __init__(self, adders: list[DeploymentHandle]) -> None:
            self.adders = adders

        async def __call__(self, request: Request) -> int:
            number: Any = int(request.query_params["number"])
            for adder in self.adders:
                number = adder.add.remote(number)
            return int(await number)

    adders = [Adder.options(name=f"add{i}").bind(i) for i in (1, 10)]
    serve.run(Ingress.bind(adders))
    assert client.get("/?number=100").json() == 111


def test_fastapi_with_everything(client: Client) -> None:
    app = fastapi.FastAPI()

    @serve.deployment(num_replicas=2)
    @serve.ingress(app)
    class Api:
        def __init__(self, greeting: str) -> None:
            self.greeting = greeting

        @app.get("/hello/{name}")
        def hello(self, name: str, request: fastapi.Request) -> str:
            return f"{self.greeting} {name} {request.scope['root_path']}"

        @app.post("/upload")
        async def upload(self, file: fastapi.UploadFile) -> int:
            return len(await file.read())

        @app.get("/fails")
        def fails(self) -> None:
            raise fastapi.HTTPException(409, "not now")

    handle = serve.run(Api.bind("hi"), route_prefix="/api")
    assert client.get("/api/hello/you").json() == "hi you /api"
    assert client.post("/api/upload", files={"file": bytes(300_000)}).json() == 300_000
    assert client.get("/api/fails").status_code == 409
    assert client.get("/api/docs").status_code == 200
    assert client.get("/api/nothing").json() == {"detail": "Not Found"}
    assert handle.hello.remote("me", _Scoped()).result() == "hi me here"


class _Scoped:
    scope = {"root_path": "here"}  # noqa: RUF012 - as a request has it


# -- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "sync", "response"])
def test_items_come_as_they_are_made(client: Client, kind: str, flag: Any) -> None:
    go_on: Flag = flag("go on")

    @serve.deployment
    class Streams:
        async def items(self) -> Any:
            yield "first"
            while not go_on.is_set():
                await asyncio.sleep(0.001)
            yield "second"

        def __call__(self, request: Request) -> Any:
            if kind == "response":
                return StreamingResponse(self.items(), media_type="text/event-stream")
            return self.items() if kind == "async" else self.sync_items()

        def sync_items(self) -> Any:
            yield "first"
            go_on.wait()
            yield "second"

    serve.run(Streams.bind())
    with client.stream("GET", "/") as answer:
        chunks = answer.iter_text()
        assert next(chunks) == "first"
        go_on.set()
        assert next(chunks) == "second"
        assert next(chunks, None) is None


def test_a_stream_that_fails_is_cut_off(client: Client) -> None:
    @serve.deployment
    async def breaks(request: Request) -> Any:
        async def items() -> Any:
            yield "first"
            raise ValueError("later")

        return StreamingResponse(items())

    serve.run(breaks.bind())
    with client.stream("GET", "/") as answer:
        chunks = answer.iter_text()
        assert next(chunks) == "first"
        with pytest.raises(httpx.RemoteProtocolError):
            next(chunks)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_generator_that_fails_at_once_is_an_error(client: Client, kind: str) -> None:
    @serve.deployment
    class Breaks:
        def __call__(self, request: Request) -> Any:
            return self.items() if kind == "async" else self.sync_items()

        async def items(self) -> Any:
            raise ValueError("at once")
            yield

        def sync_items(self) -> Any:
            raise ValueError("at once")
            yield

    serve.run(Breaks.bind())
    assert client.get("/").status_code == 500


@serve.deployment
class Inner:
    """Notes that it began, and that it was cancelled."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    async def __call__(self) -> None:
        try:
            self.tally.add("began")
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            self.tally.add("inner")
            raise


def _ask_and_leave(client: Client, tally: Tally) -> None:
    """Close a connection as soon as its request has begun."""
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        eventually(tally.words)


def test_a_client_that_leaves_cancels_what_it_asked_for(client: Client, tally: Tally) -> None:
    @serve.deployment
    class Outer:
        def __init__(self, inner: DeploymentHandle) -> None:
            self.inner = inner

        async def __call__(self) -> None:
            try:
                await self.inner.remote()
            except asyncio.CancelledError:
                tally.add("outer")
                raise

    serve.run(Outer.bind(Inner.bind(tally)))
    _ask_and_leave(client, tally)
    eventually(lambda: set(tally.words()) == {"began", "inner", "outer"})


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a swallowed cancellation leaves no trace")
def test_calls_end_with_a_client_even_if_the_code_that_made_them_goes_on(
    client: Client, tally: Tally
) -> None:
    @serve.deployment
    class Outer:
        def __init__(self, inner: DeploymentHandle) -> None:
            self.inner = inner

        async def __call__(self) -> str:
            self.inner.remote()  # and nobody waits for it
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                tally.add("swallowed")
            return "done all the same"

    serve.run(Outer.bind(Inner.bind(tally)))
    _ask_and_leave(client, tally)
    eventually(lambda: set(tally.words()) == {"began", "swallowed", "inner"})


# -- websockets ---------------------------------------------------------------------------------


def test_websockets(client: Client) -> None:
    from websockets.sync.client import connect

    app = fastapi.FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Echo:
        def __init__(self) -> None:
            self.count = 0

        @app.websocket("/ws/{name}")
        async def echo(self, socket: fastapi.WebSocket, name: str) -> None:
            await socket.accept()
            async for text in socket.iter_text():
                self.count += 1
                await socket.send_text(f"{name} {self.count} {text}")

    serve.run(Echo.bind(), route_prefix="/echo")
    url = str(client.base_url).rstrip("/").replace("http", "ws")
    for count in (1, 2):
        with connect(f"{url}/echo/ws/bob") as connection:
            connection.send("hello")
            assert connection.recv(PATIENCE) == f"bob {count} hello"


def test_websockets_use_the_room_of_all_replicas(client: Client) -> None:
    from websockets.sync.client import connect

    app = fastapi.FastAPI()

    @serve.deployment(num_replicas=3, max_ongoing_requests=1)
    @serve.ingress(app)
    class Stays:
        @app.websocket("/")
        async def stay(self, socket: fastapi.WebSocket) -> None:
            await socket.accept()
            await socket.send_text(str(os.getpid()))
            await socket.receive_text()

    serve.run(Stays.bind())
    url = str(client.base_url).replace("http", "ws")

    def open_one() -> tuple[str, Any]:
        connection = sockets.enter_context(connect(url, open_timeout=PATIENCE))
        return str(connection.recv(PATIENCE)), connection

    with contextlib.ExitStack() as sockets, ThreadPoolExecutor() as threads:
        connections = dict(open_one() for _ in range(3))
        assert len(connections) == 3
        fourth = threads.submit(open_one)
        left, connection = connections.popitem()
        connection.close()
        assert fourth.result(PATIENCE)[0] == left


# -- limits and errors --------------------------------------------------------------------------


def test_errors_are_the_servers_business(client: Client) -> None:
    @serve.deployment
    def fails(request: Request) -> Any:
        if "teapot" in request.query_params:
            raise fastapi.HTTPException(418, "short and stout")
        if "object" in request.query_params:
            return object()
        raise ValueError("secret")

    serve.run(fails.bind())
    answer = client.get("/")
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert client.get("/?object").status_code == 500  # it is no JSON
    assert client.get("/?teapot").json() == {"detail": "short and stout"}


def test_a_path_without_an_application(client: Client) -> None:
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.text.startswith("Path '/nowhere' not found. ")


def test_as_many_endpoints_in_threads_as_requests(client: Client) -> None:
    app = fastapi.FastAPI()
    count = 42  # anyio has 40 threads by itself

    @serve.deployment(max_ongoing_requests=count)
    @serve.ingress(app)
    class Api:
        def __init__(self) -> None:
            self.all_are_here = threading.Barrier(count)

        @app.get("/")
        def wait(self) -> None:
            self.all_are_here.wait(PATIENCE)

    serve.run(Api.bind())
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda _: client.get("/").status_code, range(count)))
    assert answers == [200] * count


def test_a_class_for_handles_only(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    @serve.deployment
    class Adder:
        def add(self, number: int) -> int:
            return number + 1

    handle = serve.run(Adder.bind())
    assert handle.add.remote(1).result() == 2
    assert client.get("/").status_code == 500
    eventually(lambda: "run it with route_prefix=None" in "".join(capfd.readouterr()))


def test_more_requests_than_allowed(client: Client, flag: Any, tally: Tally) -> None:
    answer_now: Flag = flag("answer")

    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
    class Slow:
        async def __call__(self, request: Request) -> str:
            tally.add(request.url.path)
            while not answer_now.is_set():
                await asyncio.sleep(0.001)
            return request.url.path

    handle = serve.run(Slow.bind())

    async def three() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=PATIENCE) as many:
            first = asyncio.ensure_future(many.get("/1"))
            while not tally.words():
                await asyncio.sleep(0.001)
            others = [asyncio.ensure_future(many.get(f"/{i}")) for i in (2, 3)]
            done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            answer_now.set()
            return [next(iter(done)).result(), await first, *await asyncio.gather(*others)]

    refused, first, *others = asyncio.run(three())
    assert refused.status_code == 503
    assert "max_queued_requests=1" in refused.text
    assert first.text == "/1"
    assert sorted(answer.status_code for answer in others) == [200, 503]
    assert handle is not None


def test_a_model_id_in_a_header(client: Client) -> None:
    @serve.deployment
    class LoadedModels:
        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, name: str) -> str:
            return f"model {name}"

        async def __call__(self) -> str:
            return str(await self.load(serve.get_multiplexed_model_id()))

    serve.run(LoadedModels.bind())
    for name in ("serve_multiplexed_model_id", "serve-multiplexed-model-id"):
        assert client.get("/", headers={name: "b"}).text == "model b"


def test_requests_go_to_the_replica_that_has_their_model(client: Client, tally: Tally) -> None:
    @serve.deployment(num_replicas=3)
    class LoadedModels:
        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, name: str) -> str:
            tally.add(name)
            return name

        async def __call__(self) -> int:
            await self.load(serve.get_multiplexed_model_id())
            return os.getpid()

        def replicas_known(self) -> int:
            router = _client.router_of(serve.get_replica_context().replica_id.deployment_id)
            return len(router.actors())

    handle = serve.run(LoadedModels.bind())
    # Those who know the same others choose the same one, and the last to start is news to them.
    eventually(lambda: handle.broadcast("replicas_known").results() == [3, 3, 3])
    headers = {"serve_multiplexed_model_id": "m", "connection": "close"}
    assert len({client.get("/", headers=headers).text for _ in range(20)}) == 1
    assert tally.words() == ["m"]


# -- lives --------------------------------------------------------------------------------------


def test_a_killed_replica_loses_only_what_it_had(client: Client) -> None:
    @serve.deployment(num_replicas=2)
    async def pid() -> int:
        return os.getpid()

    class Asker:
        """One client with one connection."""

        def __init__(self) -> None:
            self.seen: list[int] = []
            self.lost = 0

        async def ask(self, until: asyncio.Event) -> None:
            async with httpx.AsyncClient(base_url=client.base_url, timeout=PATIENCE) as one:
                while not until.is_set():
                    try:
                        self.seen.append((await one.get("/")).json())
                    except httpx.TransportError:
                        self.lost += 1

    async def kill_one(askers: list[Asker]) -> None:
        done = asyncio.Event()
        asking = [asyncio.ensure_future(asker.ask(done)) for asker in askers]
        while not all(asker.seen for asker in askers):
            await asyncio.sleep(0.01)
        victim = askers[0].seen[-1]
        os.kill(victim, signal.SIGKILL)
        while not all(asker.seen[-1] != victim for asker in askers):
            await asyncio.sleep(0.01)
        done.set()
        await asyncio.gather(*asking)

    serve.run(pid.bind())
    askers = [Asker() for _ in range(6)]
    asyncio.run(kill_one(askers))
    assert all(asker.lost <= 1 for asker in askers)  # at most the request that was there

    def is_whole() -> bool:
        states = serve.status().applications["default"].deployments["pid"].replica_states
        return states == {"RUNNING": 2}

    eventually(is_whole)


def test_the_controller_may_die(client: Client) -> None:
    from skate.util.state import list_actors

    @serve.deployment
    def name() -> str:
        return serve.get_replica_context().app_name

    serve.run(name.bind(), name="one", route_prefix="/one")
    assert client.get("/one").text == "one"
    (controller,) = [
        actor for actor in list_actors(detail=True) if actor["name"] == "SERVE_CONTROLLER_ACTOR"
    ]
    os.kill(controller["pid"], signal.SIGKILL)
    assert client.get("/one").text == "one"
    serve.run(name.bind(), name="two", route_prefix="/two")
    with httpx.Client(base_url=client.base_url, timeout=PATIENCE) as other:
        eventually(lambda: other.get("/two").text == "two")
        assert other.get("/one").text == "one"


def test_all_processes_may_die_at_once(client: Client) -> None:
    @serve.deployment(num_replicas=2)
    def lives() -> int:
        return os.getpid()

    handle = serve.run(lives.bind())
    backup = _client.connect().backup
    assert backup is not None
    eventually(lambda: backup._state is not None and backup._state.applications)
    killed = [actor["pid"] for actor in list_actors() if actor["state"] == "ALIVE"]
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def answers() -> bool:
        try:
            answer = client.get("/")  # at the same address
        except httpx.TransportError:
            return False
        return answer.status_code == 200 and answer.json() not in killed

    eventually(answers)
    assert list(serve.status().applications) == ["default"]

    def is_called() -> bool:
        try:
            return handle.remote().result(PATIENCE) not in killed
        except ActorDiedError:  # this process has not heard of it yet
            return False

    eventually(is_called)


def test_a_new_version_loses_no_request(client: Client) -> None:
    @serve.deployment
    class Versioned:
        def __init__(self, version: int) -> None:
            self.version = version

        async def __call__(self) -> int:
            time.sleep(0.005)  # the loop is slow, as on a busy machine
            return self.version

    async def ask(until: asyncio.Event) -> list[int]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=PATIENCE) as one:
            answers: list[int] = []
            while not until.is_set() or answers[-1:] != [2]:
                answers.append((await one.get("/")).json())
            return answers

    async def ask_in_parts(until: asyncio.Event) -> list[int]:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        answers: list[int] = []
        while not until.is_set() or answers[-1:] != [2]:
            for part in (b"GET / HT", b"TP/1.1\r\nhost", b": x\r\n\r\n"):
                writer.write(part)
                await asyncio.sleep(0.002)
            await reader.readuntil(b"\r\n\r\n")
            answers.append(int(await reader.readexactly(1)))
        writer.close()
        return answers

    async def update() -> list[list[int]]:
        updated = asyncio.Event()
        asking = [asyncio.ensure_future(ask(updated)) for _ in range(4)]
        asking += [asyncio.ensure_future(ask_in_parts(updated)) for _ in range(4)]
        await asyncio.to_thread(serve.run, Versioned.bind(2))
        updated.set()
        return await asyncio.gather(*asking)

    serve.run(Versioned.bind(1))
    for answers in asyncio.run(update()):
        assert set(answers) <= {1, 2}
        assert answers == sorted(answers)


def test_an_open_websocket_does_not_keep_the_old_version(client: Client) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    app = fastapi.FastAPI()

    @serve.deployment(graceful_shutdown_timeout_s=10 * PATIENCE)
    @serve.ingress(app)
    class Stays:
        def __init__(self, version: int) -> None: ...

        @app.websocket("/")
        async def stay(self, socket: fastapi.WebSocket) -> None:
            await socket.accept()
            await socket.receive_text()

    serve.run(Stays.bind(1))
    with connect(str(client.base_url).replace("http", "ws"), open_timeout=PATIENCE) as connection:
        serve.run(Stays.bind(2))
        with pytest.raises(ConnectionClosed, match="1012"):
            connection.recv(PATIENCE)

    def is_alone() -> bool:
        states = serve.status().applications["default"].deployments["Stays"].replica_states
        return states == {"RUNNING": 1}

    eventually(is_alone)


def test_a_request_wakes_an_application_without_replicas(client: Client) -> None:
    scaling = {"min_replicas": 0, "max_replicas": 1, "upscale_delay_s": 0}

    @serve.deployment(autoscaling_config={**scaling, "metrics_interval_s": 0.05})
    def awake() -> str:
        return "awake"

    serve.run(awake.bind())
    assert not serve.status().applications["default"].deployments["awake"].replica_states
    assert client.get("/").text == "awake"


def test_a_connection_may_ask_for_several_applications(client: Client) -> None:
    from skate.serve.context import request_context

    @serve.deployment
    async def shows(request: Request) -> Any:
        context = request_context()
        facts = [context.app_name, context.request_id, context.multiplexed_model_id]
        return [*facts, (await request.body()).decode(), request.scope["root_path"]]

    for app in ("one", "two"):
        serve.run(shows.bind(), name=app, route_prefix=f"/{app}")
    for app in ("one", "two", "one", "two"):
        headers = {"x-request-id": f"id {app}", "serve_multiplexed_model_id": "m"}
        answer = client.post(f"/{app}/x", content="body", headers=headers)
        assert answer.json() == [app, f"id {app}", "m", "body", f"/{app}"]
        assert answer.headers["x-request-id"] == f"id {app}"


def test_applications_come_and_go(client: Client) -> None:
    @serve.deployment
    def name() -> str:
        return serve.get_replica_context().app_name

    for app in ("one", "two"):
        serve.run(name.bind(), name=app, route_prefix=f"/{app}")
    assert client.get("/-/routes").json() == {"/one": "one", "/two": "two"}
    assert [client.get(f"/{app}").text for app in ("one", "two", "one")] == ["one", "two", "one"]
    serve.delete("one")
    eventually(lambda: client.get("/one").status_code == 404)
    assert client.get("/two").text == "two"


# -- logs ---------------------------------------------------------------------------------------


def test_a_path_is_one_line_of_the_access_log(client: Client, tmp_path: Path) -> None:
    @serve.deployment(logging_config={"logs_dir": str(tmp_path)})
    def answers() -> str:
        return "an answer"

    serve.run(answers.bind())
    assert client.get("/x%0d%0aINFO -- GET /admin 200%1b[2J").text == "an answer"
    (file,) = tmp_path.iterdir()
    eventually(lambda: file.read_text())
    (line,) = file.read_text().splitlines()
    assert " -- GET /x\\r\\nINFO -- GET /admin 200\\x1b[2J 200 " in line
