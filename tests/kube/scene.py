"""An informer against a server that says what it was told to say."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.kube.client import Client, Retry
from kuberay.kube.informer import Informer
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scripted import Answer, ScriptedTransport, query
from tests.kube.virtual_time import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.transport import Request


class Meta(msgspec.Struct, rename="camel", frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    phase: str = ""


def pod(name: str, version: int, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, **fields}


def listed(version: int, *pods: dict[str, Any], continue_: str = "") -> Answer:
    return Answer.json({"metadata": {"resourceVersion": str(version), "continue": continue_}, "items": list(pods)})


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def end_of_list(version: int) -> bytes:
    meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return event("BOOKMARK", {"metadata": meta})


EXPIRED = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


AHEAD = Answer.json(
    {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
    },
    504,
)


def forever() -> asyncio.Event:
    """A part of a stream after which nothing comes."""
    return asyncio.Event()


def later(go_on: asyncio.Event, answer: Answer) -> Answer:
    """The same answer, once it may come."""
    assert isinstance(answer.body, bytes)
    return replace(answer, body=[go_on, answer.body])


class Scene:
    """An informer against a script. When the script has ended, watches are silent."""

    def __init__(
        self, *answers: Answer | Exception, streamed: bool = False, type: type[Pod] = Pod, **options: Any
    ) -> None:
        script = iter(answers)

        def answer(request: Request) -> Answer | Exception:
            self.times.append(clock())
            return next(script, Answer(body=[forever()]))

        self.times: list[float] = []
        self.transport = ScriptedTransport(answer)
        self.store: Store[Pod] = Store()
        self.changes: list[tuple[str | None, str | None]] = []
        self.store.on_change(lambda old, new: self.changes.append((version_of(old), version_of(new))))
        self.informer = Informer(
            Client(self.transport, retry=Retry(attempts=0), streamed_lists=streamed),
            PODS,
            self.store,
            type=type,
            clock=clock,
            rng=lambda: 1.0,
            **options,
        )

    @property
    def asked(self) -> list[str]:
        """What was asked of the server: lists with the version that was good enough, watches with where they began."""
        return [_asked(query(each)) for each in self.transport.requests]

    @property
    def names(self) -> list[str]:
        return sorted(each.metadata.name for each in self.store)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.informer.run())
        yield
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert self.transport.open_streams == 0

    async def run(self, seconds: float) -> None:
        async with self.running():
            await asyncio.sleep(seconds)


def _asked(parameters: dict[str, str]) -> str:
    version = f" {parameters['resourceVersion']}" if "resourceVersion" in parameters else ""
    if "watch" in parameters and "sendInitialEvents" not in parameters:
        return f"watch{version}"
    if version or "watch" in parameters:
        assert parameters["resourceVersionMatch"] == "NotOlderThan"
    return ("stream" if "watch" in parameters else "list") + version


def version_of(obj: Pod | None) -> str | None:
    return None if obj is None else obj.metadata.resource_version
