"""Messages with descriptors over a Unix socket."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.node.channel import Channel, Disconnected

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = (Channel(sock) for sock in socket.socketpair())
    one.socket.setblocking(False)
    yield one, other
    one.close()
    other.close()


def received(channel: Channel, count: int) -> list[tuple[dict[str, object], list[int]]]:
    found: list[tuple[dict[str, object], list[int]]] = []
    while len(found) < count:
        found += channel.receive()
    return found


def test_messages_keep_their_order_and_their_descriptors(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    reading, writing = os.pipe()
    one.send({"n": 1})
    one.send({"n": 2}, [writing])
    one.send({"n": 3})
    os.close(writing)
    messages = received(other, 3)
    assert [message["n"] for message, _ in messages] == [1, 2, 3]
    (descriptor,) = messages[1][1]
    os.write(descriptor, b"through")
    os.close(descriptor)
    assert os.read(reading, 100) == b"through"
    assert os.read(reading, 100) == b""  # no copy was left open on the way
    os.close(reading)


def test_a_message_larger_than_the_socket_takes_is_sent_in_pieces(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    text = "x" * 3_000_000
    one.send({"text": text})
    assert one.has_unsent
    found: list[tuple[dict[str, object], list[int]]] = []
    while not found:
        found = other.receive()
        one.flush()
    assert found[0][0] == {"text": text}
    assert not one.has_unsent


def test_the_end_of_the_other_side_is_noticed(ends: tuple[Channel, Channel]) -> None:
    one, other = ends
    other.socket.close()
    with pytest.raises(Disconnected):
        one.receive()
    with pytest.raises(Disconnected):
        one.send({"n": 1})
