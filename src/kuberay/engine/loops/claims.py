"""Keeps volume claims that Pods still use: one that is deleted goes when the last of them has ended.

The server gives every claim a finalizer; here is who takes it away.
"""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kuberay.api.core import Metadata, Slim
from kuberay.engine.loops.running import run_loop
from kuberay.kube.controller import Controller, itself
from kuberay.kube.errors import Conflict, NotFound
from kuberay.kube.identity import Key
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from kuberay.kube.client import Client

FINALIZER = "kubernetes.io/pvc-protection"


class ClaimReference(Slim, frozen=True, kw_only=True):
    claim_name: str = ""


class Volume(Slim, frozen=True, kw_only=True):
    persistent_volume_claim: ClaimReference | None = None


class PodSpec(Slim, frozen=True, kw_only=True):
    volumes: list[Volume] = []


class PodStatus(Slim, frozen=True, kw_only=True):
    phase: str = ""


class Pod(Slim, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Claim(Slim, frozen=True, kw_only=True):
    metadata: Metadata


class Claims:
    """Lets claims go that nobody uses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._claims: Store[Claim] = Store()
        self._pods: Store[Pod] = Store(indexes={"claim": _used})
        self._controller: Controller[Key] = Controller("claims", Queue(), self._reconcile)
        self._controller.watches(self._claims, itself)
        self._controller.watches(self._pods, lambda pod: [Key(pod.metadata.namespace, name) for name in _names(pod)])

    async def run(self) -> None:
        """Go on until cancelled."""
        claims = Informer(self._client, PERSISTENT_VOLUME_CLAIMS, self._claims, type=Claim)
        await run_loop(self._controller, claims, Informer(self._client, PODS, self._pods, type=Pod))

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if claim is None or claim.metadata.deletion_timestamp is None or FINALIZER not in claim.metadata.finalizers:
            return
        users = self._pods.by("claim", str(key))
        if any(pod.status.phase not in ("Succeeded", "Failed") for pod in users):
            return  # the end of each of them brings us back
        meta = claim.metadata
        left = [name for name in meta.finalizers if name != FINALIZER]
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left or None}}
        with suppress(NotFound, Conflict):  # gone or changed meanwhile: its event is on the way
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, meta.name, patch, namespace=meta.namespace)


def _names(pod: Pod) -> list[str]:
    claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [claim.claim_name for claim in claims if claim is not None]


def _used(pod: Pod) -> list[str]:
    return [str(Key(pod.metadata.namespace, name)) for name in _names(pod)]
