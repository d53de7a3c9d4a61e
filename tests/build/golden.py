"""What KubeRay's operator makes of manifests, and how it is compared with ours.

Read from `../shared/upstream` when it is there. What the API server adds by itself is listed in `DEFAULTS`; what
differs on purpose stands in `ACCEPTED`, each entry with its reason. Anything else is a failure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from kuberay.api.gates import FeatureGates, Gate
from kuberay.api.problems import errors
from kuberay.api.v1 import RayCluster
from kuberay.api.validate.raycluster import metadata_problems, spec_problems
from kuberay.build.options import BuildOptions
from kuberay.build.unsupported import unsupported
from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

UPSTREAM = Path(__file__).parents[2] / ".." / "shared" / "upstream"

SWITCHES = {
    "ENABLE_LOGIN_SHELL": ("login_shell", True),
    "ENABLE_INIT_CONTAINER_INJECTION": ("init_container_injection", False),
    "ENABLE_PROBES_INJECTION": ("probes_injection", False),
    "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE": ("head_cluster_ip_service", True),
}


class Difference(NamedTuple):
    """One place where a golden object and ours are not equal; `None` means that there is nothing."""

    path: str
    golden: Any
    ours: Any


DEFAULTS: dict[str, list[Any]] = {
    "apiVersion": ["v1"],
    "clusterIP": ["<cluster-ip>"],
    "clusterIPs": [["None"], ["<cluster-ip>"]],
    "dnsPolicy": ["ClusterFirst"],
    "enableServiceLinks": [True],
    "externalTrafficPolicy": ["Cluster"],
    "finalizers": [["kubernetes.io/pvc-protection"]],
    "failureThreshold": [3],
    "imagePullPolicy": ["IfNotPresent", "Always"],
    "internalTrafficPolicy": ["Cluster"],
    "ipFamilies": [["IPv4"]],
    "ipFamilyPolicy": ["SingleStack"],
    "nodePort": ["<node-port>"],
    "allocateLoadBalancerNodePorts": [True],
    "periodSeconds": [10],
    "preemptionPolicy": ["PreemptLowerPriority"],
    "priority": [0],
    "protocol": ["TCP"],
    "resources": [{}],
    "restartPolicy": ["Always"],
    "schedulerName": ["default-scheduler"],
    "scheme": ["HTTP"],
    "securityContext": [{}],
    "sessionAffinity": ["None"],
    "successThreshold": [1],
    "terminationGracePeriodSeconds": [30],
    "terminationMessagePath": ["/dev/termination-log"],
    "terminationMessagePolicy": ["File"],
    "timeoutSeconds": [1],
    "type": ["ClusterIP"],
    "volumeMode": ["Filesystem"],
    "defaultMode": [420],
}
"""What the API server writes when a field is absent, by the field's name."""

_TOLERATIONS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def is_server_default(difference: Difference) -> bool:
    path, golden, ours = difference
    key = path.rpartition(".")[2]
    if key == "value" and golden is None and ours == "":
        return True  # an empty value is not stored
    if key == "cpu" and golden == "1m" and ours is not None:
        return quantity.parse(ours) < quantity.parse("1m")  # the smallest amount of CPU there is
    if ours is not None:
        return False
    if key == "priority":
        return True  # the number of a priority class
    if key.startswith("tolerations["):
        return golden.get("key") in _TOLERATIONS
    if ".requests" in path:
        return True  # requests are copied from limits
    if key == "targetPort":
        return True  # the port itself
    if key == "hostPort":
        return True  # with host networking, the container's port
    if path == "spec.serviceAccount":
        return True  # the old name of serviceAccountName
    if key == "expirationSeconds":
        return bool(golden == 3600)
    return golden in DEFAULTS.get(key, [])


ACCEPTED = {
    "metadata.name": "the head's name is fixed, so that two heads cannot exist; workers' names end in letters of ours",
    "metadata.generateName": "a head with a fixed name needs none",
    "metadata.annotations.ray.io/upgrade-strategy-recreate-hash": "opaque",
    "metadata.annotations.ray.io/kuberay-version": "our version",
    "metadata.annotations.ray.io/made-from": "so that a user can be told which changes wait for new Pods",
    "spec.containers[0].env[FQ_RAY_IP]": "on the head: it can be reached at its own address",
    "spec.containers[0].env[RAY_USAGE_STATS_EXTRA_TAGS].value": "our version",
    "spec.initContainers[wait-gcs-ready].args[0]": "a check that does not import Ray",
}


