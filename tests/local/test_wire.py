"""Frames on stream sockets: split anywhere, whole and in order."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from skate.engine.local import wire
from skate.engine.local.wire import Connection, Message


@pytest.fixture
def pair() -> Iterator[tuple[Connection, Connection]]:
    left, right = (Connection(end) for end in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def frames(pair: tuple[Connection, Connection], *batches: list[Message]) -> bytes:
    """The bytes of these frames."""
    left, right = pair
    for batch in batches:
        left.outbox = list(batch)
        assert left.flush()
    return right.socket.recv(1 << 20)


def drain(connection: Connection) -> list[Message]:
    messages: list[Message] = []
    while received := connection.receive():
        messages += received
    return messages


def test_messages_arrive_as_they_were_sent(pair: tuple[Connection, Connection]) -> None:
    left, right = pair
    left.outbox = [(1, b"x", "y", None, 2.5, (True, [3])), (1 << 90, {"k": (b"",)})]
    sent = list(left.outbox)
    assert left.flush()
    assert left.outbox == []
    assert right.receive() == sent
    assert right.receive() == []


def test_frames_split_at_every_byte(pair: tuple[Connection, Connection]) -> None:
    batches: list[list[Message]] = [[(1, b"abc")], [(2,), (3, "x" * 20)]]
    data = frames(pair, *batches)
    left, right = pair
    for cut in range(len(data) + 1):
        received: list[Message] = []
        for part in (data[:cut], data[cut:]):
            if part:
                left.socket.send(part)
                received += right.receive() or []
        assert received == [(1, b"abc"), (2,), (3, "x" * 20)], cut


def test_frames_byte_by_byte(pair: tuple[Connection, Connection]) -> None:
    data = frames(pair, [(1, b"abc")], [(2,)])
    left, right = pair
    received: list[Message] = []
    for position in range(len(data)):
        left.socket.send(data[position : position + 1])
        received += right.receive() or []
    assert received == [(1, b"abc"), (2,)]


def test_a_frame_and_a_part_of_the_next(pair: tuple[Connection, Connection]) -> None:
    data = frames(pair, [(1,)], [(2,)])
    left, right = pair
    left.socket.send(data[:-1])
    assert right.receive() == [(1,)]
    left.socket.send(data[-1:])
    assert right.receive() == [(2,)]


def test_a_message_larger_than_all_buffers(pair: tuple[Connection, Connection]) -> None:
    left, right = pair
    large = bytes(range(256)) * 8192  # 2 MiB
    left.outbox.append((1, large))
    received: list[Message] = []
    while not left.flush() or not received:
        received += drain(right)
    assert received == [(1, large)]


def test_a_full_socket_keeps_order_and_loses_nothing(pair: tuple[Connection, Connection]) -> None:
    left, right = pair
    count, full = 0, 0
    while full < 5:
        left.outbox.append((count, b"x" * 10_000))
        count += 1
        full += not left.flush()
    received: list[Message] = []
    while not left.flush():
        received += right.receive() or []
    received += drain(right)
    assert [number for number, _ in received] == list(range(count))
    assert all(data == b"x" * 10_000 for _, data in received)


def test_many_threads_may_flush(pair: tuple[Connection, Connection]) -> None:
    left, right = pair
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            left.flush()

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    received: list[Message] = []
    for number in range(500):
        left.outbox.append((number, b"y" * 5_000))
        received += right.receive() or []
    while len(received) < 500:
        received += right.receive() or []
    done.set()
    for thread in threads:
        thread.join()
    assert [number for number, _ in received] == list(range(500))


def test_the_end_of_the_peer_comes_after_what_it_said(
    pair: tuple[Connection, Connection],
) -> None:
    left, right = pair
    left.outbox.append((1,))
    left.flush()
    left.close()
    assert right.receive() == [(1,)]
    assert right.receive() is None


def test_writing_to_a_dead_peer_is_no_error(pair: tuple[Connection, Connection]) -> None:
    left, right = pair
    right.close()
    left.outbox.append((1, b"x" * 1_000_000))
    assert left.flush()
    assert left.receive() is None


def test_a_closed_connection_takes_and_forgets_messages(
    pair: tuple[Connection, Connection],
) -> None:
    left, _ = pair
    left.close()
    left.outbox.append((1,))
    assert left.flush()
    assert left.outbox == []


def test_all_that_a_dead_peer_said_can_be_read(
    pair: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what comes in more parts than one: the socket's buffer may exceed ours."""
    monkeypatch.setattr(wire, "_buffer", memoryview(bytearray(1000)))
    left, right = pair
    sent: list[list[Message]] = [[(1, b"x" * 5000)], [(2,), (3,)], [(4, b"y" * 3000)]]
    for batch in sent:
        left.outbox = list(batch)
        assert left.flush()
    left.socket.send(b"\x09\0")  # it died while it wrote the next one
    left.close()
    assert [m for received in right.drain() for m in received] == [m for b in sent for m in b]


def test_reading_what_is_there_does_not_wait_for_the_end(
    pair: tuple[Connection, Connection],
) -> None:
    left, right = pair
    left.outbox = [(1,)]
    left.flush()
    assert list(right.drain()) == [[(1,)]]
    assert list(right.drain()) == []
