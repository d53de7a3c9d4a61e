"""A client of an API server inside the test, whose answers can be spoiled."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kuberay.api.crd import crd
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.kube.client import Client, Retry
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kuberay.kube.transport import Request, Response, Stream, Transport


class Meddler:
    """A transport that counts requests, and fails those that `fault` names: before they are sent, or after.

    `fault` gets the request and returns an exception, or a function from the true answer to what is handed over.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.writes: list[Request] = []
        self.reads: list[Request] = []
        self.streams: list[Request] = []
        self.before: Callable[[Request], Exception | None] = lambda _: None
        self.admit: Callable[[Request], Request] = lambda request: request
        """What is sent on in place of a request: here is where an admission webhook would be."""
        self.after: Callable[[Request], Exception | None] = lambda _: None

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        (self.reads if request.method == "GET" else self.writes).append(request)
        error = self.before(request)
        if error is not None:
            raise error
        answer = await self._inner.send(self.admit(request), timeout=timeout)
        error = self.after(request)
        if error is not None:
            raise error
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.streams.append(request)
        async with self._inner.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()


async def embedded() -> tuple[Client, Meddler]:
    """A client of a new server that knows RayClusters."""
    meddler = Meddler(InProcessTransport(ApiServer(MemoryStorage())))
    client = Client(meddler, retry=Retry(attempts=0))
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster", slim=True))
    return client, meddler
