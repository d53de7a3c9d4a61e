"""Rules for keeping Ray's cluster state outside the head: one way of asking for it, and only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.api import templates
from kuberay.api.gates import Gate
from kuberay.api.problems import Problem, warning
from kuberay.api.v1.raycluster import ANNOTATION_FT_ENABLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.v1 import GcsFaultToleranceOptions
    from kuberay.api.validate.subject import Subject

ANNOTATION_STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
GCS_VOLUME = "gcs-storage"
GCS_MOUNT_PATH = "/data/gcs"

_OPTIONS = "gcsFaultToleranceOptions"


def fault_tolerance_problems(subject: Subject) -> Iterator[Problem]:
    """All rules about fault tolerance."""
    options = subject.spec.gcs_fault_tolerance_options
    annotation = subject.annotations.get(ANNOTATION_FT_ENABLED, "")
    variables = subject.head_environment
    params = subject.spec.head_group_spec.ray_start_params

    if annotation and options is None:
        yield warning(f"metadata.annotations[{ANNOTATION_FT_ENABLED}]", f"is deprecated; use {_OPTIONS}")
    if options is not None:
        if annotation:
            yield Problem(
                f"metadata.annotations[{ANNOTATION_FT_ENABLED}]", f"must not be set beside {_OPTIONS}; remove it"
            )
        yield from _options_problems(subject, options)
    elif annotation.lower() != "true" and "RAY_REDIS_ADDRESS" in variables:
        yield Problem(
            subject.head_variable_at("RAY_REDIS_ADDRESS"),
            f"RAY_REDIS_ADDRESS has no effect without fault tolerance; set {_OPTIONS}.redisAddress instead",
        )

    if params.get("redis-username"):
        yield Problem(
            subject.at("headGroupSpec.rayStartParams.redis-username"),
            f"is not supported; use {_OPTIONS}.redisUsername",
        )
    if "REDIS_USERNAME" in variables:
        yield Problem(
            subject.head_variable_at("REDIS_USERNAME"),
            f"REDIS_USERNAME must not be set; use {_OPTIONS}.redisUsername",
        )


def _options_problems(subject: Subject, options: GcsFaultToleranceOptions) -> Iterator[Problem]:
    if subject.spec.head_group_spec.ray_start_params.get("redis-password"):
        yield Problem(
            subject.at("headGroupSpec.rayStartParams.redis-password"),
            f"must not be set beside {_OPTIONS}; use {_OPTIONS}.redisPassword",
        )
    for variable, field in (("REDIS_PASSWORD", "redisPassword"), ("RAY_REDIS_ADDRESS", "redisAddress")):
        if variable in subject.head_environment:
            yield Problem(
                subject.head_variable_at(variable),
                f"{variable} must not be set beside {_OPTIONS}; use {_OPTIONS}.{field}",
            )
    if subject.annotations.get(ANNOTATION_STORAGE_NAMESPACE):
        yield Problem(
            f"metadata.annotations[{ANNOTATION_STORAGE_NAMESPACE}]",
            f"must not be set beside {_OPTIONS}; use {_OPTIONS}.externalStorageNamespace",
        )
    if options.is_embedded:
        yield from _embedded_problems(subject, options)
    elif options.storage is not None:
        yield Problem(subject.at(f"{_OPTIONS}.storage"), "is only for backend rocksdb")


def _embedded_problems(subject: Subject, options: GcsFaultToleranceOptions) -> Iterator[Problem]:
    if Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE not in subject.gates:
        yield Problem(
            subject.at(f"{_OPTIONS}.backend"),
            f"rocksdb needs the feature gate {Gate.GCS_FAULT_TOLERANCE_EMBEDDED_STORAGE}",
        )
    foreign = {
        "redisAddress": options.redis_address,
        "redisUsername": options.redis_username,
        "redisPassword": options.redis_password,
        "externalStorageNamespace": options.external_storage_namespace,
    }
    for field, value in foreign.items():
        if value is not None and value != "":
            yield Problem(subject.at(f"{_OPTIONS}.{field}"), "is only for backend redis")
    storage = options.storage
    if storage and storage.claim_name:
        shape = {
            "size": storage.size,
            "storageClassName": storage.storage_class_name,
            "accessModes": storage.access_modes,
        }
        for field, given in shape.items():
            if given is not None and given != []:
                yield Problem(
                    subject.at(f"{_OPTIONS}.storage.{field}"),
                    "cannot be set beside storage.claimName: the claim exists already",
                )
    for variable in ("RAY_gcs_storage", "RAY_gcs_storage_path"):
        if variable in subject.head_environment:
            yield Problem(
                subject.head_variable_at(variable), f"{variable} is set by the operator for backend rocksdb; remove it"
            )
    template = "headGroupSpec.template.spec"
    for index, mount in enumerate(templates.objects(subject.head_container, "volumeMounts")):
        if templates.text(mount, "name") == GCS_VOLUME or templates.text(mount, "mountPath") == GCS_MOUNT_PATH:
            yield Problem(
                subject.at(f"{template}.containers[0].volumeMounts[{index}]"),
                f"the mount {GCS_VOLUME} at {GCS_MOUNT_PATH} is made by the operator for backend rocksdb",
            )
    pod = templates.mapping(subject.spec.head_group_spec.template, "spec")
    for index, volume in enumerate(templates.objects(pod, "volumes")):
        if templates.text(volume, "name") == GCS_VOLUME:
            yield Problem(
                subject.at(f"{template}.volumes[{index}]"),
                f"the volume {GCS_VOLUME} is made by the operator for backend rocksdb",
            )
