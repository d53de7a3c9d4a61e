"""The operator's Configuration file: the same settings as the flags, and a few that no flag can hold.

It is KubeRay's `config.ray.io/v1alpha1` Configuration, as charts put it into a ConfigMap. Fields it does not know are
left alone and told of; a field of the wrong type is an error. So is what it would put into Pods that no API server
takes: told once, when the operator starts, rather than by every Pod that is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kuberay.api import documents, kubernetes, names, structural
from kuberay.api.problems import Problem, shown
from kuberay.api.validate.pods import annotation_problems, label_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

API_VERSION = "config.ray.io/v1alpha1"
KIND = "Configuration"


class ConfigurationError(ValueError):
    """The file does not hold a Configuration; the message says where and why."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the file says. Empty and zero mean the default, as if the field were not there."""

    metrics_addr: str = ""
    probe_addr: str = ""
    enable_leader_election: bool = True
    leader_election_namespace: str = ""
    reconcile_concurrency: int = 0
    watch_namespace: str = ""
    log_file: str = ""
    log_file_encoder: str = ""
    log_stdout_encoder: str = ""
    batch_scheduler: str = ""
    enable_batch_scheduler: bool = False
    head_sidecar_containers: list[dict[str, Any]] = []
    worker_sidecar_containers: list[dict[str, Any]] = []
    default_container_envs: list[dict[str, Any]] = []
    default_pod_annotations: dict[str, str] = {}
    default_pod_labels: dict[str, str] = {}
    use_kubernetes_proxy: bool = False
    delete_ray_job_after_job_finishes: bool = False
    enable_metrics: bool = False
    qps: float = 0.0
    burst: int = 0
    writes_in_flight: int = 0
    """Not one of KubeRay's."""


_PARTS_OF_PODS = {
    "headSidecarContainers": "Container",
    "workerSidecarContainers": "Container",
    "defaultContainerEnvs": "EnvVar",
}
"""The fields that are lists of parts of a Pod, and of which type."""

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")

KNOWN_FIELDS = frozenset(Configuration.__struct_encode_fields__) | {"apiVersion", "kind", "metadata"}


def read(text: str) -> tuple[Configuration, list[str]]:
    """A Configuration from YAML or JSON, and the fields of it that mean nothing here.

    :raises ConfigurationError: it is not one.
    """
    try:
        values = [document.value for document in documents.read(text)]
    except documents.Unreadable as error:
        raise ConfigurationError(f"line {error.line}: {error}") from error
    if len(values) != 1 or not isinstance(values[0], dict):
        raise ConfigurationError(f"one object of kind {KIND} is wanted")
    value: dict[str, Any] = values[0]
    found = value.get("apiVersion"), value.get("kind")
    if found != (API_VERSION, KIND):
        raise ConfigurationError(f"apiVersion {API_VERSION} and kind {KIND} are wanted, not {found[0]} and {found[1]}")
    known = {name: each for name, each in value.items() if name in KNOWN_FIELDS and each is not None}
    try:
        made = msgspec.convert(known, Configuration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error)) from error
    unknown = sorted(value.keys() - KNOWN_FIELDS)
    problems = [
        *label_problems(made.default_pod_labels, "defaultPodLabels"),
        *annotation_problems(made.default_pod_annotations, "defaultPodAnnotations"),
    ]
    for name in sorted(_PARTS_OF_PODS.keys() & known.keys()):
        for problem in _part_problems(known[name], name):
            if isinstance(problem, structural.UnknownField):
                unknown.append(problem.path)  # a cluster may be newer than the types we know
            else:
                problems.append(problem)
    if problems:
        raise ConfigurationError("; ".join(sorted(map(str, problems))))
    return made, unknown


def _part_problems(parts: list[Any], name: str) -> Iterator[Problem]:
    """What is wrong with a list of parts of Pods; only of those that have the right types can more be said."""
    type = _PARTS_OF_PODS[name]
    schema = {"type": "array", "items": kubernetes.embedded(type)}
    parts = structural.defaulted(parts, schema)
    found = structural.problems(parts, schema, path=name)
    yield from found
    if all(isinstance(each, structural.UnknownField) for each in found):
        yield from (_container_problems if type == "Container" else _variable_problems)(parts, name)


def _container_problems(containers: list[dict[str, Any]], path: str) -> Iterator[Problem]:
    """What an API server refuses of sidecars.

    How the container is called that Ray runs in is up to each cluster, so that is no matter of this file.
    """
    taken: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        name, policy = container["name"], container.get("imagePullPolicy")
        if wrong := names.dns_1123_label(name):
            yield Problem(f"{where}.name", wrong)
        elif name in taken:
            yield Problem(f"{where}.name", f"{shown(name)} is the name of another container, too")
        taken.add(name)
        if not container.get("image"):
            yield Problem(f"{where}.image", "is required")
        if policy and policy not in _PULL_POLICIES:
            yield Problem(f"{where}.imagePullPolicy", f"{shown(policy)} is none of {', '.join(_PULL_POLICIES)}")
        for number, port in enumerate(container.get("ports") or ()):
            if not 1 <= port["containerPort"] <= 65535:
                wrong = f"must be between 1 and 65535, not {port['containerPort']}"
                yield Problem(f"{where}.ports[{number}].containerPort", wrong)
        yield from _variable_problems(container.get("env") or [], f"{where}.env")


def _variable_problems(variables: list[dict[str, Any]], path: str) -> Iterator[Problem]:
    """What an API server refuses of environment variables."""
    for index, variable in enumerate(variables):
        where, name = f"{path}[{index}]", variable["name"]
        if not name or "=" in name:
            yield Problem(f"{where}.name", f"{shown(name)} is no name of a variable: none is empty or has a '='")
        if variable.get("value") and variable.get("valueFrom"):
            yield Problem(f"{where}.valueFrom", "cannot stand beside a value")
