"""The operator's rights are exactly what it uses: no request is missing from its roles, and no right is idle. And all
but one are among those that KubeRay's chart gives, so that the operator works where that one did.

That no request is missing holds in every test of `tests/operator`: see `world.operating`. Here everything is done once,
with every creation answered by "it exists already" and the first change of each kind by "it was changed", and what was
asked is compared with what is granted.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.gates import FeatureGates, Gate
from kuberay.build import autoscaler, labels
from kuberay.controllers.kinds import RAY_CLUSTERS, ROUTES
from kuberay.controllers.raycluster.lost import OUT_OF_SERVICE
from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.loops import GarbageCollector, Namespaces
from kuberay.kube.client import Client, Retry
from kuberay.kube.election import Elector
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, JOBS, NAMESPACES, PODS, ROLES
from kuberay.kube.transport import Request
from kuberay.operator import rights
from tests.build.clusters import cluster, group, template
from tests.operator import chart
from tests.operator.calls import Call, Recorded, allowed_by, granted
from tests.operator.world import OPTIONS, World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(120)

EVERYTHING = replace(OPTIONS, lost_after=0.1, gates=FeatureGates(dict.fromkeys(Gate, True)))
EXPOSED: dict[str, Any] = {"template": template("ray-head"), "enableIngress": True}


@pytest.fixture
async def server() -> AsyncIterator[InProcessTransport]:
    transport = InProcessTransport(ApiServer(MemoryStorage()))
    client = Client(transport)
    loops = [asyncio.create_task(loop.run()) for loop in (GarbageCollector(client), Namespaces(client))]
    yield transport
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def everything(world: World) -> None:
    """Clusters of every sort, from their beginning to their end."""
    claim = {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": {}}}
    await world.apply(
        "all", enableInTreeAutoscaling=True, authOptions={"mode": "token"}, head=EXPOSED, groups=[group(replicas=1)]
    )
    await world.apply("disk", **claim)
    await world.apply("redis", gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    await world.apply("adopted", upgradeStrategy={"type": "Recreate"})
    for name in ("all", "disk", "redis", "adopted"):
        await world.ready(1, name)
    await adopt_head(world, "adopted")
    await world.patch({"spec": {"headGroupSpec": {"ingressOptions": {"host": "a.example"}}}}, "all")
    await world.patch({"spec": {"headServiceAnnotations": {"a": "b"}}}, "all")
    await world.has_event("UpdatedService")
    claim["gcsFaultToleranceOptions"]["storage"] = {"deletionPolicy": "Retain"}
    await world.patch({"spec": claim}, "disk")
    for _ in range(2):  # the second time, an event is repeated
        old = await world.uid(ROLES, "all")
        await world.delete(ROLES, "all")
        await world.is_replaced(ROLES, "all", old or "")
    await world.apply("closed", networkPolicy={})
    await world.ready(1, "closed")
    for policy in ({"mode": "DenyAllIngress"}, None):
        await world.patch({"spec": {"networkPolicy": policy}}, "closed")
        await world.has_event("UpdatedNetworkPolicy" if policy else "DeletedNetworkPolicy")
    await lose_a_head(world)
    await world.delete(RAY_CLUSTERS, "redis")

    async def has_job() -> bool:
        return bool((await world.client.list(JOBS, namespace=world.namespace)).items)

    await world.becomes(has_job)


async def lose_a_head(world: World) -> None:
    """Let a head not go from its node, and wait until that is told."""
    quick = template("ray-head", pod={"terminationGracePeriodSeconds": 1})
    await world.apply("lost", groups=[], head={"template": quick})
    await world.ready(0, "lost")
    world.kubelet.removes = lambda pod: pod.name != "lost-head"
    await world.delete(PODS, "lost-head")

    async def is_told() -> bool:
        conditions = (await world.cluster("lost")).status.conditions
        return any(OUT_OF_SERVICE in each.message for each in conditions)

    await world.becomes(is_told)


async def adopt_head(world: World, name: str) -> None:
    """Let a head look as if another operator had made it, and wait until it is taken over."""
    foreign = {"metadata": {"annotations": {labels.KUBERAY_VERSION: "v1.3.2"}}}
    await world.client.patch(PODS, f"{name}-head", foreign, namespace=world.namespace)

    async def is_adopted() -> bool:
        (head,) = await world.pods("head", of=name)
        return head.metadata.annotations[labels.KUBERAY_VERSION] != "v1.3.2"

    await world.becomes(is_adopted)


async def on_openshift(world: World) -> None:
    """The one thing that is another there."""
    await world.apply("routed", head=EXPOSED)
    await world.ready(1, "routed")
    await world.has_event("CreatedRoute")


async def close_the_namespace(world: World) -> None:
    """Let it be deleted with a cluster in it that has something in Redis, and wait until that is told elsewhere."""
    await world.apply("last", groups=[], gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    await world.ready(0, "last")
    await world.client.delete(NAMESPACES, world.namespace)

    async def is_told() -> bool:
        events = (await world.client.list(EVENTS, namespace="default")).items
        return any(f"{world.namespace}/last" in each["note"] for each in events)

    await world.becomes(is_told)


@pytest.mark.slow
async def test_what_the_operator_does_is_what_it_may_do(server: InProcessTransport) -> None:
    await Client(server).create(CUSTOM_RESOURCE_DEFINITIONS, _routes())
    recorded = Recorded(server, doubles=True)
    async with living(Client(server)) as world:
        async with operating(Client(recorded), world.namespace, EVERYTHING):
            await everything(world)
            await world.becomes(lambda: _has(recorded, Call("events.k8s.io", "events", "patch", world.namespace)))
        async with operating(Client(recorded), world.namespace, replace(EVERYTHING, is_openshift=True)):
            await on_openshift(world)
            await close_the_namespace(world)
    # Whoever may watch must be able to list: not every server streams lists.
    lists = {call._replace(verb="list") for call in recorded.calls if call.verb == "watch"}
    # Whether an event about a namespace is told twice is chance; one of the others was.
    repeated = Call("events.k8s.io", "events", "patch", "default")
    in_default = granted(rights.IN_DEFAULT, namespace="default")
    used = granted(rights.USED, namespace=world.namespace) | in_default | granted(rights.OUTSIDE)
    assert recorded.calls | lists | {repeated} == used


async def _has(recorded: Recorded, call: Call) -> bool:
    return call in recorded.calls


async def test_the_same_holds_for_the_election(server: InProcessTransport) -> None:
    recorded = Recorded(server)
    client = Client(recorded, retry=Retry(attempts=0))
    for identity in ("first", "second"):
        elector = Elector(client, namespace="default", name="lease", identity=identity)
        await elector.acquire()
        await elector.release()
    assert recorded.calls == granted(rights.ELECTION, namespace="default")


class TestWithTheRightsOfKubeRaysChart:
    def test_it_can_do_all_but_look_at_nodes(self) -> None:
        """What it does without that stands in `tests/controllers/raycluster/test_lost.py`."""
        wanted = granted(rights.USED, rights.IN_DEFAULT, rights.OUTSIDE, rights.GRANTED, rights.ELECTION)
        assert wanted - allowed_by(chart.CLUSTER_ROLE) == {Call("", "nodes", "get")}

    def test_it_can_lead(self) -> None:
        assert granted(rights.ELECTION) <= allowed_by(chart.ELECTION_ROLE)


def test_it_holds_what_it_grants_to_the_autoscaler() -> None:
    role = autoscaler.role(cluster(enableInTreeAutoscaling=True))
    wanted = allowed_by(role["rules"])
    assert wanted <= granted(rights.USED, rights.GRANTED)
    idle = granted(rights.GRANTED) - wanted
    assert idle == {Call("ray.io", "rayclusters/finalizers", "update")}


class TestCalls:
    @pytest.mark.parametrize(
        ("method", "path", "query", "expected"),
        [
            ("GET", "/api/v1/pods", (), Call("", "pods", "list")),
            ("GET", "/api/v1/nodes/a", (), Call("", "nodes", "get")),
            ("GET", "/api/v1/namespaces/a/pods", (("watch", "true"),), Call("", "pods", "watch", "a")),
            ("GET", "/api/v1/namespaces/a/pods/b", (), Call("", "pods", "get", "a")),
            ("DELETE", "/api/v1/namespaces/a/pods/b", (), Call("", "pods", "delete", "a")),
            (
                "PATCH",
                "/apis/ray.io/v1/namespaces/a/rayclusters/b/status",
                (),
                Call("ray.io", "rayclusters/status", "patch", "a"),
            ),
            ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", (), Call("events.k8s.io", "events", "create", "a")),
            ("PUT", "/api/v1/namespaces/a", (), Call("", "namespaces", "update")),
        ],
    )
    def test_a_request_takes_a_right(
        self, method: str, path: str, query: tuple[tuple[str, str], ...], expected: Call
    ) -> None:
        assert Call.of(Request(method, path, query)) == expected


def _routes() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": ROUTES.kind, "listKind": "RouteList", "plural": ROUTES.plural, "singular": "route"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": ROUTES.name},
        "spec": {"group": ROUTES.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }
