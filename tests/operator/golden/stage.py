"""Playing the cases on an API server: all at once, each in a namespace of its own.

What nobody set up differently shares one operator; every other case has its own, set up by the flags, variables and
Configuration file of its record as a process would be.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kuberay.api.crd import crd
from kuberay.api.partial import PartialObject
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube import resources
from kuberay.kube.errors import AlreadyExists, ApiError, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.resources import EVENTS, PODS, Resource
from kuberay.kube.store import Store
from kuberay.operator.flags import parse
from kuberay.operator.main import run
from kuberay.operator.startup import prepare
from kuberay.sim.kubelet import FakeKubelet, Fate
from tests.operator.golden.normal_form import MADE, ROUTES, taken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kuberay.api.core import Pod
    from kuberay.kube.client import Client
    from kuberay.operator.settings import Settings
    from tests.operator.golden.records import Case

Json = dict[str, Any]

QUIET = 1.5
"""Seconds without a change after which a namespace has settled; longer than anything the operator waits for."""
LOOK = 0.1
AT_ONCE = 50
HEARING = 15.0
PATIENCE = 60.0
_NUMBERS = itertools.count(1)

_GIVEN = {
    each.kind: each
    for each in (
        *MADE,
        resources.CONFIG_MAPS,
        Resource("apps", "v1", "deployments", "Deployment"),
        Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    )
    if each != ROUTES
}


class Stage:
    """An API server with a kubelet, on which cases are played."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.kubelet = FakeKubelet(client, fate=self._fate, workers=32)
        self._cases: dict[str, Case] = {}
        self._ended: set[str] = set()
        self._changes: dict[str, int] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    async def play(self, cases: Iterable[Case]) -> dict[str, Json]:
        """The records of cases, by name. A case that could not be played has the reason under `trouble`."""
        cases = list(cases)
        await self._prepare()
        found: dict[str, Json] = {}
        async with asyncio.TaskGroup() as group:
            standing = [group.create_task(self.kubelet.run())]
            standing += [group.create_task(informer.run()) for informer in self._watch()]
            for is_default in (True, False):
                batch = {f"g-{next(_NUMBERS):05}": case for case in cases if case.is_default is is_default}
                for namespace in batch:  # names as long as `default`, because some names depend on it
                    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                    await self.client.create(resources.NAMESPACES, body)
                self._cases = batch
                async with AsyncExitStack() as stack:
                    if is_default:
                        await stack.enter_async_context(self._operating(settings(None)))
                    results = await asyncio.gather(*(self._play(*each) for each in batch.items()))
                found |= {case.name: result for case, result in zip(batch.values(), results, strict=True)}
                await asyncio.gather(*(self._clear(namespace) for namespace in batch))
            for task in standing:
                task.cancel()
        return found

    async def _play(self, namespace: str, case: Case) -> Json:
        try:
            async with self._room, asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
                if not case.is_default:
                    own = replace(settings(case), watch_namespaces=(namespace,))
                    await stack.enter_async_context(self._operating(own))
                return await self._perform(namespace, case)
        except (ApiError, TimeoutError, ValueError, ExceptionGroup) as error:
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            return {"trouble": f"{type(error).__name__}: {error}"}

    async def _perform(self, namespace: str, case: Case) -> Json:
        given: set[tuple[str, str]] = set()
        rejected: list[Json] = []
        for document in sorted(case.documents, key=lambda each: each["kind"] == "RayCluster"):
            given.add((document["kind"], document["metadata"]["name"]))
            group, _, version = document["apiVersion"].rpartition("/")
            resource = _GIVEN.get(document["kind"])
            if document["kind"] == "RayCluster":
                resource = Resource(group, version, "rayclusters", "RayCluster")
            if resource is None:
                continue
            place = namespace if resource.namespaced else None
            body = {**document, "metadata": {**document["metadata"], "namespace": place}}
            try:
                await self.client.create(resource, body, namespace=place)
            except (NotFound, AlreadyExists):
                continue  # a kind that this server does not serve, and the operator does not look at
            except ApiError as error:
                rejected.append({"code": error.status.code, "object": f"{document['kind']}/{body['metadata']['name']}"})
        await self._settled(namespace)
        for step in case.steps:
            await self._step(namespace, case, step)
            await self._settled(namespace)
        await self._heard(namespace, Counter(event["reason"] for event in case.record["events"]))
        found = await taken(self.client, namespace, given)
        return {**found, "rejected": rejected} if rejected else found

    async def _step(self, namespace: str, case: Case, step: str) -> None:
        (cluster,) = [each["metadata"]["name"] for each in case.documents if each["kind"] == "RayCluster"]
        match step.split(" ", 1):
            case ["delete"]:
                await self.client.delete(RAY_CLUSTERS, cluster, namespace=namespace)
            case ["patch", text]:
                await self.client.patch(RAY_CLUSTERS, cluster, json.loads(text), namespace=namespace)
            case ["pod", text]:
                group, _ = text.split()
                page = await self.client.list(PODS, namespace=namespace, labels=f"ray.io/group={group}")
                self._ended.add(min(page.items, key=lambda pod: str(pod["metadata"]["name"]))["metadata"]["uid"])
                self.kubelet.look_again()
            case _:
                raise ValueError(f"step {step!r} is not known")

    def _fate(self, pod: Pod) -> Fate:
        case = self._cases.get(pod.metadata.namespace)
        behaviour = case.kubelet.get(pod.metadata.labels.get("ray.io/group", ""), {}) if case is not None else {}
        if pod.metadata.uid in self._ended:
            return Fate.FAILED
        if behaviour.get("hold") or behaviour.get("unschedulable"):
            return Fate.UNSEEN
        if "waiting" in behaviour:
            return Fate.WAITING
        return Fate.UNREADY if behaviour.get("ready") is False else Fate.RUNNING

    # Waiting until nothing changes.

    def _watch(self) -> list[Informer[PartialObject]]:
        """Note when something in a namespace was last different."""

        def note(old: PartialObject | None, new: PartialObject | None) -> None:
            for obj in (old, new):
                if obj is not None:
                    self._changes[obj.metadata.namespace] = self._changes.get(obj.metadata.namespace, 0) + 1

        informers = []
        for resource in (RAY_CLUSTERS, EVENTS, *MADE):
            store: Store[PartialObject] = Store()
            store.on_change(note)
            informers.append(Informer(self.client, resource, store, type=PartialObject))
        return informers

    async def _settled(self, namespace: str) -> None:
        """Wait until nothing has changed for a while. Time that the machine is too busy to look does not count."""
        await self._reached(namespace)
        changes, looks = self._changes.get(namespace), 0
        while looks < QUIET / LOOK:
            await asyncio.sleep(LOOK)
            looks += 1
            if self._changes.get(namespace) != changes:
                changes, looks = self._changes.get(namespace), 0

    async def _reached(self, namespace: str) -> None:
        """Wait until the operator has come to the clusters of a namespace, if they are its own."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARING):
                while True:
                    page = await self.client.list(RAY_CLUSTERS, namespace=namespace)
                    waiting = [
                        each for each in page.items if each["spec"].get("managedBy") != "kueue.x-k8s.io/multikueue"
                    ]
                    if all(
                        each.get("status", {}).get("observedGeneration") == each["metadata"]["generation"]
                        for each in waiting
                    ):
                        return
                    await asyncio.sleep(2 * LOOK)

    async def _heard(self, namespace: str, reasons: Counter[str]) -> None:
        """Wait for what KubeRay told, or for long enough: events are sent when there is time for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARING):
                while True:
                    page = await self.client.list(EVENTS, namespace=namespace)
                    if reasons <= Counter(event["reason"] for event in page.items):
                        return
                    await asyncio.sleep(5 * LOOK)

    # Setting the stage.

    async def _prepare(self) -> None:
        for definition in (crd("RayCluster"), _stub(ROUTES)):
            with suppress(AlreadyExists):
                await self.client.create(resources.CUSTOM_RESOURCE_DEFINITIONS, definition)
        for resource in (RAY_CLUSTERS, ROUTES):
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await self.client.list(resource)
                    except NotFound:
                        await asyncio.sleep(0.05)
                    else:
                        break

    @asynccontextmanager
    async def _operating(self, settings: Settings) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run(self.client, settings, stop=stop))
            try:
                yield
            finally:
                stop.set()

    async def _clear(self, namespace: str) -> None:
        """Take everything away, so that no later operator meets it."""
        for each in (await self.client.list(RAY_CLUSTERS, namespace=namespace)).items:
            if each["metadata"].get("finalizers"):
                with suppress(NotFound):
                    await self.client.patch(
                        RAY_CLUSTERS, each["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace=namespace
                    )
        await self.client.delete(resources.NAMESPACES, namespace)


def settings(case: Case | None) -> Settings:
    """The settings of an operator process for a case; it hurries, because its Pods do."""
    flags = list(case.flags) if case is not None else []
    text = ""
    if case is not None and case.configuration is not None:
        header = {"apiVersion": "config.ray.io/v1alpha1", "kind": "Configuration"}
        text = json.dumps({**header, **case.configuration})
        flags.append("--config=told.json")
    startup = prepare(parse(flags), case.environment if case is not None else {}, lambda _: text)
    told = startup.settings
    is_openshift = case is not None and "openshift" in case.crds
    controllers = replace(told.controllers, replace_after=0.0, status_delay=0.05, is_openshift=is_openshift)
    return replace(told, health_address=None, metrics_address=None, controllers=controllers)


def _stub(resource: Resource) -> Json:
    """A CRD that takes anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }
