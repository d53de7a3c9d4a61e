"""What clusters have beside Pods, on an API server: accounts and roles, tokens, Services and ways from outside.

Every test runs on the embedded API server and on a real kube-apiserver.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.resources import INGRESSES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from tests.build.clusters import group, template
from tests.operator.world import World, living, operating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client
    from kuberay.kube.resources import Resource

pytestmark = pytest.mark.timeout(120)

INGRESS_HEAD = {"template": template("ray-head"), "enableIngress": True}


@pytest.fixture
async def world(api: Client) -> AsyncIterator[World]:
    async with living(api) as world, operating(api, world.namespace):
        yield world


async def get(world: World, resource: Resource, name: str) -> Any:
    return await world.client.get(resource, name, namespace=world.namespace)


async def create(world: World, resource: Resource, name: str, **content: Any) -> Any:
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **content}
    return await world.client.create(resource, obj, namespace=world.namespace)


class TestAnAutoscaledCluster:
    async def test_its_autoscaler_has_an_account_with_rights(self, world: World) -> None:
        await world.apply(enableInTreeAutoscaling=True)
        await world.ready(1)
        cluster = await world.cluster()
        for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
            (owner,) = (await get(world, resource, "rc"))["metadata"]["ownerReferences"]
            assert owner["uid"] == cluster.metadata.uid
        (head,) = await world.pods("head")
        assert [each.name for each in head.spec.containers] == ["ray-head", "autoscaler"]
        for reason in ("CreatedServiceAccount", "CreatedRole", "CreatedRoleBinding"):
            assert (await world.has_event(reason)).endswith(f" {world.namespace}/rc")

    async def test_rights_that_somebody_takes_away_come_back(self, world: World) -> None:
        await world.apply(enableInTreeAutoscaling=True)
        await world.ready(1)
        old = await world.uid(ROLES, "rc")
        await world.delete(ROLES, "rc")
        await world.is_replaced(ROLES, "rc", old or "")

    async def test_an_account_named_like_the_cluster_is_used(self, world: World) -> None:
        made = await create(world, SERVICE_ACCOUNTS, "rc")
        await world.apply(enableInTreeAutoscaling=True)
        await world.ready(1)
        assert (await get(world, SERVICE_ACCOUNTS, "rc"))["metadata"]["uid"] == made["metadata"]["uid"]
        assert "CreatedServiceAccount" not in [reason for reason, _ in await world.events()]

    async def test_an_account_that_the_user_names_is_waited_for(self, world: World) -> None:
        """raycluster EX-33."""
        given = template("ray-head", pod={"serviceAccountName": "my-sa"})
        await world.apply(enableInTreeAutoscaling=True, head={"template": given})
        assert "my-sa" in await world.has_event("AutoscalerServiceAccountNotFound")
        assert (await world.condition("ReplicaFailure")).reason == "AutoscalerServiceAccountNotFound"
        assert await world.pods() == []
        await create(world, SERVICE_ACCOUNTS, "my-sa")
        await world.ready(1)

    async def test_an_account_that_the_user_names_and_takes_away_is_missed_when_it_is_needed(
        self, world: World
    ) -> None:
        await create(world, SERVICE_ACCOUNTS, "my-sa")
        given = template("ray-head", pod={"serviceAccountName": "my-sa"})
        await world.apply(enableInTreeAutoscaling=True, head={"template": given})
        await world.ready(1)
        await world.delete(SERVICE_ACCOUNTS, "my-sa")
        await world.scale(2)
        assert (await world.condition("ReplicaFailure")).reason == "AutoscalerServiceAccountNotFound"
        await create(world, SERVICE_ACCOUNTS, "my-sa")
        await world.ready(2)

    async def test_workers_that_are_too_many_wait_for_the_autoscaler_to_name_them(self, world: World) -> None:
        await world.apply(enableInTreeAutoscaling=True)
        await world.ready(1)
        await world.scale(2)
        await world.ready(2)
        await world.scale(1)
        await world.becomes(lambda: observed(world, 3))
        first, second = await world.pods("worker")
        patch = {"spec": {"workerGroupSpecs": [named(first.name)]}}
        await world.patch(patch)
        await world.ready(1)
        assert [pod.name for pod in await world.pods("worker")] == [second.name]


class TestAToken:
    async def test_it_is_made_once_and_told_to_nobody(self, world: World) -> None:
        await world.apply(authOptions={"mode": "token"})
        await world.ready(1)
        secret = await get(world, SECRETS, "rc")
        token = base64.b64decode(secret["data"]["auth_token"]).decode()
        assert len(base64.b64decode(token)) == 32
        assert token not in str(await world.events())
        assert token not in str((await world.cluster()).to_dict())

    async def test_a_secret_of_the_user_is_left_as_it_is(self, world: World) -> None:
        made = await create(world, SECRETS, "rc", stringData={"auth_token": "mine"})
        await world.apply(authOptions={"mode": "token"})
        await world.ready(1)
        found = await get(world, SECRETS, "rc")
        assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    async def test_a_secret_of_the_user_that_is_taken_away_is_missed_when_it_is_needed(self, world: World) -> None:
        made = await create(world, SECRETS, "rc", stringData={"auth_token": "mine"})
        await world.apply(authOptions={"mode": "token"})
        await world.ready(1)
        await world.delete(SECRETS, "rc")
        await world.scale(2)
        await world.is_replaced(SECRETS, "rc", made["metadata"]["uid"])
        await world.ready(2)

    async def test_a_cluster_that_is_made_again_at_once_has_a_token_of_its_own(self, world: World) -> None:
        await world.apply(authOptions={"mode": "token"})
        await world.ready(1)
        old = await world.uid(SECRETS, "rc")
        await world.delete(RAY_CLUSTERS, "rc")
        await world.apply(authOptions={"mode": "token"})
        await world.is_replaced(SECRETS, "rc", old or "")
        await world.ready(1)


class TestAnIngress:
    async def test_it_follows_the_cluster(self, world: World) -> None:
        await world.apply(head={**INGRESS_HEAD, "ingressOptions": {"host": "a.example"}})
        await world.ready(1)
        await world.has_event("CreatedIngress")
        await world.patch({"spec": {"headGroupSpec": {"ingressOptions": {"host": "b.example"}}}})
        assert await world.has_event("UpdatedIngress") == f"Updated ingress {world.namespace}/rc-head-ingress"
        assert (await get(world, INGRESSES, "rc-head-ingress"))["spec"]["rules"][0]["host"] == "b.example"

    async def test_a_label_that_somebody_takes_away_comes_back(self, world: World) -> None:
        """raycluster EX-36: one that only carries the label is nobody's business."""
        backend = {"service": {"name": "x", "port": {"number": 1}}}
        labelled = {"name": "mine", "labels": {"ray.io/cluster": "rc"}}
        mine = await create(world, INGRESSES, "mine", metadata=labelled, spec={"defaultBackend": backend})
        await world.apply(head=INGRESS_HEAD)
        await world.ready(1)
        uid = await world.uid(INGRESSES, "rc-head-ingress")
        bare = {"metadata": {"labels": {"ray.io/cluster": None}}}
        await world.client.patch(INGRESSES, "rc-head-ingress", bare, namespace=world.namespace)

        async def is_back() -> bool:
            return "ray.io/cluster" in (await get(world, INGRESSES, "rc-head-ingress"))["metadata"]["labels"]

        await world.becomes(is_back)
        assert await world.uid(INGRESSES, "rc-head-ingress") == uid
        found = await get(world, INGRESSES, "mine")
        assert found["metadata"]["resourceVersion"] == mine["metadata"]["resourceVersion"]

    async def test_one_that_nobody_asks_for_any_more_stays_and_is_told(self, world: World) -> None:
        await world.apply(head=INGRESS_HEAD)
        await world.ready(1)
        await world.patch({"spec": {"headGroupSpec": {"enableIngress": False}}})
        found = await world.condition("SpecChangesPending")
        assert found.message == "spec.headGroupSpec.enableIngress: Ingress rc-head-ingress stays until it is deleted"
        await world.delete(INGRESSES, "rc-head-ingress")

        async def is_told_no_more() -> bool:
            return "SpecChangesPending" not in [each.type for each in (await world.cluster()).status.conditions]

        await world.becomes(is_told_no_more)

    async def test_somebody_elses_of_that_name_is_left_alone(self, world: World) -> None:
        backend = {"service": {"name": "x", "port": {"number": 1}}}
        made = await create(world, INGRESSES, "rc-head-ingress", spec={"defaultBackend": backend})
        await world.apply(head=INGRESS_HEAD)
        await world.ready(1)
        assert "does not belong to this cluster" in await world.has_event("FailedToCreateIngress")
        found = await get(world, INGRESSES, "rc-head-ingress")
        assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


class TestAServiceForServe:
    async def test_it_is_made_and_comes_back(self, world: World) -> None:
        await world.apply(metadata={"annotations": {"ray.io/enable-serve-service": "true"}})
        await world.ready(1)
        assert (await get(world, SERVICES, "rc-serve-svc"))["spec"]["ports"][0]["port"] == 8000
        old = await world.uid(SERVICES, "rc-serve-svc")
        await world.delete(SERVICES, "rc-serve-svc")
        await world.is_replaced(SERVICES, "rc-serve-svc", old or "")


class TestAHeadServiceOfAnOlderSpec:
    async def test_it_follows_in_place_and_keeps_its_address_and_node_ports(self, world: World) -> None:
        await world.apply(head={"template": template("ray-head"), "serviceType": "NodePort"})
        await world.ready(1)
        before = await get(world, SERVICES, "rc-head-svc")
        extra = {"name": "debug", "port": 5678}
        service = {"metadata": {"labels": {"team": "a"}}, "spec": {"ports": [extra], "sessionAffinity": "ClientIP"}}
        head = {"serviceType": "LoadBalancer", "headService": service}
        await world.patch({"spec": {"headGroupSpec": head, "headServiceAnnotations": {"a": "b"}}})
        await world.has_event("UpdatedService")
        after = await get(world, SERVICES, "rc-head-svc")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["annotations"]["a"] == "b"
        assert after["metadata"]["labels"]["team"] == "a"
        assert after["spec"]["clusterIP"] == before["spec"]["clusterIP"]
        assert (after["spec"]["type"], after["spec"]["sessionAffinity"]) == ("LoadBalancer", "ClientIP")
        ports = {each["name"]: each["nodePort"] for each in after["spec"]["ports"]}
        assert ports.items() > {each["name"]: each["nodePort"] for each in before["spec"]["ports"]}.items()
        assert ports["debug"]

    async def test_an_address_that_it_cannot_get_is_told_until_it_is_made_anew(self, world: World) -> None:
        await world.apply()
        await world.ready(1)
        old = await world.uid(SERVICES, "rc-head-svc")
        await world.patch({"spec": {"headGroupSpec": {"serviceType": "NodePort"}}})
        assert "spec.headGroupSpec.serviceType" in (await world.condition("SpecChangesPending")).message
        await world.delete(SERVICES, "rc-head-svc")
        await world.is_replaced(SERVICES, "rc-head-svc", old or "")
        assert (await get(world, SERVICES, "rc-head-svc"))["spec"]["type"] == "NodePort"

        async def is_told_no_more() -> bool:
            return "SpecChangesPending" not in [each.type for each in (await world.cluster()).status.conditions]

        await world.becomes(is_told_no_more)


