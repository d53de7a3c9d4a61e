"""Clusters that KubeRay's own operator left behind are taken over as they are, and then obey.

The objects are loaded with their uids, which only the storage of the embedded API server allows: an API server gives
out its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api import structural
from kuberay.api.crd import crd
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.apiserver.builtin import builtin_kinds
from kuberay.engine.loops import GarbageCollector, Namespaces
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS, NAMESPACES, PODS
from kuberay.sim.kubelet import FakeKubelet
from tests.controllers.embedded import Meddler
from tests.operator.world import World, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.transport import Request

UPSTREAM = Path(__file__).parents[2] / ".." / "shared" / "upstream" / "made-by-go"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's clusters (../shared/upstream) are not on this machine"),
]

Json = dict[str, Any]
LEFT = sorted(UPSTREAM.glob("*/*.json"))
QUIET = 20
"""Looks, one every 50 ms, in which nothing was written."""


def name_of(file: Path) -> str:
    return f"{file.parent.name}-{file.stem}"


class Takeover:
    """A server with what was left on it, and an operator that comes to it."""

    def __init__(self, meddler: Meddler, world: World, record: Json) -> None:
        self._meddler = meddler
        self.world = world
        self.clusters = [each["metadata"]["name"] for each in record["objects"] if each["kind"] == "RayCluster"]
        self.before = {each["metadata"]["uid"] for each in record["objects"] if each["kind"] == "Pod"}

    async def settles(self) -> list[Request]:
        """Wait until nothing is written any more; everything that was."""
        count, looks = -1, 0
        async with asyncio.timeout(30):
            while looks < QUIET:
                await asyncio.sleep(0.05)
                looks = looks + 1 if count == len(self.writes) else 0
                count = len(self.writes)
        return self.writes

    @property
    def writes(self) -> list[Request]:
        """All writes of the operator but for events."""
        return [each for each in self._meddler.writes if "/events" not in each.path]

    async def pods(self) -> set[str]:
        page = await self.world.client.list(PODS, namespace=self.world.namespace)
        return {each["metadata"]["uid"] for each in page.items}


@cache
def _spec_schema() -> Json:
    (version,) = [each for each in crd("RayCluster")["spec"]["versions"] if each["storage"]]
    schema: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


@asynccontextmanager
async def taken_over(record: Json) -> AsyncIterator[Takeover]:
    storage = MemoryStorage()
    transport = InProcessTransport(ApiServer(storage))
    user = Client(transport)
    await user.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster"))
    namespace = record["namespace"]
    await user.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    tables = {kind.resource.kind: kind.table for kind in builtin_kinds()} | {"RayCluster": "rayclusters.ray.io"}
    for obj in record["objects"]:
        stored: Json = json.loads(json.dumps(obj))
        if obj["kind"] == "RayCluster":
            # A real server fills in the defaults of its present CRD whenever it reads what it has stored.
            stored["spec"] = structural.defaulted(stored["spec"], _spec_schema())
        storage.put(tables[obj["kind"]], namespace, obj["metadata"]["name"], stored)
    meddler = Meddler(transport)
    kubelet = FakeKubelet(user, namespace=namespace)
    tasks = [asyncio.create_task(each.run()) for each in (GarbageCollector(user), Namespaces(user), kubelet)]
    try:
        async with operating(Client(meddler), namespace):
            yield Takeover(meddler, World(user, namespace, kubelet), record)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(params=LEFT, ids=name_of)
async def takeover(request: pytest.FixtureRequest) -> AsyncIterator[Takeover]:
    record: Json = json.loads(request.param.read_text())
    async with taken_over(record) as takeover:
        yield takeover


async def test_nothing_is_made_removed_or_started_anew(takeover: Takeover) -> None:
    writes = await takeover.settles()
    assert await takeover.pods() == takeover.before
    statuses = Counter(each.path for each in writes if each.path.endswith("/status"))
    assert all(count == 1 for count in statuses.values()), statuses
    others = [f"{each.method} {each.path}" for each in writes if not each.path.endswith("/status")]
    # A head of another operator version is marked as ours, so that it is not taken for outdated.
    refreshed = [each for each in others if each.startswith("PATCH") and "/pods/" in each and "-head" in each]
    assert others == refreshed
    assert len(refreshed) <= 1


async def test_they_scale_are_suspended_come_back_and_go(takeover: Takeover) -> None:
    await takeover.settles()
    world = takeover.world
    (name,) = takeover.clusters
    rc = await world.cluster(name)
    if rc.spec.suspend:
        await world.patch({"spec": {"suspend": False}}, name)
    groups = rc.to_dict()["spec"]["workerGroupSpecs"]
    hosts = groups[0].get("numOfHosts", 1)
    groups[0] |= {"replicas": groups[0]["replicas"] + 1, "maxReplicas": 10}
    wanted = sum(each["replicas"] * each.get("numOfHosts", 1) for each in groups)
    await world.patch({"spec": {"workerGroupSpecs": groups}}, name)
    await world.ready(wanted, name)
    if not rc.spec.suspend:
        assert takeover.before < await takeover.pods()
        assert len(await takeover.pods()) == len(takeover.before) + hosts
    await world.patch({"spec": {"suspend": True}}, name)
    await world.condition("RayClusterSuspended", name=name)
    assert await takeover.pods() == set()
    await world.patch({"spec": {"suspend": False}}, name)
    await world.ready(wanted, name)
    await world.delete(RAY_CLUSTERS, name)

    async def is_gone() -> bool:
        for job in (await world.client.list(JOBS, namespace=world.namespace)).items:
            done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
            await world.client.patch(
                JOBS, job["metadata"]["name"], done, namespace=world.namespace, subresource="status"
            )
        try:
            await world.cluster(name)
        except NotFound:
            return not await takeover.pods()
        return False

    await world.becomes(is_gone)
