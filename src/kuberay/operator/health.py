"""Two addresses for whoever runs the operator: is the process alive, and has it caught up."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@asynccontextmanager
async def serving(address: str, not_ready: Callable[[], list[str]]) -> AsyncIterator[str]:
    """Serve `/healthz` and `/readyz` meanwhile; yields the address with the port that was taken.

    :param address: `host:port`; an empty host means every interface, port 0 any free one.
    :param not_ready: what the operator still waits for; nothing when it is ready.
    :raises ValueError: the address cannot be read.
    :raises OSError: it cannot be listened on.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        waiting = not_ready()
        return web.Response(status=503, text="\n".join(waiting)) if waiting else web.Response(text="ok")

    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"{address!r} is no address to listen on; host:port is wanted, such as 127.0.0.1:8082")
    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, int(port))
        await site.start()
        taken = runner.addresses[0]
        yield f"{taken[0]}:{taken[1]}"
    finally:
        await runner.cleanup()
