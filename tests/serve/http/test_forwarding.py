"""Requests that another process answers."""

from __future__ import annotations

from typing import Any

import pytest

from skate.serve._http import forwarding
from tests.serve.http.shared_port import (
    A,
    B,
    Reads,
    on_a_loop,
    shared_port,
)


@pytest.mark.parametrize("announced", [True, False])
def test_uploads_for_another_process_have_a_limit(
    announced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_LARGEST_BODY_BYTES", 100_000)
    body = 200_000 * b"x"

    async def pieces() -> Any:
        for _ in range(20):
            yield body[:10_000]

    @on_a_loop
    async def test() -> None:
        async with shared_port() as here, here.client() as client:
            await here.serve(Reads(A, "A"))
            here.owner.set_routes({"/a": A, "/b": B})
            assert (await client.get("/a")).text == "A"
            answer = await client.post("/b", content=body if announced else pieces())
            assert answer.status_code == 413
            assert "cannot go to another replica" in answer.json()["detail"]
            assert (await client.post("/a", content=body)).text == "A"

    test()