def differences(golden: Any, ours: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key in sorted(golden.keys() | ours.keys()):
            yield from differences(golden.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif isinstance(golden, list) and isinstance(ours, list):
        yield from _list_differences(golden, ours, path)
    elif isinstance(golden, list) and ours is None and path.endswith("tolerations"):
        yield from _list_differences(golden, [], path)
    elif not _equal(golden, ours):
        yield Difference(path, golden, ours)


def _list_differences(golden: list[Any], ours: list[Any], path: str) -> Iterator[Difference]:
    """Lists of variables and init containers are compared by name, and their order on top; others by position."""
    if path.endswith((".env", ".initContainers")):
        yield from _named_differences(golden, ours, path)
        return
    for index in range(max(len(golden), len(ours))):
        before = golden[index] if index < len(golden) else None
        after = ours[index] if index < len(ours) else None
        yield from differences(before, after, f"{path}[{index}]")


def _named_differences(golden: list[Json], ours: list[Json], path: str) -> Iterator[Difference]:
    before, after = _by_name(golden), _by_name(ours)
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        yield Difference(path, list(before), list(after))
    for name in before.keys() | after.keys():
        yield from differences(before.get(name), after.get(name), f"{path}[{name}]")


def _by_name(entries: list[Json]) -> dict[str, Json]:
    named: dict[str, Json] = {}
    for entry in entries:
        name = entry["name"]
        named[name if name not in named else f"{name}#2"] = entry
    return named


def _equal(golden: Any, ours: Any) -> bool:
    if golden == ours:
        return True
    try:
        return quantity.parse(golden) == quantity.parse(ours)
    except ValueError:
        return False


def is_accepted(difference: Difference) -> bool:
    if "-<rand-" in str(difference.golden) and difference.path.startswith("spec.containers[0]"):
        return True  # "my-head" was taken for a generated name, and `--head` in the command with it
    if difference.path == "spec.containers[0].env[FQ_RAY_IP]":
        return difference.golden is None and difference.ours == {"name": "FQ_RAY_IP", "value": "127.0.0.1"}
    if difference.path == "metadata.annotations" and difference.golden is None:
        return set(difference.ours) == {"ray.io/made-from"}
    return difference.path in ACCEPTED


def records() -> list[Any]:
    """Every manifest of a plain RayCluster whose record is the state of its first rest."""
    found = []
    for manifests, goldens in (("samples", "golden"), ("cases", "cases-golden")):
        for file in sorted((UPSTREAM / manifests).glob("*.yaml")):
            record_file = UPSTREAM / goldens / f"{file.stem}.json"
            if not record_file.exists():
                continue
            record: Json = json.loads(record_file.read_text())
            documents = [each for each in yaml.safe_load_all(file.read_text()) if each]
            clusters = [each for each in documents if each["kind"] == "RayCluster"]
            record["others"] = [each for each in documents if each["kind"] != "RayCluster"]
            if is_comparable(record) and len(clusters) == 1:
                cluster = stored(clusters[0])
                if is_plain(cluster, gates(record)):
                    found.append(pytest.param(cluster, record, id=file.stem))
    return found


def is_comparable(record: Json) -> bool:
    """Whether a record tells what is made of a manifest at first, by an operator that we can be set up like."""
    settings = record.get("settings", {})
    return (
        bool(record["objects"])
        and not record.get("rejected")
        and all(flag.startswith("--feature-gates=") for flag in record.get("flags") or ())
        and "then" not in settings
        and Gate.KUBERNETES_WAS not in gates(record)  # batch schedulers are for later
        and set(record["env"]) <= {*SWITCHES, "USE_INGRESS_ON_OPENSHIFT"}
    )


def stored(document: Json) -> RayCluster:
    """A cluster as an API server stores it."""
    document["metadata"] |= {"namespace": "default", "uid": f"<uid:RayCluster/{document['metadata']['name']}>"}
    for group in document["spec"].get("workerGroupSpecs") or []:
        for field, value in (("replicas", 0), ("minReplicas", 0), ("maxReplicas", 2**31 - 1), ("numOfHosts", 1)):
            if group.get(field) is None:
                group[field] = value
    return RayCluster.from_dict(document)


def gates(record: Json) -> FeatureGates:
    return FeatureGates.parse(",".join(flag.partition("=")[2] for flag in record.get("flags") or ()))


def is_plain(cluster: RayCluster, open_gates: FeatureGates) -> bool:
    problems = [*unsupported(cluster), *metadata_problems(cluster), *spec_problems(cluster, open_gates)]
    return not errors(problems)


def options(record: Json) -> BuildOptions:
    fields: Json = {}
    for name in record["env"]:
        if name in SWITCHES:
            option, value = SWITCHES[name]
            fields[option] = value
    config = (record.get("settings") or {}).get("operator-config") or {}
    return BuildOptions(
        **fields,
        head_sidecars=tuple(config.get("headSidecarContainers", ())),
        worker_sidecars=tuple(config.get("workerSidecarContainers", ())),
        default_labels=config.get("defaultPodLabels", {}),
        default_annotations=config.get("defaultPodAnnotations", {}),
    )
