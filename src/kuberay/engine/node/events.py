"""Events about Pods, as a kubelet writes them: told once, counted when they repeat.

Writing them is nobody's first concern: they queue up behind a bound, and one that cannot be written is dropped.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from kuberay.engine.node.status import stamp
from kuberay.kube.errors import KubeError, NotFound
from kuberay.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kuberay.kube.client import Client

log = structlog.get_logger(__name__)

# The shape kubelets write, and `kubectl describe` reads.
CORE_EVENTS = Resource("", "v1", "events", "Event")
NORMAL, WARNING = "Normal", "Warning"
_QUEUED = 1000
_REMEMBERED = 2000
# A repeated event is counted at once, but written again only this often.
_REPEAT_SECONDS = 30.0


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    written_at: datetime
    first_at: datetime


class Recorder:
    """Records events about objects; `run` writes them."""

    def __init__(self, client: Client, *, node: str, now: Callable[[], datetime]) -> None:
        self._client = client
        self._node = node
        self._now = now
        self._queue: asyncio.Queue[tuple[dict[str, Any], bool]] = asyncio.Queue(_QUEUED)
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def record(self, pod: dict[str, Any], kind: str, reason: str, message: str, *, container: str = "") -> None:
        """Tell something about a Pod; returns at once."""
        metadata = pod["metadata"]
        about = f"{metadata['uid']} {container} {kind} {reason} {message}"
        now = self._now()
        told = self._told.get(about)
        if told:
            told.count += 1
            if (now - told.written_at).total_seconds() < _REPEAT_SECONDS:
                return
            told.written_at = now
        else:
            suffix = hashlib.sha256(f"{about} {now.timestamp()}".encode()).hexdigest()[:16]
            told = self._told[about] = _Told(f"{metadata['name']}.{suffix}", 1, now, now)
            if len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
        event = self._event(metadata, told, kind, reason, message, container)
        if self._queue.full():
            log.warning("event dropped: too many at once", reason=reason, pod=metadata["name"])
            return
        self._queue.put_nowait((event, told.count > 1))

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            event, repeated = await self._queue.get()
            try:
                await self._write(event, repeated=repeated)
            except KubeError as problem:
                log.warning("event not written", reason=event["reason"], why=str(problem))
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Wait until what was recorded is written."""
        await self._queue.join()

    async def _write(self, event: dict[str, Any], *, repeated: bool) -> None:
        name, namespace = event["metadata"]["name"], event["metadata"]["namespace"]
        if repeated:
            try:
                change = {"count": event["count"], "lastTimestamp": event["lastTimestamp"]}
                await self._client.patch(CORE_EVENTS, name, change, namespace=namespace)
                return
            except NotFound:  # it has expired meanwhile
                pass
        await self._client.create(CORE_EVENTS, event, namespace=namespace)

    def _event(
        self, metadata: dict[str, Any], told: _Told, kind: str, reason: str, message: str, container: str
    ) -> dict[str, Any]:
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        }
        if container:
            about["fieldPath"] = f"spec.containers{{{container}}}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": told.name, "namespace": metadata["namespace"]},
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message,
            "count": told.count,
            "firstTimestamp": stamp(told.first_at),
            "lastTimestamp": stamp(told.written_at),
            "source": {"component": "kuberay-node", "host": self._node},
            "reportingComponent": "kuberay-node",
            "reportingInstance": self._node,
        }
