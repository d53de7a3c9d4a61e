"""A real helper process, and containers run with a line of shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.node import commands, images
from kuberay.engine.node.agent import NodeAgent
from kuberay.engine.node.errors import HelperGone
from kuberay.engine.node.remote import Command, Exit, Helper, MemoryVolume, Process
from kuberay.engine.streams import LogOptions
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import EVENTS, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kuberay.engine.node.helper.mounts import Mount

# The first process of a PID namespace does not die from signals that it does not handle.
IDLE = "trap 'exit 143' TERM; sleep 600 & wait"
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


@dataclass
class Container:
    """A started command and the pipe with what it prints."""

    process: Process
    _pipe: int

    async def output(self) -> str:
        """Everything it prints, once nobody holds its output open any more."""
        return (await asyncio.to_thread(_read_to_end, self._pipe)).decode()

    async def result(self) -> tuple[Exit, str]:
        output = await self.output()
        return await self.process.wait(), output

    async def line(self) -> str:
        """The next line it prints; for commands that go on."""
        return (await asyncio.to_thread(_read_line, self._pipe)).decode().strip()


@dataclass
class Sandboxes:
    """Makes sandboxes and containers in them."""

    helper: Helper
    folder: Path
    _count: int = 0
    _names: list[str] = field(default_factory=list)

    async def create(self, address: str = "10.244.0.5", memory: Sequence[MemoryVolume] = ()) -> str:
        name = f"sandbox-{address}"
        await self.helper.create_sandbox(name, address=address, hostname=f"pod-{len(self._names)}", memory=memory)
        self._names.append(name)
        return name

    async def start(
        self, sandbox: str, script: str, *, mounts: Sequence[Mount] = (), env: dict[str, str] = ENV, cwd: str = "/"
    ) -> Container:
        self._count += 1
        stage = self.folder / f"stage-{self._count}"
        stage.mkdir()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            process = await self.helper.start_container(
                sandbox,
                Command(["/bin/sh", "-c", script], env, cwd),
                stage=str(stage),
                mounts=mounts,
                stdio=(null, writing, writing),
            )
        finally:
            os.close(writing)
            os.close(null)
        return Container(process, reading)

    async def run(self, script: str, *, mounts: Sequence[Mount] = (), cwd: str = "/") -> tuple[Exit, str]:
        sandbox = self._names[0] if self._names else await self.create()
        return await (await self.start(sandbox, script, mounts=mounts, cwd=cwd)).result()


@pytest.fixture
async def helper() -> AsyncIterator[Helper]:
    started = await Helper.start()
    yield started
    await started.close()


@pytest.fixture
def sandboxes(helper: Helper, tmp_path: Path) -> Sandboxes:
    return Sandboxes(helper, tmp_path)


def _read_to_end(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as stream:
        return stream.read()


def _read_line(pipe: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (character := os.read(pipe, 1)):
        line += character
    return line


class Cluster:
    """An API server in this process with one node: what a test says to it, and what it waits for."""

    def __init__(self, helper: Helper, folder: Path) -> None:
        self.helper = helper
        self.folder = folder
        self.stop_seconds = 1.0
        self.storage = MemoryStorage()
        self.server = ApiServer(self.storage)
        self.client = Client(InProcessTransport(self.server))
        self.agent = self._new_agent()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self.agent.run())
        ready = asyncio.create_task(self.agent.ready())
        await asyncio.wait([self._task, ready], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        assert self._task
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, HelperGone):
            await self._task

    async def restart(self) -> None:
        """The engine ends and comes back: a new agent and a new helper on the same objects and folder."""
        await self.stop()
        await self.helper.close()
        self.helper = await Helper.start()
        self.agent = self._new_agent()
        await self.start()

    def _new_agent(self) -> NodeAgent:
        ray = images.RayEnvironment(Path(sys.prefix), "2.60.0")
        return NodeAgent(
            self.client,
            self.helper,
            self.folder,
            ray=ray,
            stop_seconds=self.stop_seconds,
            account_files=lambda namespace, account: {"token": f"{account} of {namespace}".encode()},
        )

    async def run(self, name: str, script: str = IDLE, **spec: Any) -> dict[str, Any]:
        """Create a Pod with one container that runs a line of shell. Parts of the container go by `container`."""
        container = {"name": "main", "image": "ray", "command": ["/bin/sh", "-c", script], **spec.pop("container", {})}
        return await self.create_pod(name, containers=[container], **spec)

    async def create_pod(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default", "labels": labels or {}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "local", **spec}}
        return await self.client.create(PODS, pod, namespace="default")

    async def pod(self, name: str) -> dict[str, Any]:
        return await self.client.get(PODS, name, namespace="default")

    async def until(self, name: str, claim: Callable[[dict[str, Any]], object], seconds: float = 15) -> dict[str, Any]:
        """Wait until a claim about a Pod holds."""
        found: dict[str, Any] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await self.pod(name)
            if claim(found):
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"still not so: {found.get('status')}")

    async def until_gone(self, name: str, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                await self.pod(name)
            except NotFound:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{name} is still there")

    async def logs(self, name: str, container: str = "main", **options: Any) -> str:
        chunks = self.agent.logs(await self.pod(name), container, LogOptions(**options))
        return b"".join([chunk async for chunk in chunks]).decode()

    async def output(self, name: str, container: str = "main") -> str:
        """Everything a container prints until it ends."""
        await self.until(
            name, lambda pod: state(pod, container).get("running") or state(pod, container).get("terminated")
        )
        return await self.logs(name, container, follow=True)

    async def execute(self, name: str, container: str, argv: list[str], seconds: float = 15) -> str:
        """What a command prints that runs beside a container's own."""
        runner = self.agent._runners[(await self.pod(name))["metadata"]["uid"]]
        live = runner._live[container]
        return (await commands.run(self.helper, live.process, live.beside(argv), timeout=seconds))[1]

    async def events(self, reason: str) -> list[str]:
        page = await self.client.list(EVENTS, namespace="default")
        return [event["note"] for event in page.items if event["reason"] == reason]

    async def until_event(self, reason: str, text: str = "", seconds: float = 15) -> str:
        """Wait for an event, and for one that has this text in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := [message for message in await self.events(reason) if text in message]:
                return found[0]
            await asyncio.sleep(0.02)
        raise AssertionError(f"no event {reason} {text}")

    async def until_printed(self, name: str, text: str, seconds: float = 15) -> None:
        async with asyncio.timeout(seconds):
            async for chunk in self.agent.logs(await self.pod(name), "main", LogOptions(follow=True)):
                if text in chunk.decode():
                    return


def container_status(pod: dict[str, Any], container: str = "main") -> dict[str, Any]:
    status = pod.get("status") or {}
    everybody = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((each for each in everybody if each["name"] == container), {})


def state(pod: dict[str, Any], container: str = "main") -> dict[str, Any]:
    found: dict[str, Any] = container_status(pod, container).get("state") or {}
    return found


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def phase(wanted: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: (pod.get("status") or {}).get("phase") == wanted


@pytest.fixture
async def cluster(helper: Helper, tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(helper, tmp_path / "pods")
    await made.start()
    yield made
    await made.stop()
    await made.helper.close()
