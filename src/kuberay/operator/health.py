"""The addresses for whoever runs the operator: is the process alive, has it caught up, and what does it measure."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from kuberay.kube.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from kuberay.kube.metrics import Metrics

    Answer = Callable[[web.Request], Awaitable[web.Response]]


def probes(not_ready: Callable[[], list[str]]) -> dict[str, Answer]:
    """Answers for `/healthz` and `/readyz`, also under the paths of single checks that KubeRay has.

    :param not_ready: what the operator still waits for; nothing when it is ready.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        waiting = not_ready()
        return web.Response(status=503, text="\n".join(waiting)) if waiting else web.Response(text="ok")

    return {"/healthz": healthz, "/healthz/healthz": healthz, "/readyz": readyz, "/readyz/readyz": readyz}


def measurements(metrics: Metrics) -> dict[str, Answer]:
    """The answer for `/metrics`."""

    async def render(_: web.Request) -> web.Response:
        return web.Response(body=await metrics.render(), headers={"content-type": CONTENT_TYPE})

    return {"/metrics": render}


@asynccontextmanager
async def serving(address: str, answers: Mapping[str, Answer]) -> AsyncIterator[str]:
    """Serve paths meanwhile; yields the address with the port that was taken.

    :param address: `host:port`; an empty host means every interface, port 0 any free one.
    :raises ValueError: the address cannot be read.
    :raises OSError: it cannot be listened on.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address to listen on; host:port is wanted, such as 127.0.0.1:8082")
    app = web.Application()
    app.add_routes([web.get(path, answer) for path, answer in answers.items()])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host.strip("[]") or None, int(port))
        await site.start()
        taken = runner.addresses[0]
        yield f"{taken[0]}:{taken[1]}"
    finally:
        await runner.cleanup()
