"""Operators as processes of their own, as they run in a cluster: by the command, with an account and its rights."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.kube.request import PatchType
from kuberay.kube.resources import SERVICE_ACCOUNTS, Resource
from kuberay.operator.install import NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from tests.control_plane import ControlPlane

KINDS = {
    "Namespace": Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    ),
    "Role": Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    "RoleBinding": Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    "Service": Resource("", "v1", "services", "Service"),
    "Deployment": Resource("apps", "v1", "deployments", "Deployment"),
}


async def install(client: Client, objects: Iterable[dict[str, Any]]) -> None:
    """Create or update the objects of an installation."""
    for each in objects:
        meta = each["metadata"]
        await client.patch(
            KINDS[each["kind"]],
            meta["name"],
            each,
            namespace=meta.get("namespace"),
            kind=PatchType.APPLY,
            field_manager="tests",
            force=True,
        )


async def account(plane: ControlPlane, client: Client, namespace: str, folder: Path) -> Path:
    """A kubeconfig file of the installed operator's account."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await client.create(SERVICE_ACCOUNTS, asked, namespace=namespace, name=NAME, subresource="token")
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    config["contexts"][0]["context"]["namespace"] = namespace
    file = folder / f"{namespace}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


class OperatorProcess:
    """A running operator; its log is read as it comes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[dict[str, Any]] = []
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def said(self, message: str) -> dict[str, Any]:
        """Wait for a line of the log."""
        async with asyncio.timeout(40):
            while True:
                for line in self.log:
                    if line.get("msg") == message:
                        return line
                assert self.process.returncode is None, self.log
                self._news.clear()
                await self._news.wait()

    async def ended(self) -> int:
        """Wait for its end; the exit code."""
        async with asyncio.timeout(45):
            code = await self.process.wait()
            await self._reading
            return code

    async def get(self, path: str, serving: str) -> tuple[int, str]:
        """Ask it for a path, at the address where it serves another one as well."""
        address = next(line["address"] for line in self.log if serving in line.get("paths", ""))
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
            return answer.status, await answer.text()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.log.append(json.loads(line))
            self._news.set()
        self._news.set()


@asynccontextmanager
async def process(kubeconfig: Path, *flags: str, **environment: str) -> AsyncIterator[OperatorProcess]:
    """An operator at work meanwhile."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kuberay.cli",
        "operator",
        f"--kubeconfig={kubeconfig}",
        "--metrics-addr=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        *flags,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )
    running = OperatorProcess(started)
    try:
        yield running
    finally:
        if started.returncode is None:
            started.terminate()
        await running.ended()


def connect(kubeconfig: Path) -> Client:
    """A client by a kubeconfig file."""
    return Client(HttpTransport(load(kubeconfig)))
