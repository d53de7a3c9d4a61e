"""A limit on how fast one process asks its server: KubeRay's `--qps` and `--burst`.

Off unless asked for. API servers share out their time among clients by themselves, and know their load better than a
number in a manifest does.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kuberay.kube.request_metrics import RequestMetrics
    from kuberay.kube.transport import Request, Response, Stream, Transport


class TokenBucket:
    """Lets `burst` through at once and then `rate` a second, in the order of asking."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a limit needs a rate above 0 and a burst of at least 1, not {rate:g} and {burst}")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def take(self) -> float:
        """Take a token that may not be there yet; the seconds until it is."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._tokens / self._rate)

    def give_back(self) -> None:
        """Return a token that was taken and not used."""
        self._tokens += 1


class LimitedTransport:
    """A transport that waits its turn before it sends anything.

    :param metrics: where to tell how long that took.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        qps: float,
        burst: int,
        metrics: RequestMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._bucket = TokenBucket(qps, burst, clock=clock)
        self._metrics = metrics
        self._sleep = sleep

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        await self._turn(request.method)
        return await self._transport.send(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await self._turn(request.method)
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()

    async def _turn(self, method: str) -> None:
        wait = self._bucket.take()
        if self._metrics is not None:
            self._metrics.waited(method, wait)
        if wait:
            try:
                await self._sleep(wait)
            except asyncio.CancelledError:
                self._bucket.give_back()
                raise
