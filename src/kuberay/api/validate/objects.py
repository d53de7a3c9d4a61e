"""Everything that is wrong with a manifest: schema, CEL rules and the operator's rules, without an API server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kuberay.api import structural
from kuberay.api.crd import DEFINITIONS, crd
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kubernetes import embedded
from kuberay.api.meta import ObjectMeta
from kuberay.api.model import DecodeError
from kuberay.api.problems import Problem, Severity, shown, warning, with_group_names
from kuberay.api.schema import schema_of
from kuberay.api.v1 import RayCluster, RayCronJob, RayJob, RayService
from kuberay.api.validate import raycluster, raycronjob, rayjob, rayservice
from kuberay.api.validate.pods import annotation_problems, cluster_pod_problems, label_problems, pod_problems
from kuberay.api.validate.texts import not_a_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kuberay.api.gates import FeatureGates
    from kuberay.api.v1 import RayJobSpec

GROUP = "ray.io"

_TYPES: dict[str, type[RayCluster | RayJob | RayService | RayCronJob]] = {
    "RayCluster": RayCluster,
    "RayJob": RayJob,
    "RayService": RayService,
    "RayCronJob": RayCronJob,
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What an object is judged by, beyond itself."""

    knows_time_zone: Callable[[str], bool]
    gates: FeatureGates = DEFAULT_GATES
    """Those of the operator that the object is meant for."""


def is_ray_object(document: Any) -> bool:
    """Whether a document says of itself that it is of `ray.io`."""
    version = document.get("apiVersion") if isinstance(document, dict) else None
    return isinstance(version, str) and version.partition("/")[0] == GROUP


def object_problems(document: dict[str, Any], rules: Rules) -> list[Problem]:
    """All problems of a manifest of `ray.io`, those of its shape first."""
    kind, version = document.get("kind"), str(document.get("apiVersion")).partition("/")[2]
    if not isinstance(kind, str) or kind not in DEFINITIONS:
        return [Problem("kind", f"{GROUP} has no kind {shown(kind)}; it has {', '.join(DEFINITIONS)}")]
    schemas = _schemas(kind)
    if version not in schemas:
        return [Problem("apiVersion", f"{GROUP}/{version} is not served for {kind}; use {GROUP}/v1")]
    complete = structural.defaulted(document, schemas[version])
    found = structural.problems(complete, schemas[version])
    if version != "v1":
        found.append(warning("apiVersion", f"{GROUP}/{version} is deprecated and gets no new fields; use {GROUP}/v1"))
    try:
        said = list(_rule_problems(kind, complete, rules))
    except DecodeError as error:
        said = error.problems
    # What has the wrong shape is told once, by its shape.
    shapes = {problem.path for problem in found if problem.severity is Severity.ERROR}
    found += [problem for problem in said if shapes.isdisjoint(_around(problem.path))]
    return with_group_names(found, document)


def _around(path: str) -> Iterator[str]:
    """A path, and the paths of all that it lies in."""
    yield path
    for index, character in enumerate(path):
        if character in ".[":
            yield path[:index]


@cache
def _schemas(kind: str) -> dict[str, dict[str, Any]]:
    """A kind's schemas by version, with the metadata that an API server checks by itself."""
    metadata = schema_of(ObjectMeta, embedded)
    owner = metadata["properties"]["ownerReferences"]["items"]
    owner["required"] = ["apiVersion", "kind", "name", "uid"]
    for field in ("managedFields", "selfLink"):
        metadata["properties"][field] = {"x-kubernetes-preserve-unknown-fields": True}
    schemas = {}
    for version in crd(kind)["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schemas[version["name"]] = {**schema, "properties": {**schema["properties"], "metadata": metadata}}
    return schemas


def _rule_problems(kind: str, document: dict[str, Any], rules: Rules) -> Iterator[Problem]:
    ray_object = _TYPES[kind].from_dict(document)
    yield from label_problems(ray_object.metadata.labels, "metadata.labels")
    yield from annotation_problems(ray_object.metadata.annotations, "metadata.annotations")
    match ray_object:
        case RayCluster() as cluster:
            yield from raycluster.metadata_problems(cluster)
            yield from raycluster.spec_problems(cluster, rules.gates)
            yield from cluster_pod_problems(cluster.spec, "spec")
        case RayJob() as job:
            yield from rayjob.metadata_problems(job)
            yield from rayjob.spec_problems(job, rules.gates)
            yield from _job_pod_problems(job.spec, "spec")
        case RayService() as service:
            yield from rayservice.metadata_problems(service)
            yield from rayservice.spec_problems(service, rules.gates)
            yield from cluster_pod_problems(service.spec.ray_cluster_config, "spec.rayClusterConfig")
            if service.spec.serve_config_v2 and (wrong := not_a_mapping(service.spec.serve_config_v2)):
                yield Problem("spec.serveConfigV2", wrong)
        case RayCronJob() as cron_job:
            yield from raycronjob.metadata_problems(cron_job)
            yield from raycronjob.spec_problems(cron_job, rules.gates, rules.knows_time_zone)
            yield from _job_pod_problems(cron_job.spec.job_template, "spec.jobTemplate")


def _job_pod_problems(spec: RayJobSpec, path: str) -> Iterator[Problem]:
    if spec.ray_cluster_spec is not None:
        yield from cluster_pod_problems(spec.ray_cluster_spec, f"{path}.rayClusterSpec")
    if spec.submitter_pod_template is not None:
        yield from pod_problems(spec.submitter_pod_template, f"{path}.submitterPodTemplate")
