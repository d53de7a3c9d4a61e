"""The status that KubeRay's operator writes for the same manifests once all Pods are ready, compared whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest

from kuberay.api.core import Pod, PodCondition, PodStatus, Service
from kuberay.build import pod as pods
from kuberay.build import services
from kuberay.controllers.raycluster import scaling
from kuberay.controllers.raycluster.observe import Seen
from kuberay.controllers.raycluster.status import status
from kuberay.kube import quantity
from tests.build.golden import UPSTREAM, options, records
from tests.controllers.raycluster.situations import NOW

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

Json = dict[str, Any]
ADDRESS = "10.0.0.1"


def comparable() -> list[Any]:
    """Records in which the kubelet did nothing special and no Pod was refused."""
    found = []
    for each in records():
        cluster, record = each.values
        golden = record["ray"][f"RayCluster/{cluster.name}"]["status"]
        if "kubelet" not in record.get("settings", {}) and golden.get("state") == "ready":
            found.append(pytest.param(cluster, record, golden, id=each.id))
    return found


def settled(cluster: RayCluster, record: Json) -> Seen:
    """The cluster with all its Pods ready."""
    how = options(record)
    built = [pods.head(cluster, how).pod("head")]
    for group in cluster.spec.worker_group_specs:
        template = pods.worker(cluster, group, how)
        built += [template.pod(f"{group.group_name}-{index}") for index in range(scaling.desired_pods(group))]
    ready = PodStatus(phase="Running", conditions=[PodCondition(type="Ready", status="True")], pod_ip=ADDRESS)
    found = [msgspec.structs.replace(msgspec.json.decode(each, type=Pod), status=ready) for each in built]
    service = services.head(cluster, how)
    for port in service["spec"]["ports"]:
        port.setdefault("targetPort", port["port"])
    return Seen(
        cluster=cluster, pods=tuple(found), head_service=msgspec.json.decode(orjson.dumps(service), type=Service)
    )


def normal(found: Json, golden: Json) -> Json:
    """Ours in the form of the records: no times, no addresses, no generated names, amounts in their writing."""
    result: Json = orjson.loads(orjson.dumps(found))
    for condition in result["conditions"]:
        condition["lastTransitionTime"] = "<time>"
    result["stateTransitionTimes"] = dict.fromkeys(result["stateTransitionTimes"], "<time>")
    result["lastUpdateTime"] = "<time>"
    result["observedGeneration"] = golden.get("observedGeneration")
    result["head"] = {**result["head"], "podIP": "<pod-ip>", "podName": golden["head"]["podName"]}
    result["head"]["serviceIP"] = golden["head"]["serviceIP"]  # given out by the server
    for name in ("desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU"):
        if quantity.parse(result[name]) == quantity.parse(golden[name]):
            result[name] = golden[name]
    for port in golden["endpoints"]:
        if golden["endpoints"][port] == "<node-port>":
            result["endpoints"][port] = "<node-port>"
    return result


@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records (../shared/upstream) are not on this machine")
@pytest.mark.parametrize(("cluster", "record", "golden"), comparable())
def test_the_status_is_that_of_kuberay(cluster: RayCluster, record: Json, golden: Json) -> None:
    found = status(settled(cluster, record), None, NOW).to_dict()
    assert normal(found, golden) == golden
