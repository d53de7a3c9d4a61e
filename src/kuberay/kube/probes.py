"""What kubelets and Prometheus ask of a controller process: is it alive, has it caught up, what does it measure.

Checks have names, as those of Kubernetes' own servers do: `/readyz` is all of them, `/readyz/caches` is one, and
`?verbose` tells them apart for people.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from kuberay.kube.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from kuberay.kube.metrics import Metrics


class ProbeServer:
    """Serves `/healthz`, `/readyz` and `/metrics`, each where it is wanted.

    :param live: named checks of whether the process is alive; a check answers what is wrong, or `None`.
    :param ready: named checks of whether it can do its work.
    :param metrics: what `/metrics` shows; without it there is no such path.
    """

    def __init__(
        self,
        *,
        live: Mapping[str, Callable[[], str | None]] | None = None,
        ready: Mapping[str, Callable[[], str | None]] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._app = web.Application()
        for path, checks in (("/healthz", live), ("/readyz", ready)):
            if checks is not None:
                self._add(path, checks)
        if metrics is not None:

            async def show(_: web.Request) -> web.Response:
                return web.Response(body=await metrics.render(), headers={"content-type": CONTENT_TYPE})

            self._app.router.add_get("/metrics", show)

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Answer meanwhile; yields the port, which may have been left to the system by asking for 0.

        :raises OSError: the address cannot be listened on.
        """
        runner = web.AppRunner(self._app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    def _add(self, path: str, checks: Mapping[str, Callable[[], str | None]]) -> None:
        async def all_of_them(request: web.Request) -> web.Response:
            left_out = request.query.getall("exclude", [])
            found = {name: check() for name, check in checks.items() if name not in left_out}
            problems = {name: problem for name, problem in found.items() if problem}
            if not problems and "verbose" not in request.query:
                return web.Response(text="ok")
            lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in found.items()]
            lines.append(f"{path[1:]} check {'failed' if problems else 'passed'}")
            return web.Response(status=503 if problems else 200, text="\n".join(lines) + "\n")

        async def one(request: web.Request) -> web.Response:
            check = checks.get(request.match_info["name"])
            if check is None:
                raise web.HTTPNotFound(text=f"there is no such check; there are {', '.join(checks) or 'none'}")
            problem = check()
            return web.Response(status=503, text=f"{problem}\n") if problem else web.Response(text="ok")

        self._app.router.add_get(path, all_of_them)
        self._app.router.add_get(path + "/{name}", one)
