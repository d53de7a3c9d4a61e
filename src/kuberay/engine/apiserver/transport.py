"""Talking to the API server inside its own process: the same requests and answers as over HTTPS, without the wire."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kuberay.engine.apiserver.server import ADMIN, ApiServer, User
from kuberay.kube.errors import TransportError
from kuberay.kube.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kuberay.engine.apiserver.answers import StreamAnswer
    from kuberay.kube.transport import Stream


class InProcessTransport:
    """`kube.transport.Transport` over an `ApiServer`. What is sent has been encoded: nothing is shared but bytes."""

    def __init__(self, server: ApiServer, *, user: User = ADMIN) -> None:
        self._server = server
        self._user = user
        self._is_closed = False

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        try:
            async with asyncio.timeout(timeout):
                answer = await self._handle(request)
                if isinstance(answer, Response):
                    return answer
                return Response(answer.status, answer.headers, await answer.read())
        except TimeoutError as error:
            raise TransportError(f"{request.method} {request.path}: no answer in {timeout} s") from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        answer = await self._handle(request)
        if isinstance(answer, Response):
            yield StreamedResponse(answer)
            return
        try:
            yield answer
        finally:
            await answer.close()

    async def close(self) -> None:
        self._is_closed = True

    async def _handle(self, request: Request) -> Response | StreamAnswer:
        if self._is_closed:
            raise TransportError("the transport is closed")
        lowered = {name.lower(): value for name, value in request.headers.items()}
        return await self._server.handle(
            Request(request.method, request.path, request.query, lowered, request.body), self._user
        )


class StreamedResponse:
    """A whole answer where a stream was asked for: a refusal, mostly."""

    def __init__(self, response: Response) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        self._body = response.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body
