"""Rules for the history server's collector: where it writes, and what that place needs to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kuberay.api.v1 import CollectorOptions
    from kuberay.api.validate.subject import Subject

COLLECTOR_CONTAINER = "ray-history-collector"

_RESERVED = frozenset(
    {
        "POD_IP", "FQ_RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE",
        "RAY_ROLE", "OWNER_KIND", "OWNER_NAME", "EVENTS_PORT",
    }
)  # fmt: skip

_COLLECTOR = "historyServerOptions.collectorOptions"


def history_problems(subject: Subject) -> Iterator[Problem]:
    """All rules about the history server."""
    options = subject.spec.history_server_options
    if options is None:
        return
    if Gate.RAY_CLUSTER_HISTORY_SERVER not in subject.gates:
        yield Problem(subject.at("historyServerOptions"), f"needs the feature gate {Gate.RAY_CLUSTER_HISTORY_SERVER}")
    collector = options.collector_options
    if collector is None:
        yield Problem(subject.at(_COLLECTOR), "must be set")
        return
    if not collector.image:
        yield Problem(subject.at(f"{_COLLECTOR}.image"), "must be set")
    yield from _variable_problems(subject, collector)
    groups = [("headGroupSpec", subject.spec.head_group_spec.template)]
    groups += [
        (f"workerGroupSpecs[{index}]", group.template) for index, group in enumerate(subject.spec.worker_group_specs)
    ]
    for path, template in groups:
        for index, container in enumerate(templates.containers(template)):
            if templates.text(container, "name") == COLLECTOR_CONTAINER:
                yield Problem(
                    subject.at(f"{path}.template.spec.containers[{index}].name"),
                    f"{COLLECTOR_CONTAINER} is the name of the operator's own container",
                )


def _variable_problems(subject: Subject, collector: CollectorOptions) -> Iterator[Problem]:
    path = subject.at(f"{_COLLECTOR}.env")
    for index, variable in enumerate(collector.env):
        name = templates.text(variable, "name")
        if name in _RESERVED:
            yield Problem(f"{path}[{index}]", f"{name} is set by the operator")
    variables = templates.environment({"env": collector.env})
    backend = templates.text(variables.get("STORAGE_BACKEND"), "value").upper()
    if not backend:
        yield Problem(path, "STORAGE_BACKEND must be set, as a literal value")
        return
    given = {name for name, each in variables.items() if each.get("value") or each.get("valueFrom")}
    for choices in _needed(backend, variables):
        if given.isdisjoint(choices):
            yield Problem(path, f"{' or '.join(choices)} must be set when STORAGE_BACKEND is {backend}")


def _needed(backend: str, variables: Mapping[str, dict[str, object]]) -> list[tuple[str, ...]]:
    """The variables a backend wants; of several in one entry any will do. Unknown backends want nothing."""
    match backend:
        case "GCS":
            return [("GCS_BUCKET",)]
        case "S3":
            return [("S3_REGION",)]
        case "ALIYUNOSS":
            return [("OSS_BUCKET",), ("OSS_ENDPOINT",), ("OSS_REGION",)]
        case "AZUREBLOB":
            mode = templates.text(variables.get("AZURE_STORAGE_AUTH_MODE"), "value").strip().lower()
            if mode == "connection_string":
                return [("AZURE_STORAGE_CONNECTION_STRING",)]
            if mode in ("workload_identity", "default"):
                return [("AZURE_STORAGE_ACCOUNT_URL",)]
            return [("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_URL")]
        case _:
            return []
