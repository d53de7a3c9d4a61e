"""Situations to decide in: a cluster, its Pods and its Service, and what becomes of them when a plan is carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from kuberay.api.core import (
    Container,
    ContainerState,
    ContainerStatus,
    Metadata,
    Owner,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Service,
    ServicePort,
    Terminated,
)
from kuberay.api.partial import Ingress, PartialObject
from kuberay.api.v1 import RayCluster, RayClusterStatus
from kuberay.build import names
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create, Delete, Patch, Plan
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.observe import Seen
from kuberay.controllers.raycluster.status import timestamp
from kuberay.kube.patches import merge_patch
from kuberay.kube.resources import INGRESSES, PODS, SERVICES
from tests.build.clusters import cluster as build_cluster
from tests.build.clusters import group

NOW = 1_800_000_000.0
OPTIONS = ControllerOptions(resync=None)
OWNER = Owner(api_version="ray.io/v1", kind="RayCluster", name="rc", uid="u-1", controller=True)
LONG_AGO = NOW - 3600
ENTROPY = bytes(range(32))


def cluster(**fields: Any) -> RayCluster:
    """A stored RayCluster of generation 1; see `tests.build.clusters`."""
    metadata = {"generation": 1, "resourceVersion": "10", **fields.pop("metadata", {})}
    status = fields.pop("status", None)
    rc = build_cluster(metadata=metadata, **fields)
    return msgspec.structs.replace(rc, status=RayClusterStatus.from_dict(status)) if status else rc


def holding(*kinds: str) -> dict[str, Any]:
    """A status in which these conditions hold."""
    return {
        "conditions": [
            {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": timestamp(LONG_AGO)}
            for kind in kinds
        ]
    }


def workers(count: int, **fields: Any) -> RayCluster:
    """A cluster whose one group has so many replicas."""
    return cluster(groups=[group(replicas=count)], **fields)


def pod(
    name: str,
    *,
    group: str = "wg",
    phase: str = "Running",
    ready: bool | None = True,
    leaving: bool = False,
    index: int | None = None,
    replica: str = "",
    host: int | None = None,
    annotations: dict[str, str] | None = None,
    age: float = 3600,
    policy: str = "Always",
    ended: bool = False,
    owner: Owner | None = OWNER,
    ip: str = "",
) -> Pod:
    """A Pod of the cluster, in the state that is told."""
    node_type = names.HEAD if group == names.HEAD_GROUP else names.WORKER
    labels = {"ray.io/cluster": "rc", "ray.io/node-type": node_type, "ray.io/group": group}
    if index is not None:
        labels["ray.io/worker-group-replica-index"] = str(index)
    if replica:
        labels["ray.io/worker-group-replica-name"] = replica
    if host is not None:
        labels["ray.io/replica-host-index"] = str(host)
    conditions = [] if ready is None else [PodCondition(type="Ready", status="True" if ready else "False")]
    statuses = [ContainerStatus(name="ray", state=ContainerState(terminated=Terminated(exit_code=1)))] if ended else []
    return Pod(
        metadata=Metadata(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels=labels,
            annotations=annotations or {},
            owner_references=[owner] if owner else [],
            creation_timestamp=timestamp(NOW - age),
            deletion_timestamp=timestamp(NOW) if leaving else None,
        ),
        spec=PodSpec(containers=[Container(name="ray")], restart_policy=policy),
        status=PodStatus(phase=phase, conditions=conditions, container_statuses=statuses, pod_ip=ip),
    )


def head(name: str = "rc-head", **fields: Any) -> Pod:
    """The head Pod."""
    return pod(name, group=names.HEAD_GROUP, **fields)


def service(cluster_ip: str = "None", ports: list[ServicePort] | None = None) -> Service:
    """The head Service."""
    usual = [ServicePort(name=name, port=port, target_port=port) for name, port in names.DEFAULT_PORTS.items()]
    stored = Service(
        metadata=Metadata(name="rc-head-svc", namespace="default", uid="uid-svc", owner_references=[OWNER])
    )
    spec = msgspec.structs.replace(stored.spec, cluster_ip=cluster_ip, ports=usual if ports is None else ports)
    return msgspec.structs.replace(stored, spec=spec)


def seen(rc: RayCluster, *pods: Pod, **fields: Any) -> Seen:
    """A snapshot with the head Service in place."""
    return Seen(cluster=rc, pods=pods, **{"head_service": service(), **fields})


def plan(situation: Seen, options: ControllerOptions = OPTIONS, now: float = NOW) -> Plan:
    """What is decided."""
    return decide(situation, options, now, ENTROPY)


def creates(found: Plan) -> list[str]:
    """What is to be made, as `noun name`."""
    return [f"{each.subject.noun} {each.name}" for each in found.actions if isinstance(each, Create)]


def deletes(found: Plan) -> list[str]:
    """The names of what is to be removed, in order."""
    return [each.name for each in found.actions if isinstance(each, Delete)]


def after(situation: Seen, done: Plan, now: float = NOW) -> Seen:
    """The situation when a plan has been carried out; removed Pods are leaving, new ones Pending."""
    pods = [_afterwards(each, done, now) for each in situation.pods]
    head_service = situation.head_service
    children = dict(situation.children)
    for each in done.actions:
        if isinstance(each, Create):
            if each.resource == SERVICES and each.name == names.head_service(situation.cluster):
                head_service = stored(msgspec.json.decode(each.body, type=Service), now)
            elif each.resource == PODS:
                pods.append(stored(msgspec.json.decode(each.body, type=Pod), now))
            else:
                kind: Any = Ingress if each.resource == INGRESSES else PartialObject
                children[each.resource, each.name] = stored(msgspec.json.decode(each.body, type=kind), now)
    return replace(
        situation,
        cluster=with_status(situation.cluster, done),
        pods=tuple(pods),
        counted=None,
        head_service=head_service,
        children=children,
    )


def _afterwards(pod: Pod, done: Plan, now: float) -> Pod:
    """A Pod when a plan has been carried out."""
    for action in done.actions:
        if isinstance(action, Delete) and action.uid == pod.metadata.uid:
            return with_metadata(pod, deletion_timestamp=timestamp(now))
        if isinstance(action, Patch) and action.uid == pod.metadata.uid:
            return with_metadata(
                pod, annotations=pod.metadata.annotations | action.patch["metadata"].get("annotations", {})
            )
    return pod


def with_metadata(pod: Pod, **fields: Any) -> Pod:
    """The Pod with other metadata."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


def with_status(rc: RayCluster, done: Plan) -> RayCluster:
    """The cluster with the status that a plan writes."""
    if done.status is None:
        return rc
    merged = merge_patch(rc.status.to_dict(), dict(done.status.patch))
    return msgspec.structs.replace(rc, status=RayClusterStatus.from_dict(merged))


def stored(obj: Any, now: float) -> Any:
    """A new object with what an API server adds."""
    metadata = msgspec.structs.replace(
        obj.metadata, uid=f"uid-{obj.metadata.name}-{now}", creation_timestamp=timestamp(now)
    )
    return msgspec.structs.replace(obj, metadata=metadata)


def grown_up(situation: Seen) -> Seen:
    """The situation when every Pod that is not leaving runs and is ready, and those that are leaving are gone."""
    ready = [PodCondition(type="Ready", status="True")]
    pods = tuple(
        msgspec.structs.replace(each, status=PodStatus(phase="Running", conditions=ready, pod_ip="10.0.0.1"))
        for each in situation.pods
        if not each.is_leaving
    )
    return replace(situation, pods=pods)