class TestAServiceForHosts:
    async def test_somebody_elses_of_that_name_is_told_until_it_goes(self, world: World) -> None:
        await create(world, SERVICES, "rc-headless", spec={"selector": {"app": "mine"}, "ports": [{"port": 80}]})
        await world.apply(groups=[group("tpu", replicas=1, numOfHosts=2)])
        told = "the name is taken: Service rc-headless exists already and has no owner"
        assert told in await world.has_event("FailedToCreateService")
        assert told in (await world.condition("ReplicaFailure")).message
        assert (await get(world, SERVICES, "rc-headless"))["spec"]["selector"] == {"app": "mine"}
        await world.delete(SERVICES, "rc-headless")
        await world.ready(2)
        assert (await get(world, SERVICES, "rc-headless"))["spec"]["clusterIP"] == "None"


async def test_a_cluster_that_goes_takes_all_of_it_with_it(world: World) -> None:
    await world.apply(
        enableInTreeAutoscaling=True,
        authOptions={"mode": "token"},
        head=INGRESS_HEAD,
        metadata={"annotations": {"ray.io/enable-serve-service": "true"}},
    )
    await world.ready(1)
    await world.delete(RAY_CLUSTERS, "rc")
    children = [(kind, "rc") for kind in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, SECRETS)]
    children += [(INGRESSES, "rc-head-ingress"), (SERVICES, "rc-serve-svc"), (SERVICES, "rc-head-svc")]

    async def is_gone() -> bool:
        return [await world.uid(kind, name) for kind, name in children] == [None] * len(children)

    await world.becomes(is_gone)


async def observed(world: World, generation: int) -> bool:
    return (await world.cluster()).status.observed_generation == generation


def named(worker: str) -> dict[str, Any]:
    return group(replicas=1, scaleStrategy={"workersToDelete": [worker]})
