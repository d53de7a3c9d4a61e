"""The operator as it runs in a cluster: a process with the rights of its account and no others.

On a real kube-apiserver, which checks them.
"""

from __future__ import annotations

import asyncio
import re
import signal
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kuberay.kube.resources import EVENTS, LEASES, NAMESPACES, Resource
from kuberay.operator import rights
from kuberay.operator.install import NAME, Installation, objects
from tests.build.clusters import group, template
from tests.operator import chart
from tests.operator.calls import Call, bound, granted
from tests.operator.processes import KINDS, account, connect, install, process
from tests.operator.world import living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kuberay.kube.client import Client
    from tests.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(120)]

ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


@pytest.fixture
async def client(kubernetes: ControlPlane) -> AsyncIterator[Client]:
    client = connect(kubernetes.kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """For an installation, which makes it."""
    name = f"operator-{uuid.uuid4().hex[:8]}"
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def installed(kubernetes: ControlPlane, client: Client, namespace: str, tmp_path: Path) -> tuple[str, Path]:
    """An installation in a namespace of its own, and how its operator reaches the server."""
    await install(client, objects(Installation(image="kuberay", namespace=namespace)))
    return namespace, await account(kubernetes, client, namespace, tmp_path)


async def test_with_its_rights_alone_a_cluster_lives_and_dies(client: Client, installed: tuple[str, Path]) -> None:
    _, kubeconfig = installed
    async with living(client) as world, process(kubeconfig, "--enable-metrics") as operator:
        await world.apply(groups=[group(replicas=2)])
        await world.ready(2)
        await world.scale(1)
        await world.ready(1)
        status, text = await operator.get("/metrics", serving="/metrics")
        assert status == 200
        assert f'kuberay_cluster_info{{name="rc",namespace="{world.namespace}",owner_kind="None"' in text
        assert re.search(r'kuberay_cluster_provisioned_duration_seconds\{name="rc".*\} \d', text)
        assert re.search(r'rest_client_requests_total\{code="201",host="127.0.0.1:\d+",method="POST"\}', text)
        assert 'leader_election_master_status{name="ray-operator-leader"} 1.0' in text
        for path in ("/readyz", "/readyz/readyz", "/readyz/caches", "/healthz", "/healthz/healthz"):
            assert await operator.get(path, serving="/readyz") == (200, "ok")
        # It can grant to an autoscaler what it has itself, and make whatever else a cluster may ask for.
        head = {"template": template("ray-head"), "enableIngress": True}
        await world.apply("more", enableInTreeAutoscaling=True, authOptions={"mode": "token"}, head=head)
        await world.apply("redis", gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        await world.ready(1, "more")
        await world.ready(1, "redis")
        refused = [line for line in operator.log if "not allowed" in line["msg"] or "orbidden" in str(line)]
        # It sees every namespace, also those of earlier tests that are on their way out.
        assert [line for line in refused if "being terminated" not in str(line)] == []


async def test_with_the_rights_of_kuberays_chart_it_leads_and_works(
    kubernetes: ControlPlane, client: Client, namespace: str, tmp_path: Path
) -> None:
    roles = {"ClusterRole": chart.CLUSTER_ROLE, "Role": chart.ELECTION_ROLE}
    made = objects(Installation(image="kuberay", namespace=namespace))
    await install(client, [each | {"rules": roles[each["kind"]]} if "rules" in each else each for each in made])
    kubeconfig = await account(kubernetes, client, namespace, tmp_path)
    gates = "--feature-gates=RayClusterNetworkPolicy=true"
    async with living(client) as world, process(kubeconfig, gates, f"--watch-namespace={world.namespace}") as operator:
        await world.apply(networkPolicy={})
        await world.ready(1)
        took = await renewed(client, namespace)
        await world.patch({"spec": {"networkPolicy": {"mode": "DenyAllIngress"}}})
        await world.has_event("UpdatedNetworkPolicy")
        await world.becomes(lambda: is_renewed(client, namespace, since=took))
        assert [line for line in operator.log if "orbidden" in str(line)] == []


async def renewed(client: Client, namespace: str) -> str:
    lease = await client.get(LEASES, "ray-operator-leader", namespace=namespace)
    return str(lease["spec"]["renewTime"])


async def is_renewed(client: Client, namespace: str, *, since: str) -> bool:
    return await renewed(client, namespace) > since


async def test_who_works_in_few_namespaces_has_the_rights_that_are_printed_and_no_others(
    kubernetes: ControlPlane, client: Client, namespace: str, tmp_path: Path
) -> None:
    async with living(client) as world:
        made = objects(Installation(image="kuberay", namespace=namespace, watch_namespaces=(world.namespace,)))
        await install(client, made)
        own = connect(await account(kubernetes, client, namespace, tmp_path))

        async def may(call: Call) -> bool:
            resource, _, subresource = call.resource.partition("/")
            attributes = {"group": call.group, "resource": resource, "verb": call.verb, "namespace": call.namespace}
            asked = {"spec": {"resourceAttributes": attributes | {"subresource": subresource}}}
            return bool((await own.create(ACCESS_REVIEWS, asked))["status"]["allowed"])

        everything = granted(rights.USED, rights.GRANTED, rights.OUTSIDE, rights.ELECTION)
        places = ("", world.namespace, namespace, "default")
        asked = {call._replace(namespace=place) for call in everything for place in places}
        allowed = {call for call in asked if await may(call)}
        await own.close()
        assert allowed == {call for call in asked if call.is_among(bound(made))}


async def test_a_namespace_that_is_deleted_with_the_rights_in_it_goes_and_what_it_leaves_is_told(
    kubernetes: ControlPlane, client: Client, namespace: str, tmp_path: Path
) -> None:
    async with living(client) as world:
        installation = Installation(image="kuberay", namespace=namespace, watch_namespaces=(world.namespace,))
        await install(client, objects(installation))
        kubeconfig = await account(kubernetes, client, namespace, tmp_path)
        async with process(kubeconfig, f"--watch-namespace={world.namespace}"):
            await world.apply(groups=[], gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
            await world.ready(0)
            await client.delete(NAMESPACES, world.namespace)

            async def is_told() -> bool:
                events = (await client.list(EVENTS, namespace="default")).items
                return any(f"{world.namespace}/rc: Redis is not cleaned up" in each["note"] for each in events)

            async def is_gone() -> bool:
                there = (await client.list(NAMESPACES)).items
                return world.namespace not in {each["metadata"]["name"] for each in there}

            await world.becomes(is_told)
            await world.becomes(is_gone)


async def test_an_installation_may_be_changed_to_one_without_an_election_and_back(
    client: Client, namespace: str
) -> None:
    elected = Installation(image="kuberay", namespace=namespace)
    for each, expected in (
        (elected, "RollingUpdate"),
        (replace(elected, arguments=("--enable-leader-election=false",)), "Recreate"),
        (elected, "RollingUpdate"),
    ):
        await install(client, objects(each))
        deployment = await client.get(KINDS["Deployment"], NAME, namespace=namespace)
        assert deployment["spec"]["strategy"]["type"] == expected


class TestSeveral:
    async def test_one_works_and_another_takes_over_when_it_ends(
        self, client: Client, installed: tuple[str, Path]
    ) -> None:
        namespace, kubeconfig = installed
        async with living(client) as world, process(kubeconfig) as first:
            await first.said("took the lease")
            async with process(kubeconfig) as second:
                await second.said("waiting for the lease")
                await world.apply()
                await world.ready(1)
                first.process.terminate()
                assert await first.ended() == 0
                assert first.log[-1]["msg"] in ("released the lease", "operator stopped")
                await second.said("took the lease")
                await world.scale(2)
                await world.ready(2)
                assert not [line for line in first.log + second.log if line["level"] == "error"]
        assert (await client.get(LEASES, "ray-operator-leader", namespace=namespace))["spec"]["leaseTransitions"] >= 1

    async def test_whoever_finds_the_lease_in_other_hands_exits_with_an_error(
        self, client: Client, installed: tuple[str, Path]
    ) -> None:
        namespace, kubeconfig = installed
        async with process(kubeconfig) as operator:
            await operator.said("caches are filled")
            spec = {
                "holderIdentity": "somebody",
                "leaseDurationSeconds": 60,
                "renewTime": "2999-01-01T00:00:00.000000Z",
            }
            await client.patch(LEASES, "ray-operator-leader", {"spec": spec}, namespace=namespace)
            assert await operator.ended() == 1
            assert "taken by 'somebody'" in (await_said := str(operator.log)), await_said


class TestStopping:
    async def test_it_ends_well_when_told_to(self, installed: tuple[str, Path]) -> None:
        async with process(installed[1], "--enable-leader-election=false") as operator:
            await operator.said("caches are filled")
            operator.process.send_signal(signal.SIGTERM)
            assert await operator.ended() == 0
            assert operator.log[-1]["msg"] == "operator stopped"

    async def test_a_second_signal_ends_it_at_once(self, client: Client, installed: tuple[str, Path]) -> None:
        async with living(client) as world, process(installed[1], "--qps=0.5", "--burst=30") as operator:
            await operator.said("caches are filled")
            await world.apply(groups=[group(replicas=100)])  # the limit keeps the operator busy for many seconds

            async def is_at_work() -> bool:
                return any(line.get("msg") == "created" for line in operator.log)

            await world.becomes(is_at_work)
            operator.process.send_signal(signal.SIGTERM)
            await operator.said("stopping")
            operator.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(5):
                assert await operator.ended() == 1
