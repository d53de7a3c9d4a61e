"""Clusters that KubeRay's own operators left behind, and what becomes of them under ours.

All of them stand on one server, each in a namespace of its own, with the uids they had; they live through the same
changes side by side, under one operator. What is seen of each is kept, for tests to ask about.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberay.api import structural
from kuberay.api.crd import crd
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import JOBS, NAMESPACES, PODS, SERVICES
from kuberay.sim.kubelet import FakeKubelet, Fate
from tests.controllers.embedded import Meddler
from tests.operator.world import World, new_namespace, operating, serve_rayclusters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.api.core import Pod
    from tests.servers import Server

Json = dict[str, Any]

UPSTREAM = Path(__file__).parents[2] / ".." / "shared" / "upstream" / "made-by-go"
QUIET = 20
"""Looks, one every 50 ms, in which nothing was written."""
PACE = 0.1


@dataclass(frozen=True)
class Left:
    """One cluster as an operator left it."""

    name: str
    record: Json = field(repr=False)

    @property
    def cluster(self) -> Json:
        (found,) = [each for each in self.record["objects"] if each["kind"] == "RayCluster"]
        return dict(found)

    @property
    def is_recreated(self) -> bool:
        """Whether its Pods make way when its spec changes. Older versions did not know the field, and lost it."""
        return bool(self.cluster["spec"].get("upgradeStrategy", {}).get("type") == "Recreate")

    @property
    def is_suspended(self) -> bool:
        return bool(self.cluster["spec"].get("suspend"))

    def objects_in(self, namespace: str) -> list[Json]:
        """Everything that was left, moved to another namespace; the cluster comes first, for it owns the others."""
        old = self.record["namespace"]
        text = json.dumps(self.record["objects"]).replace(f'"namespace": "{old}"', f'"namespace": "{namespace}"')
        objects: list[Json] = json.loads(text.replace(f".{old}.svc.", f".{namespace}.svc."))
        return sorted(objects, key=lambda each: each["kind"] != "RayCluster")


def left() -> list[Left]:
    """All of them."""
    return [
        Left(f"{file.parent.name}-{file.stem}", json.loads(file.read_text()))
        for file in sorted(UPSTREAM.glob("*/*.json"))
    ]


@dataclass
class Life:
    """What was seen of one cluster, chapter by chapter."""

    writes: list[str] = field(default_factory=list)
    """What was written when it was taken over, but for events."""
    _pods: dict[str, frozenset[str]] = field(default_factory=dict)
    _trouble: str = "it was not reached"

    def note(self, chapter: str, pods: Iterable[str]) -> None:
        self._pods[chapter] = frozenset(pods)

    def fails(self, trouble: str) -> None:
        self._trouble = trouble

    def pods(self, chapter: str) -> frozenset[str]:
        """The uids of its Pods at the end of a chapter."""
        assert chapter in self._pods, f"never {chapter}: {self._trouble}"
        return self._pods[chapter]


async def lives(server: Server, clusters: list[Left]) -> dict[str, Life]:
    """Let our operator come to clusters that were left, and change them in every way; what was seen, by name."""
    user, meddler = server.client, Meddler(server.transport)
    await serve_rayclusters(user)
    kubelet = FakeKubelet(user, fate=_fate, workers=32)
    worlds = {each.name: World(user, await new_namespace(user), kubelet, pace=PACE) for each in clusters}
    canary = World(user, await new_namespace(user), kubelet, pace=PACE)
    found = {each.name: Life() for each in clusters}
    for each in clusters:
        for obj in each.objects_in(worlds[each.name].namespace):
            await server.put(_defaulted(obj))
        found[each.name].note("left", await _pods(worlds[each.name]))
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(kubelet.run())
        async with operating(Client(meddler), None):
            await canary.apply()  # when a new cluster has been served, those of before have been looked at
            await canary.ready(1)
            await _quiet(meddler)
            for each in clusters:
                world, life = worlds[each.name], found[each.name]
                life.writes += [
                    f"{write.method} {write.path}"
                    for write in meddler.writes
                    if f"/namespaces/{world.namespace}/" in write.path and "/events" not in write.path
                ]
                life.note("taken over", await _pods(world))
            await asyncio.gather(*(_live(worlds[each.name], each, found[each.name]) for each in clusters))
        for world in (canary, *worlds.values()):
            await user.delete(NAMESPACES, world.namespace)
        serving.cancel()
    return found


async def _live(world: World, left: Left, life: Life) -> None:
    try:
        await _chapters(world, left, life)
    except Exception as error:
        life.fails(f"{type(error).__name__}: {error}")


async def _chapters(world: World, left: Left, life: Life) -> None:
    name = left.cluster["metadata"]["name"]
    groups: list[Json] = (await world.cluster(name)).to_dict()["spec"]["workerGroupSpecs"]
    first = groups[0]
    first["maxReplicas"] = 10

    async def becomes_ready(chapter: str) -> None:
        workers = sum(each["replicas"] * each.get("numOfHosts", 1) for each in groups)
        await world.ready(workers, name)
        life.note(chapter, await _pods(world))

    async def edit(**spec: Any) -> None:
        await world.patch({"spec": {"workerGroupSpecs": groups, **spec}}, name)

    if left.is_suspended:
        await edit(suspend=False)
    await becomes_ready("awake")
    first["replicas"] += 1
    await edit()
    await becomes_ready("grown")
    first["replicas"] -= 1
    if left.cluster["spec"].get("enableInTreeAutoscaling"):
        newest = (await world.pods("worker", of=name))[-1]
        first["scaleStrategy"] = {"workersToDelete": [newest.name]}
    await edit()
    await becomes_ready("shrunk")
    first["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:edited"
    await edit()
    await world.becomes(lambda: _has_answered(world, left, life.pods("shrunk")))
    await becomes_ready("edited")
    await edit(suspend=True)
    await world.condition("RayClusterSuspended", name=name)
    life.note("suspended", await _pods(world))
    await edit(suspend=False)
    await becomes_ready("resumed")
    await world.delete(RAY_CLUSTERS, name)
    await world.becomes(lambda: _is_gone(world, name))
    life.note("gone", await _pods(world))


async def _has_answered(world: World, left: Left, before: frozenset[str]) -> bool:
    """Whether the operator has done what it does about a change of the spec."""
    rc = await world.cluster(left.cluster["metadata"]["name"])
    is_known = rc.status.observed_generation == rc.metadata.generation
    return is_known and (not left.is_recreated or not before & await _pods(world))


async def _is_gone(world: World, name: str) -> bool:
    try:
        await world.cluster(name)
    except NotFound:
        pages = [await world.client.list(kind, namespace=world.namespace) for kind in (PODS, SERVICES, JOBS)]
        return not any(page.items for page in pages)
    return False


async def _pods(world: World) -> frozenset[str]:
    page = await world.client.list(PODS, namespace=world.namespace)
    return frozenset(each["metadata"]["uid"] for each in page.items)


async def _quiet(meddler: Meddler) -> None:
    """Wait until nothing is written any more."""
    count, looks = -1, 0
    async with asyncio.timeout(60):
        while looks < QUIET:
            await asyncio.sleep(0.05)
            looks = looks + 1 if count == len(meddler.writes) else 0
            count = len(meddler.writes)


def _fate(pod: Pod) -> Fate:
    return Fate.SUCCEEDED if pod.metadata.labels.get("ray.io/node-type") == "redis-cleanup" else Fate.RUNNING


@cache
def _spec_schema() -> Json:
    (version,) = [each for each in crd("RayCluster")["spec"]["versions"] if each["storage"]]
    schema: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def _defaulted(obj: Json) -> Json:
    """A real server fills in the defaults of its present CRD whenever it reads what it has stored; so it is stored."""
    if obj["kind"] != "RayCluster":
        return obj
    return {**obj, "spec": structural.defaulted(obj["spec"], _spec_schema())}
