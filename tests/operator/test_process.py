"""The operator as it runs in a cluster: a process with the rights of its account and no others.

On a real kube-apiserver, which checks them.
"""

from __future__ import annotations

import asyncio
import re
import signal
import uuid
from typing import TYPE_CHECKING

import pytest

from kuberay.kube.resources import LEASES, NAMESPACES
from kuberay.operator.install import Installation
from tests.build.clusters import group, template
from tests.operator.processes import account, connect, install, process
from tests.operator.world import living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kuberay.kube.client import Client
    from tests.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(120)]


@pytest.fixture
async def client(kubernetes: ControlPlane) -> AsyncIterator[Client]:
    client = connect(kubernetes.kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def installed(kubernetes: ControlPlane, client: Client, tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """An installation in a namespace of its own, and how its operator reaches the server."""
    namespace = f"operator-{uuid.uuid4().hex[:8]}"
    await install(client, Installation(namespace=namespace, replicas=1))
    yield namespace, await account(kubernetes, client, namespace, tmp_path)
    await client.delete(NAMESPACES, namespace)


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
