"""`init(_metrics_export_port=...)`: what Prometheus collects of a session."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

import skate
from skate._core.measurements import announce_measurements
from skate._facade.client_context import ClientContext
from skate.util.metrics import Counter, Gauge, Histogram
from tests.support import PATIENCE, eventually


def collected(port: int, path: str = "/metrics", host: str = "") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def port_of(context: ClientContext) -> int:
    number: int = context.address_info["metrics_export_port"]
    return number


@pytest.fixture
def port() -> Iterator[int]:
    yield port_of(skate.init(num_cpus=2, _metrics_export_port=0))
    skate.shutdown()


@skate.remote
class Till:
    def __init__(self) -> None:
        self.sold = Counter("sold_hats", "Hats that were sold.", ("kind",))
        self.price = Histogram("hat_price", boundaries=[1, 10])

    def sell(self, kind: str) -> int:
        self.sold.inc(2, {"kind": kind})
        self.price.observe(5)
        return os.getpid()

    def tell_nothing(self) -> None:
        announce_measurements(self, lambda till: [*till.lost])


def test_all_processes_tell_what_they_have_measured(port: int) -> None:
    Gauge("shops_open").set(3)
    tills = [Till.remote(), Till.remote()]
    pids = skate.get([till.sell.remote("top") for till in tills])
    assert collected(port)[0] == 200
    # A process that is slow to answer is left out.
    eventually(lambda: collected(port, "/")[1].count("ray_hat_price_count") == 2)
    wanted = {f'ray_shops_open{{WorkerId="{os.getpid()}"}} 3.0'}
    for pid in pids:
        wanted.add(f'ray_sold_hats_total{{WorkerId="{pid}",kind="top"}} 2.0')
        wanted.add(f'ray_hat_price_bucket{{WorkerId="{pid}",le="10"}} 1.0')
    eventually(lambda: wanted <= {*collected(port)[1].splitlines()})
    assert collected(port)[1].count("# TYPE ray_sold_hats_total counter\n") == 1


@skate.remote
def ports_of_a_worker(**settings: Any) -> tuple[int, str]:
    context = skate.init(ignore_reinit_error=True, **settings)
    return port_of(context), context.dashboard_url


@pytest.mark.parametrize("settings", [{"_metrics_export_port": 0}, {"dashboard": True}])
def test_workers_open_no_ports_of_their_own(port: int, settings: dict[str, Any]) -> None:
    assert skate.get(ports_of_a_worker.remote(**settings)) == (-1, "")


def test_a_process_that_is_gone_is_left_out(port: int) -> None:
    till = Till.remote()
    pid = skate.get(till.sell.remote("cap"))
    eventually(lambda: f'"{pid}"' in collected(port)[1])
    skate.kill(till)
    eventually(lambda: f'"{pid}"' not in collected(port)[1])


def test_a_process_that_cannot_tell_hides_no_others(port: int) -> None:
    Gauge("shops_shut").set(1)
    till = Till.remote()
    skate.get(till.tell_nothing.remote())
    eventually(lambda: "ray_shops_shut" in collected(port)[1])


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/metrics", "evil.example", 403), ("/other", "", 404), ("/metrics?x=1", "localhost:1", 200)],
)
def test_only_programs_of_this_machine_may_ask(
    port: int, path: str, host: str, status: int
) -> None:
    assert collected(port, path, host)[0] == status


def test_the_machine_tells_its_port(port: int) -> None:
    tell = skate.remote(lambda: skate.nodes()[0]["MetricsExportPort"])
    assert skate.nodes()[0]["MetricsExportPort"] == skate.get(tell.remote()) == port


def test_the_port_ends_with_the_session() -> None:
    port = port_of(skate.init(engine="inline", _metrics_export_port=0))
    assert skate.nodes()[0]["MetricsExportPort"] == port
    Gauge("shops_inline").set(1)
    assert "ray_shops_inline" in collected(port)[1]
    skate.shutdown()
    with pytest.raises(ConnectionRefusedError):
        collected(port)


def test_a_port_that_is_taken_is_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        context = skate.init(engine="inline", _metrics_export_port=number)
    assert port_of(context) == -1
    assert f"nobody can collect metrics on port {number}" in capfd.readouterr().err
    skate.shutdown()


def test_without_descriptors_who_asks_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    port = port_of(skate.init(engine="inline", _metrics_export_port=0))
    accept, tries = socket.socket.accept, []

    def no_room(listener: socket.socket) -> object:
        if listener.family != socket.AF_INET or listener.getsockname()[1] != port:
            return accept(listener)
        tries.append(listener)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as changed, socket.create_connection(("127.0.0.1", port)) as asking:
        changed.setattr(socket.socket, "accept", no_room)
        asking.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        time.sleep(0.3)  # in which a thread that does not wait tries a thousand times
        assert len(tries) < 100
        changed.undo()
        asking.settimeout(PATIENCE)
        assert asking.recv(15).endswith(b" 200 OK")
    skate.shutdown()


def test_no_name_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "a name server may take seconds"
    monkeypatch.setattr(socket, "getfqdn", lambda *host: pytest.fail(slow))
    skate.init(engine="inline", _metrics_export_port=0)
    skate.shutdown()


def test_without_the_parameter_there_is_no_port() -> None:
    assert port_of(skate.init(engine="inline")) == -1
    assert skate.nodes()[0]["MetricsExportPort"] == 0
    skate.shutdown()


@pytest.mark.parametrize("wrong", [-1, 65536, "9999", True])
def test_what_is_no_port_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="_metrics_export_port"):
        skate.init(engine="inline", _metrics_export_port=wrong)
    assert not skate.is_initialized()
