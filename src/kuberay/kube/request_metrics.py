"""What requests to one API server cost, under the names that client-go gave them: `rest_client_*`.

Every request passes here, so labels are looked up once: what is counted again and again is an addition to something
that is at hand.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.kube import dialing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kuberay.kube.dialing import AddressInfo
    from kuberay.kube.errors import ApiError
    from kuberay.kube.metrics import Metrics
    from kuberay.kube.transport import Request, Response, Stream, Transport

_NO_ANSWER = "<error>"


@dataclass(frozen=True, slots=True)
class _OfVerb:
    took: Callable[[float], Any]
    sent: Callable[[float], Any]
    received: Callable[[float], Any]


class RequestMetrics:
    """Measures the requests to one server.

    :param host: of the server, with its port.
    """

    def __init__(self, metrics: Metrics, host: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._metrics = metrics
        self._host = host
        self._verbs: dict[str, _OfVerb] = {}
        self._answers: dict[tuple[str | int, str], Callable[[], Any]] = {}
        self._waits: dict[str, Callable[[float], Any]] = {}

    def answered(self, code: str | int, method: str) -> None:
        """A request came back with this code, or did not."""
        count = self._answers.get((code, method))
        if count is None:
            count = self._metrics.requests.labels(str(code), method, self._host).inc
            self._answers[code, method] = count
        count()

    def exchanged(self, method: str, seconds: float, sent: int, received: int | None) -> None:
        """A request took so long, and was so large; no answer has no size."""
        verb = self._verbs.get(method)
        if verb is None:
            each = (self._metrics.request_seconds, self._metrics.request_bytes, self._metrics.response_bytes)
            verb = self._verbs[method] = _OfVerb(*(family.labels(method, self._host).observe for family in each))
        verb.took(seconds)
        verb.sent(sent)
        if received is not None:
            verb.received(received)

    def waited(self, method: str, seconds: float) -> None:
        """A request was held back by our own limit; for no time, as a rule."""
        observe = self._waits.get(method)
        if observe is None:
            observe = self._waits[method] = self._metrics.limiter_seconds.labels(method, self._host).observe
        observe(seconds)

    def retried(self, request: Request, refused: ApiError) -> None:
        """A request is sent again because the server asked for it."""
        self._metrics.request_retries.labels(str(refused.status.code), request.method, self._host).inc()

    async def resolve(self, host: str, port: int) -> Sequence[AddressInfo]:
        """Look up a host's addresses, and tell how long that took."""
        began = self.clock()
        try:
            return await dialing.resolve(host, port)
        finally:
            self._metrics.dns_seconds.labels(host).observe(self.clock() - began)


class MeasuredTransport:
    """A transport that measures what passes; `<error>` is the code of what has no answer."""

    def __init__(self, transport: Transport, metrics: RequestMetrics) -> None:
        self._transport = transport
        self._metrics = metrics

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        began = self._metrics.clock()
        code: str | int = _NO_ANSWER
        size: int | None = None
        try:
            response = await self._transport.send(request, timeout=timeout)
            code, size = response.status, len(response.body)
            return response
        finally:
            self._metrics.answered(code, request.method)
            self._metrics.exchanged(request.method, self._metrics.clock() - began, len(request.body or b""), size)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """A watch is counted, but lasts as long as it likes: that is not what it costs."""
        code: str | int = _NO_ANSWER
        try:
            async with self._transport.stream(request) as stream:
                code = stream.status
                self._metrics.answered(code, request.method)
                yield stream
        finally:
            if code == _NO_ANSWER:
                self._metrics.answered(code, request.method)

    async def close(self) -> None:
        await self._transport.close()
