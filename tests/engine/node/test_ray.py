"""Real Ray on a node: a head and a worker Pod that find each other by the name of a Service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuberay.engine.node import images
from kuberay.engine.node.names import LABEL_SERVICE
from kuberay.kube.resources import ENDPOINT_SLICES, PODS, SERVICES
from tests.engine.node.conftest import Cluster, is_ready

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(images.installed().version is None, reason="Ray is not installed in this environment"),
]

HEAD = "rc-head-svc.default.svc.cluster.local"
HEALTHY = {"httpGet": {"path": "/api/healthz", "port": 52365}, "initialDelaySeconds": 10, "periodSeconds": 5}


def ray_container(name: str, line: str) -> dict[str, Any]:
    ulimit = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"
    return {
        "name": name,
        "image": "rayproject/ray:2.60.0",
        "command": ["/bin/bash", "-c", "--"],
        "args": [f"{ulimit}; ray start {line} --block --dashboard-agent-listen-port=52365 --num-cpus=1"],
        "env": [
            {"name": "RAY_CLUSTER_NAME", "value": "rc"},
            {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"},
            {"name": "RAY_ADDRESS", "value": f"{HEAD}:6379"},
        ],
        "readinessProbe": {**HEALTHY, "timeoutSeconds": 5, "failureThreshold": 10},
        "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}],
    }


SHARED = [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}]
MEMORY = "--object-store-memory=200000000 --memory=1000000000"
COUNT = "import ray; ray.init(); print('nodes', sum(n['Alive'] for n in ray.nodes()))"


async def test_a_worker_joins_its_head_by_name_and_both_leave_in_good_order(cluster: Cluster) -> None:
    head = ray_container("ray-head", f"--head --dashboard-host=0.0.0.0 {MEMORY}")
    await cluster.create_pod("head", containers=[head], volumes=SHARED)
    pod = await cluster.until("head", lambda pod: (pod.get("status") or {}).get("podIP"))
    await _publish(cluster, pod["status"]["podIP"])
    await cluster.until("head", is_ready, seconds=90)

    wait = f"until ray health-check --address {HEAD}:6379; do sleep 1; done"
    first = {"name": "wait-gcs-ready", "image": "ray", "command": ["/bin/bash", "-c", "--"], "args": [wait]}
    worker = ray_container("ray-worker", f"--address={HEAD}:6379 {MEMORY}")
    await cluster.create_pod("worker", initContainers=[first], containers=[worker], volumes=SHARED)
    await cluster.until("worker", is_ready, seconds=90)

    assert "nodes 2" in await cluster.execute("head", "ray-head", ["python", "-c", COUNT], seconds=60)

    await asyncio.gather(*(cluster.client.delete(PODS, name, namespace="default") for name in ("worker", "head")))
    for name in ("worker", "head"):
        await cluster.until_gone(name, seconds=25)


async def _publish(cluster: Cluster, address: str) -> None:
    port = {"name": "gcs", "port": 6379}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [port]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "rc-head-svc"}, "spec": spec}
    await cluster.client.create(SERVICES, service, namespace="default")
    piece = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "rc-head-svc-1", "labels": {LABEL_SERVICE: "rc-head-svc"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": False}}],
        "ports": [{**port, "protocol": "TCP"}],
    }
    await cluster.client.create(ENDPOINT_SLICES, piece, namespace="default")
