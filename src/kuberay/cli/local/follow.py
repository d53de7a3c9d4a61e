"""Applying manifests to a fresh engine and following what becomes of them, until all is ready or something is wrong."""

from __future__ import annotations

import asyncio
import textwrap
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import orjson

from kuberay.cli.local import commands, progress
from kuberay.cli.local.apply import UnknownKind, apply
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, KubeError
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.kube.resources import EVENTS, PODS
from kuberay.kube.transport import Request
from kuberay.raydash import Dashboard, DashboardError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from kuberay.cli.manifests import Manifest
    from kuberay.engine.folder import DataFolder

LOOK_EVERY = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, in words, and whether it ended well."""

    ready: bool
    text: str


@asynccontextmanager
async def connect(folder: DataFolder) -> AsyncIterator[Client]:
    """A client of the engine that runs in a folder."""
    transport = HttpTransport(load(folder.kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


class Follower:
    """Applies manifests and shows progress.

    :param has_ended: tells whether the engine is gone, so that nobody waits for a dead one.
    """

    def __init__(self, folder: DataFolder, *, timeout: float, has_ended: Callable[[], bool]) -> None:
        self._folder = folder
        self._timeout = timeout
        self._has_ended = has_ended

    def run(self, manifests: list[Manifest]) -> Outcome:
        """Apply all or nothing, then follow.

        :raises click.ClickException: a manifest was refused (nothing was applied), or the engine ended.
        """
        return asyncio.run(self._run(manifests))

    async def _run(self, manifests: list[Manifest]) -> Outcome:
        async with connect(self._folder) as client:
            for dry_run in (True, False):  # nothing is applied unless everything would be
                for manifest in manifests:
                    await self._apply(client, manifest, dry_run=dry_run)
            started = time.monotonic()
            ready = await self._follow(client, deadline=started + self._timeout)
            return await self._summary(client, ready=ready, seconds=time.monotonic() - started)

    async def _apply(self, client: Client, manifest: Manifest, *, dry_run: bool) -> None:
        try:
            result = await apply(client, manifest.document, dry_run=dry_run)
        except (ApiError, UnknownKind) as refusal:
            raise click.ClickException(f"{manifest.file}:{manifest.line} {manifest.title}: {refusal}") from refusal
        if not dry_run:
            click.echo(f"{manifest.title} {result}")

    async def _follow(self, client: Client, *, deadline: float) -> bool:
        shown: dict[str, str] = {}
        heard: set[tuple[str, str]] = set()
        while True:
            if self._has_ended():
                raise click.ClickException(f"the engine ended unexpectedly. Its log: {self._folder.log}")
            clusters, pods = await self._look(client)
            warnings = await self._warnings(client)
            for name, doing in progress.table(clusters, pods, warnings):
                if shown.get(name) != doing:
                    shown[name] = doing
                    click.echo(f"  {name:<40} {doing}" if doing else name)
            waits = not all(progress.is_ready(cluster, pods) for cluster in clusters)
            if not waits and all(progress.is_settled(pod) for pod in progress.plain(clusters, pods)):
                return True
            for pod, container in progress.crash_loops(pods):
                if (which := (pod["metadata"]["uid"], container)) not in heard:
                    heard.add(which)
                    await self._show_end(client, pod, container)
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_EVERY)

    async def _show_end(self, client: Client, pod: Mapping[str, Any], container: str) -> None:
        """Print the last words of a container that will not come up."""
        where, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        path = PODS.path(namespace=where, name=name, subresource="log")
        query = (("container", container), ("previous", "true"), ("tailLines", "15"))
        try:
            words = (await client.send(Request("GET", path, query))).decode(errors="replace")
        except ApiError:
            return  # it never ran, so it has said nothing; why stands in the line above
        click.echo(
            f"\nThe last words of container {container} in {name}:\n{textwrap.indent(words.strip(), '  ')}\n", err=True
        )

    async def _look(self, client: Client) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        try:
            clusters = await client.list(RAY_CLUSTERS)
            pods = await client.list(PODS)
        except KubeError as problem:
            raise click.ClickException(
                f"the engine does not answer: {problem}. Its log: {self._folder.log}"
            ) from problem
        return clusters.items, pods.items

    async def _warnings(self, client: Client) -> dict[str, str]:
        """What the newest warnings say; none is no reason to stop."""
        try:
            return progress.newest_warnings((await client.list(EVENTS)).items)
        except KubeError:
            return {}

    async def _summary(self, client: Client, *, ready: bool, seconds: float) -> Outcome:
        clusters, pods = await self._look(client)
        lines = []
        if not ready:
            lines += [f"Not ready after {seconds:.0f} s, and still running. More: kubectl describe raycluster,pods", ""]
        elif clusters or pods:
            lines += [f"Ready in {seconds:.1f} s.", ""]
        else:
            lines += ["The engine runs; nothing is deployed in it yet.", ""]
        addresses = read_addresses(self._folder, clusters)
        first = next(iter(addresses.values()), None)
        for name, address in addresses.items():
            lines.append(f"  Dashboard   {address}   ({name}{await _nodes(address)})")
        lines.append(f"  kubectl     {commands.use_kubectl(self._folder)}")
        if first and ready:
            script = "import ray; ray.init(); print(ray.cluster_resources())"
            job = commands.ray("job", "submit", "--address", first, "--", "python", "-c", script)
            lines.append(f"  Run a job   {job}")
        elif not clusters:
            lines.append("  Deploy      kubectl apply -f FILE")
        stop = commands.kuberay("down", folder=self._folder)
        lines += ["  Look        kubectl get raycluster,pods,svc", f"  Stop        {stop}"]
        return Outcome(ready=ready, text="\n".join(lines))


def read_addresses(folder: DataFolder, clusters: list[dict[str, Any]]) -> dict[str, str]:
    """Where the dashboard of each of these clusters is reached, unless it is suspended: `namespace/name` to address."""
    try:
        addresses: dict[str, str] = orjson.loads(folder.addresses.read_bytes())
    except FileNotFoundError:
        return {}
    suspended = {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in clusters
        if each["spec"].get("suspend")
    }
    return {name: address for name, address in addresses.items() if name not in suspended}


async def _nodes(address: str) -> str:
    """What Ray itself says of the cluster, or nothing when it does not answer."""
    try:
        async with Dashboard(address) as dashboard:
            version, nodes = await dashboard.version(), await dashboard.nodes()
    except DashboardError:
        return ""
    return f", Ray {version}, {sum(node.is_alive for node in nodes)} nodes"
