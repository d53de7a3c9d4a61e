"""Connections carried from one socket to another."""

from __future__ import annotations

import asyncio
import hashlib
import socket

from kuberay.engine.node.forward import Forwarder


def listening() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


async def dial(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


class TestForwarding:
    async def test_carries_everything_both_ways_to_the_end(self) -> None:
        sent = bytes(range(256)) * 40_000

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            digest = hashlib.sha256(await reader.read()).digest()  # the client has ended its direction
            writer.write(digest)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        listener = listening()
        async with server, Forwarder(listener, lambda: dial(port)):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(sent)
            writer.write_eof()
            assert await reader.read() == hashlib.sha256(sent).digest()
            writer.close()

    async def test_a_server_that_cannot_be_reached_closes_the_connection(self) -> None:
        async def refuse() -> socket.socket:
            raise ConnectionRefusedError

        listener = listening()
        async with Forwarder(listener, refuse):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            assert await reader.read() == b""
            writer.close()

    async def test_closing_cuts_what_is_open(self) -> None:
        held = listening()
        listener = listening()
        forwarder = Forwarder(listener, lambda: dial(held.getsockname()[1]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        accepted, _ = await asyncio.get_running_loop().sock_accept(held)
        await forwarder.close()
        assert await reader.read() == b""
        for sock in (accepted, held):
            sock.close()
        writer.close()
