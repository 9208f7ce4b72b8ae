"""The port outlives whoever opened it."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException

import skate
from skate import serve
from skate.serve._identity import CONTROLLER
from tests.serve.test_failures import kill_all, processes
from tests.support import eventually


@serve.deployment
async def hello() -> str:
    return "hello"


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return bool(response.read() == b"hello")
    except (OSError, HTTPException):  # refused, cut off, or too slow
        return False


def test_it_is_the_same_when_all_who_had_it_are_gone() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.bind())
        address = serve.http_address()
        eventually(lambda: answers(address))
        kill_all(CONTROLLER)
        kill_all("SERVE_REPLICA")
        eventually(lambda: answers(address))
        kill_all("SERVE_")  # and its memory
        serve.run(hello.bind())  # nobody remembers it
        eventually(lambda: answers(serve.http_address()))
    finally:
        skate.shutdown()


def test_a_route_may_come_later() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(http_options={"port": 0})
        serve.run(hello.bind(), route_prefix=None)
        (before,) = processes("SERVE_REPLICA")
        assert not answers(serve.http_address())
        serve.run(hello.bind(), route_prefix="/")
        eventually(lambda: answers(serve.http_address()))
        assert processes("SERVE_REPLICA") == [before]
    finally:
        skate.shutdown()
