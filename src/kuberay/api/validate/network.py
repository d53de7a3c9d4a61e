"""Rules for the cluster's network: policies and mutual TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import names, templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kuberay.api.v1 import GroupNetworkRules, NetworkRules
    from kuberay.api.validate.subject import Subject

TLS_VOLUME = "ray-tls"
TLS_MOUNT_PATH = "/etc/ray/tls"
TLS_VARIABLES = ("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def network_policy_problems(subject: Subject) -> Iterator[Problem]:
    """Rules only for the direction that is closed, and only for groups that exist."""
    policy = subject.spec.network_policy
    if policy is None:
        return
    if Gate.RAY_CLUSTER_NETWORK_POLICY not in subject.gates:
        yield Problem(subject.at("networkPolicy"), f"needs the feature gate {Gate.RAY_CLUSTER_NETWORK_POLICY}")
    mode = policy.mode or "DenyAll"
    for field, rules in (("head", policy.head), ("worker", policy.worker)):
        if rules is not None:
            yield from _direction_problems(rules, mode, subject.at(f"networkPolicy.{field}"))
    for index, group in enumerate(subject.spec.worker_group_specs):
        if wrong := names.dns_1123_label(group.group_name):
            yield Problem(
                subject.at(f"workerGroupSpecs[{index}].groupName"), f"{wrong}; networkPolicy names objects after it"
            )
    known = {group.group_name for group in subject.spec.worker_group_specs}
    for index, entry in enumerate(policy.worker_groups):
        path = subject.at(f"networkPolicy.workerGroups[{index}]")
        yield from _direction_problems(entry, mode, path)
        if entry.group_name not in known:
            yield Problem(f"{path}.groupName", f"no worker group is named {shown(entry.group_name)}")


def _direction_problems(rules: NetworkRules | GroupNetworkRules, mode: str, path: str) -> Iterator[Problem]:
    if mode == "DenyAllEgress" and rules.ingress_rules:
        yield Problem(f"{path}.ingressRules", "has no use in mode DenyAllEgress: ingress is not restricted")
    if mode == "DenyAllIngress" and rules.egress_rules:
        yield Problem(f"{path}.egressRules", "has no use in mode DenyAllIngress: egress is not restricted")


def tls_problems(subject: Subject) -> Iterator[Problem]:
    """What the operator sets up for TLS must not be set up by the user as well."""
    options = subject.spec.tls_options
    if options is None:
        return
    if Gate.RAY_CLUSTER_MTLS not in subject.gates:
        yield Problem(subject.at("tlsOptions"), f"needs the feature gate {Gate.RAY_CLUSTER_MTLS}")
    if not options.enabled:
        return
    spec = subject.spec
    ray_container = "template.spec.containers[0]"
    places: list[tuple[str, dict[str, Any]]] = [(f"headGroupSpec.{ray_container}", subject.head_container)]
    places += [
        (f"workerGroupSpecs[{index}].{ray_container}", templates.ray_container(group.template))
        for index, group in enumerate(spec.worker_group_specs)
    ]
    if spec.autoscaler_options is not None:
        sidecar = {"env": spec.autoscaler_options.env, "volumeMounts": spec.autoscaler_options.volume_mounts}
        places.append(("autoscalerOptions", sidecar))
    for path, container in places:
        for index, variable in enumerate(templates.objects(container, "env")):
            if (name := templates.text(variable, "name")) in TLS_VARIABLES:
                yield Problem(subject.at(f"{path}.env[{index}]"), f"{name} is set by the operator for TLS; remove it")
        for index, mount in enumerate(templates.objects(container, "volumeMounts")):
            if templates.text(mount, "name") == TLS_VOLUME or templates.text(mount, "mountPath") == TLS_MOUNT_PATH:
                yield Problem(
                    subject.at(f"{path}.volumeMounts[{index}]"),
                    f"the mount {TLS_VOLUME} at {TLS_MOUNT_PATH} is made by the operator for TLS",
                )
