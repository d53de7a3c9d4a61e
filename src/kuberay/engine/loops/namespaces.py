"""Empties namespaces that are being deleted, and then lets them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.engine.loops.kinds import served_kinds
from kuberay.engine.loops.running import run_loop
from kuberay.kube.controller import Controller, Result, itself
from kuberay.kube.errors import Conflict, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.resources import NAMESPACES
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from kuberay.kube.client import Client
    from kuberay.kube.identity import Key
    from kuberay.kube.resources import Resource

FINALIZER = "kubernetes"
LOOK_AGAIN_SECONDS = 0.5
"""Between looks while something in a namespace still has to finish; nothing is looked at otherwise."""


class Namespaces:
    """Finishes the deletion of namespaces."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespaces: Store[dict[str, Any]] = Store()
        self._controller: Controller[Key] = Controller("namespaces", Queue(), self._reconcile)
        self._controller.watches(self._namespaces, itself)

    async def run(self) -> None:
        """Go on until cancelled."""
        await run_loop(self._controller, Informer(self._client, NAMESPACES, self._namespaces))

    async def _reconcile(self, key: Key) -> Result | None:
        namespace = self._namespaces.get(*key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return None
        left = 0
        for kind in await served_kinds(self._client):
            if kind.namespaced:
                left += await self._empty(kind, key.name)
        if left:
            return Result(requeue_after=LOOK_AGAIN_SECONDS)
        finalizers = [one for one in namespace.get("spec", {}).get("finalizers", ()) if one != FINALIZER]
        try:
            await self._client.replace(
                NAMESPACES, key.name, {**namespace, "spec": {"finalizers": finalizers}}, subresource="finalize"
            )
        except NotFound:
            pass
        except Conflict:
            return Result(requeue_after=LOOK_AGAIN_SECONDS)
        return None

    async def _empty(self, kind: Resource, namespace: str) -> int:
        """Delete all objects of a kind; how many were still there."""
        items = (await self._client.list(kind, namespace=namespace)).items
        for item in items:
            meta = item["metadata"]
            if "deletionTimestamp" not in meta:
                try:
                    await self._client.delete(kind, meta["name"], namespace=namespace, uid=meta["uid"])
                except (NotFound, Conflict):
                    continue  # gone, or another one by now: the next look tells
        return len(items)
