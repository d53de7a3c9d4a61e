"""NetworkPolicies around a cluster: Ray's own traffic, what the user allows, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.build import labels, names
from kuberay.build.ownership import owner_reference

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.api.v1.options import GroupNetworkRules, NetworkPolicyOptions, NetworkRules

Json = dict[str, Any]

JOB_SUBMISSION_MODE = "ray.io/job-submission-mode"

_TYPES = {
    "DenyAll": ["Ingress", "Egress"],
    "DenyAllIngress": ["Ingress"],
    "DenyAllEgress": ["Egress"],
}


def policies(cluster: RayCluster) -> list[Json]:
    """The policies that a cluster asks for: one for its head, one for each group of workers."""
    options = cluster.spec.network_policy
    if options is None:
        return []
    made = [_head(cluster, options)]
    own = {rules.group_name: rules for rules in options.worker_groups}
    for group in cluster.spec.worker_group_specs:
        rules = own.get(group.group_name, options.worker)
        made.append(
            _policy(
                cluster,
                options,
                name=names.worker_network_policy(cluster, group.group_name),
                group=group.group_name,
                selector={labels.NODE_TYPE: names.WORKER, labels.GROUP: group.group_name},
                rules=rules,
            )
        )
    return made


def _head(cluster: RayCluster, options: NetworkPolicyOptions) -> Json:
    return _policy(
        cluster,
        options,
        name=names.head_network_policy(cluster),
        group=names.HEAD_GROUP,
        selector={labels.NODE_TYPE: names.HEAD},
        rules=options.head,
        more_ingress=_from_submitter(cluster),
    )


def _policy(
    cluster: RayCluster,
    options: NetworkPolicyOptions,
    *,
    name: str,
    group: str,
    selector: dict[str, str],
    rules: NetworkRules | GroupNetworkRules | None,
    more_ingress: list[Json] | None = None,
) -> Json:
    types = _TYPES.get(options.mode or "DenyAll", _TYPES["DenyAll"])
    among_themselves = [{"podSelector": {"matchLabels": {labels.CLUSTER: cluster.name}}}]
    spec: Json = {
        "podSelector": {"matchLabels": {labels.CLUSTER: cluster.name, **selector}},
        "policyTypes": types,
    }
    if "Ingress" in types:
        own = rules.ingress_rules if rules is not None else []
        spec["ingress"] = [{"from": among_themselves}, *(more_ingress or ()), *own]
    if "Egress" in types:
        own = rules.egress_rules if rules is not None else []
        spec["egress"] = [{"to": among_themselves}, *own]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": {
                labels.CLUSTER: cluster.name,
                labels.GROUP: group,
                labels.APP_NAME: labels.APPLICATION,
                labels.CREATED_BY: labels.COMPONENT,
            },
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": spec,
    }


def _from_submitter(cluster: RayCluster) -> list[Json]:
    """A RayJob's submitter is no Pod of the cluster, and has to reach its dashboard."""
    owner = cluster.metadata.controller
    if (
        cluster.metadata.labels.get(JOB_SUBMISSION_MODE) != "K8sJobMode"
        or owner is None
        or owner.kind != "RayJob"
        or not owner.api_version.startswith("ray.io/")
    ):
        return []
    submitter = {labels.ORIGINATED_FROM_CR_NAME: owner.name, labels.ORIGINATED_FROM_CRD: "RayJob"}
    return [
        {
            "from": [{"podSelector": {"matchLabels": submitter}}],
            "ports": [{"protocol": "TCP", "port": _dashboard_port(cluster)}],
        }
    ]


def _dashboard_port(cluster: RayCluster) -> int:
    text = cluster.spec.head_group_spec.ray_start_params.get("dashboard-port", "")
    return int(text) if text.isdecimal() and len(text) < 6 else names.DEFAULT_PORTS["dashboard"]
