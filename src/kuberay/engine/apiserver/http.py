"""The API server over HTTPS: sockets, tokens and streams; what is answered is decided by `ApiServer`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from aiohttp import web

from kuberay.engine.apiserver import answers, bodies
from kuberay.engine.apiserver.answers import StreamAnswer
from kuberay.engine.apiserver.server import User
from kuberay.kube.errors import Unauthorized
from kuberay.kube.transport import Request, Response

if TYPE_CHECKING:
    import socket
    import ssl

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter

    from kuberay.engine.apiserver.credentials import Tokens
    from kuberay.engine.apiserver.server import ApiServer

_OPEN_TO_ALL = ("/healthz", "/livez", "/readyz", "/version")
_ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_STOP_SECONDS = 2.0


class HttpFront:
    """Serves an `ApiServer` on listening sockets, which may have been made in another network namespace."""

    def __init__(self, server: ApiServer, tokens: Tokens, tls: ssl.SSLContext | None) -> None:
        """:param tls: `None` serves plain HTTP, which real clients refuse to send tokens over; for tests only."""
        self._server = server
        self._tokens = tokens
        self._tls = tls
        self._connections = web.Server(
            self._serve, request_factory=_request, handler_cancellation=True, access_log=None
        )
        self._listeners: list[asyncio.Server] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def serve(self, listening: socket.socket) -> None:
        """Answer on a socket that listens already; returns at once. The socket is closed by `stop`."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_server(self._connections, sock=listening, ssl=self._tls))

    async def stop(self) -> None:
        """Stop listening, end watches and followed logs, and let requests under way finish."""
        self._is_stopping = True
        for listener in self._listeners:
            listener.close()
        for pump in self._pumps:
            pump.cancel()
        await self._connections.shutdown(_STOP_SECONDS)

    async def _serve(self, incoming: web.BaseRequest) -> web.StreamResponse:
        path = incoming.rel_url.raw_path
        user = self._tokens.user_of(incoming.headers.get("Authorization", ""))
        if user is None and path.rstrip("/") not in _OPEN_TO_ALL:
            return _whole(answers.refusal(Unauthorized("Unauthorized")))
        if incoming.headers.get("Expect", "").lower() == "100-continue":
            incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[union-attr]
        request = Request(
            incoming.method,
            path,
            tuple(parse_qsl(incoming.rel_url.raw_query_string, keep_blank_values=True)),
            {name.lower(): value for name, value in incoming.headers.items()},
            await incoming.read() if incoming.can_read_body else None,
        )
        answer = await self._server.handle(request, user or _ANONYMOUS)
        if isinstance(answer, StreamAnswer):
            return await self._streamed(incoming, answer)
        return _whole(answer)

    async def _streamed(self, incoming: web.BaseRequest, answer: StreamAnswer) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        await response.prepare(incoming)
        pump = asyncio.create_task(_pump(answer, response))
        self._pumps.add(pump)
        try:
            await pump
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
        except ConnectionError:
            pass
        finally:
            pump.cancel()
            self._pumps.discard(pump)
        return response


async def _pump(answer: StreamAnswer, response: web.StreamResponse) -> None:
    try:
        async for chunk in answer.chunks():
            await response.write(chunk)
    finally:
        await answer.close()


def _request(
    message: Any,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Requests with room for the largest body that is read; what is larger is refused by the server, with a Status."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=2 * bodies.LIMIT)


def _whole(response: Response) -> web.Response:
    return web.Response(status=response.status, headers=response.headers, body=response.body)
