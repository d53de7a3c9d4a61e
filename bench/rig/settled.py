"""A large cluster in which all is well, in memory: what one change of a Pod costs there."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from bench.rig import manifests
from kuberay.api.core import Pod, Service
from kuberay.api.v1 import RayCluster
from kuberay.build import pod, services
from kuberay.build.auth import TOKEN_BYTES
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.census import Census
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.observe import BY_OWNER, observe, owner_index
from kuberay.kube.store import Store

_OPTIONS = ControllerOptions()
_NOW = 1_800_000_000.0
_RUNNING = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "ray", "ready": True, "state": {"running": {}}}],
}


def one_change(workers: int, rounds: int = 20) -> float:
    """Seconds of CPU for one look at a cluster after one of its Pods has changed; the median of some."""
    manifest = manifests.raycluster("big", "default", workers)
    manifest["metadata"] |= {"uid": "uid-big", "generation": 1, "resourceVersion": "1"}
    cluster = RayCluster.from_dict(manifest)
    template = pod.worker(cluster, cluster.spec.worker_group_specs[0], _OPTIONS.build)
    bodies = [pod.head(cluster, _OPTIONS.build).pod("big-head")]
    bodies += [template.pod(f"big-worker-{index}", replica_index=index) for index in range(workers)]
    pods: Store[Pod] = Store()
    pods.replaced([_stored(body, number + 2) for number, body in enumerate(bodies)], str(workers + 2))
    service: Store[Service] = Store({BY_OWNER: owner_index})
    head_service = msgspec.convert(services.head(cluster, _OPTIONS.build), type=Service)
    service.replaced([head_service], "2")
    census = Census(pods)
    costs = []
    for number in range(rounds):
        pods.applied(_stored(bodies[number + 1], workers + 3 + number))
        began = time.process_time()
        seen = observe(cluster, census, service, failures={}, reported=frozenset())
        plan = decide(seen, _OPTIONS, _NOW, bytes(TOKEN_BYTES))
        costs.append(time.process_time() - began)
        if plan.actions:
            raise RuntimeError(f"the cluster is not settled: {plan.actions[0]}")
    return sorted(costs)[rounds // 2]


def _stored(body: bytes, version: int) -> Pod:
    """A Pod as the server would show it when it runs."""
    document: dict[str, Any] = msgspec.json.decode(body)
    name = document["metadata"]["name"]
    created = "2026-01-01T00:00:00Z"
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(version), "creationTimestamp": created}
    return msgspec.convert({**document, "status": _RUNNING}, type=Pod)
