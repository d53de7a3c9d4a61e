"""Connections of this machine carried into the Pods' network, or anywhere else a dialler reaches.

The same splice serves a dashboard on 127.0.0.1 and a ClusterIP Service.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_CHUNK = 1 << 18
_REFUSAL_SECONDS = 5.0


class Forwarder:
    """Accepts connections on a listening socket and splices each to one that `dial` makes.

    A dial that fails closes the connection: that is what a client of a dead server expects to see.

    :param refusal: what a client is told that shall not be carried anywhere; `None` for one that shall. It is asked in
        a thread, before anything is dialled.
    """

    def __init__(
        self,
        listener: socket.socket,
        dial: Callable[[], Awaitable[socket.socket]],
        *,
        refusal: Callable[[socket.socket], bytes | None] | None = None,
    ) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._dial = dial
        self._refusal = refusal
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="forward")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and cut every connection."""
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError:  # the client is gone already, or we are out of descriptors: both pass
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._serve(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, client: socket.socket) -> None:
        with client:
            client.setblocking(False)
            if self._refusal and (answer := await asyncio.to_thread(self._refusal, client)) is not None:
                await _refuse(client, answer)
                return
            try:
                server = await self._dial()
            except (OSError, TimeoutError):
                return
            with server:
                await splice(client, server)


async def _refuse(client: socket.socket, answer: bytes) -> None:
    """Answer, then take in what the client still sends: closing on unread bytes would reset the answer away."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            await loop.sock_sendall(client, answer)
            client.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(client, _CHUNK):
                pass


async def splice(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both directions have ended; a half-closed connection stays half open."""
    async with asyncio.TaskGroup() as directions:
        directions.create_task(_carry(one, other))
        directions.create_task(_carry(other, one))


async def _carry(source: socket.socket, target: socket.socket) -> None:
    """Carry one direction to its end; a broken side ends it like a closed one."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(source, _CHUNK):
            await loop.sock_sendall(target, data)
    for side, direction in ((source, socket.SHUT_RD), (target, socket.SHUT_WR)):
        with contextlib.suppress(OSError):
            side.shutdown(direction)
