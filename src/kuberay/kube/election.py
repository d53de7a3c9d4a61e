"""One leader among several processes, by a Lease that has to be renewed.

Whoever holds the Lease renews it every two seconds or so. Others may take it when it has not been renewed for fifteen,
as seen by their own clock: clocks of different machines are never compared. A holder that could not renew for ten
seconds considers it lost; the five seconds between are the margin in which it must have stopped.

It is written whole, with the version that was read: who was faster by a moment makes the write fail, and what others
keep in the Lease stays. A patch would do the same, but is not among the rights on Leases that operators usually have.

`holds` is a question to the clock, not a flag: a process that was frozen and wakes up knows at once that it has lost,
before anything of it has run.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, TransportError
from kuberay.kube.patches import merge_patch
from kuberay.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kuberay.kube.client import Client
    from kuberay.kube.transport import Request, Response, Stream, Transport

log = structlog.get_logger(__name__)


class LeaseLost(Exception):
    """This process does not lead any more. It must stop, and may not go on without asking again."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """The seconds of an election; the same for all who take part."""

    duration: float = 15.0
    """After so long without renewal others may take the Lease."""
    renew_deadline: float = 10.0
    """After so long without renewal its holder gives up."""
    retry: float = 2.0
    """Between two attempts to take or renew it; jitter makes it up to 2.2 times as long while waiting for one."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry > 0:
            raise ValueError(
                f"a lease of {self.duration:g} s must outlast its renew deadline ({self.renew_deadline:g} s), "
                f"and that the time between two attempts ({self.retry:g} s)"
            )


class Elector:
    """Takes part in one election: `acquire`, then `keep` until it fails or is cancelled, then `release`.

    :param client: one of its own, so that no other request keeps a renewal waiting; its own retries must be off.
    :param identity: of this process, unlike that of any other, such as the Pod's name and a random part.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        if not identity:
            raise ValueError("an elector needs an identity")
        self.name = name
        self.identity = identity
        self.holder = ""
        """Who was last seen to hold the Lease."""
        self.resource_version = ""
        """Of the last write of ours; what was done before us has an older one."""
        self.timing = timing or LeaseTiming()
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._rng = rng
        self._lease: dict[str, Any] | None = None
        self._must_look = True
        self._is_unanswered = False
        self._seen_at = 0.0
        self._renewed_at = float("-inf")
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def holds(self) -> bool:
        """Whether this process may act as the leader at this very moment."""
        return self._left > 0

    @property
    def _left(self) -> float:
        """Seconds until it is lost, if it is not renewed."""
        return self._renewed_at + self.timing.renew_deadline - self._clock()

    async def acquire(self) -> None:
        """Wait until the Lease is ours. Failures are waited out."""
        said = ""
        while True:
            try:
                async with asyncio.timeout(self.timing.renew_deadline):
                    if await self._attempt():
                        self._log.info("took the lease")
                        return
                state = f"held by {self.holder!r}"
                tell = self._log.info
            except (KubeError, TimeoutError) as error:
                state = f"cannot be read or written: {self._explain(error)}"
                tell = self._log.error
            if state != said:
                tell("waiting for the lease", state=state)
                said = state
            await self._sleep(self.timing.retry * (1 + 1.2 * self._rng()))

    async def keep(self) -> None:
        """Renew until that fails for too long.

        :raises LeaseLost: always, in the end.
        """
        while True:
            await self._sleep(min(self.timing.retry, max(self._left, 0.0)))
            if not self.holds:
                self._renewed_at = float("-inf")
                raise LeaseLost(f"the lease was not renewed for {self.timing.renew_deadline:g} s")
            try:
                async with asyncio.timeout(self._left):
                    if not await self._attempt():
                        self._renewed_at = float("-inf")
                        raise LeaseLost(f"the lease was taken by {self.holder!r}")
            except (KubeError, TimeoutError) as error:
                self._must_look = True  # it may have been written all the same
                self._log.warning("the lease could not be renewed", error=self._explain(error))

    async def release(self) -> None:
        """Let others have the Lease at once. Does nothing when it is not ours; a failure only makes them wait."""
        was_held, self._renewed_at = self.holds, float("-inf")
        if not was_held and not self._is_unanswered:
            return
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": self._time()}
        try:
            async with asyncio.timeout(self.timing.retry):
                if not was_held:
                    await self._look()  # what was to take it may have been taken
                    if self.holder != self.identity:
                        return
                try:
                    await self._write(spec)
                except Conflict:
                    await self._look()  # a renewal that was cut short may have been taken after all
                    if self.holder != self.identity:
                        raise
                    await self._write(spec)
        except (KubeError, TimeoutError) as error:
            self._log.info("the lease was not released; it will run out", error=self._explain(error))
        else:
            self._log.info("released the lease")

    async def _attempt(self) -> bool:
        """Take or renew the Lease, if it is free or ours."""
        began = self._clock()  # the others may count from before our write is answered
        if self._must_look or not self.holds:
            await self._look()
        spec = (self._lease or {}).get("spec") or {}
        lasts = spec.get("leaseDurationSeconds") or self.timing.duration
        if self.holder and self.holder != self.identity and self._clock() < self._seen_at + lasts:
            return False
        wanted: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self.timing.duration) or 1,
            "renewTime": self._time(),
        }
        if self.holder != self.identity:
            wanted["acquireTime"] = wanted["renewTime"]
            wanted["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + (1 if self._lease is not None else 0)
        self._is_unanswered = True
        try:
            await self._write(wanted)
        except (AlreadyExists, Conflict, NotFound):
            await self._look()  # somebody was faster, or an earlier write of ours was taken after all
            if self.holder not in ("", self.identity):
                return False
            await self._write(wanted)
        self._renewed_at = began
        self._must_look = self._is_unanswered = False
        return True

    async def _look(self) -> None:
        try:
            found = await self._client.get(LEASES, self.name, namespace=self._namespace)
        except NotFound:
            found = None
        self._observe(found)

    async def _write(self, spec: dict[str, Any]) -> None:
        if self._lease is None:
            meta = {"name": self.name, "namespace": self._namespace}
            body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta, "spec": spec}
            written = await self._client.create(LEASES, body, namespace=self._namespace)
        else:
            body = merge_patch(self._lease, {"spec": spec})
            written = await self._client.replace(LEASES, self.name, body, namespace=self._namespace)
        self.resource_version = written["metadata"]["resourceVersion"]
        self._observe(written)

    def _observe(self, lease: dict[str, Any] | None) -> None:
        if lease is None or self._lease is None or lease.get("spec") != self._lease.get("spec"):
            self._seen_at = self._clock()
        self._lease = lease
        self.holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""

    def _explain(self, error: KubeError | TimeoutError) -> str:
        if isinstance(error, Forbidden):
            return (
                f"the account needs the verbs get, create and update on {LEASES.name} in namespace "
                f"{self._namespace!r}; the server says: {error}"
            )
        return str(error) or "no answer in time"

    def _time(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class LeaderOnly:
    """A transport that writes nothing once this process does not lead: the last line against two leaders."""

    def __init__(self, transport: Transport, holds: Callable[[], bool]) -> None:
        self._transport = transport
        self._holds = holds

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if request.method != "GET" and not self._holds():
            raise TransportError(f"{request.method} {request.path}: not sent, for this process does not lead")
        return await self._transport.send(request, timeout=timeout)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._transport.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._transport.close()
