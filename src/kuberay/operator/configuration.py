"""The operator's Configuration file: the same settings as the flags, and a few that no flag can hold.

It is KubeRay's `config.ray.io/v1alpha1` Configuration, as charts put it into a ConfigMap. Fields it does not know are
left alone and told of; a field of the wrong type is an error. So is what it would put into Pods that no API server
takes: told once, when the operator starts, rather than by every Pod that is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kuberay.api import documents, kubernetes, structural
from kuberay.api.validate.pods import annotation_problems, label_problems

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
        schema = {"type": "array", "items": kubernetes.embedded(_PARTS_OF_PODS[name])}
        for problem in structural.problems(structural.defaulted(known[name], schema), schema, path=name):
            if isinstance(problem, structural.UnknownField):
                unknown.append(problem.path)  # a cluster may be newer than the types we know
            else:
                problems.append(problem)
    if problems:
        raise ConfigurationError("; ".join(sorted(map(str, problems))))
    return made, unknown
