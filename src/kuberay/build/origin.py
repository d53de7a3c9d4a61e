"""What a Pod or Service was made from, field by field: so that a user can be told which changes of a spec wait for new
Pods, and a Service can follow the spec that it was made from.

Of Pods, only fields that end up in them count. Replicas, Ingress, network policy, the volume claim and what the
autoscaler reads by itself take effect at once, or without Pods; tolerations and scheduling gates belong to those who
place Pods. Another spelling of the same value is no change.

It is written on every Pod, so it is kept short: `v2:h.rayStartParams=5Sx0,h.c[0].image=Yk1-,rayVersion=b2Jl`. Pods
made before that have a JSON object of the same checksums, and can be read as well.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import orjson

from kuberay.api import structural
from kuberay.api.shapes import POD_TEMPLATE, SERVICE, shape, spec_schema
from kuberay.api.spelling import respelled
from kuberay.api.templates import mapping, ray_container

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kuberay.api.v1 import RayClusterSpec

Json = dict[str, Any]

_AT_ONCE = frozenset(
    {
        "headGroupSpec",
        "headServiceAnnotations",
        "managedBy",
        "networkPolicy",
        "suspend",
        "upgradeStrategy",
        "workerGroupSpecs",
    }
)
_ELSEWHERE = {
    "autoscalerOptions": frozenset({"idleTimeoutSeconds", "upscalingMode"}),
    "storage": frozenset({"accessModes", "deletionPolicy", "size", "storageClassName"}),
}
"""Parts of fields that are read by the autoscaler, or go into the volume claim."""
_IN_PODS = ("labels", "numOfHosts", "rayStartParams", "resources")
_PLACEMENT = frozenset({"schedulingGates", "tolerations"})

CLUSTER = "^"
"""Before the paths of a worker's fields that are not its group's, but the whole cluster's."""
SERVICE_ANNOTATIONS = "headServiceAnnotations."
SERVICE_TYPE = "headGroupSpec.serviceType"
HEAD_LABELS = "headGroupSpec.labels"
TEMPLATE_LABELS = "headGroupSpec.template.metadata.labels"
CONTAINER_PORTS = "headGroupSpec.template.spec.containers[0].ports"
HEAD_SERVICE_LABELS = "headGroupSpec.headService.metadata.labels."
HEAD_SERVICE_ANNOTATIONS = "headGroupSpec.headService.metadata.annotations."
HEAD_SERVICE_SPEC = "headGroupSpec.headService.spec."

_VERSION = "v2:"
_WORDS = {
    "headGroupSpec.": "h.",
    "template.spec.containers[": "c[",
    "template.spec.initContainers[": "i[",
    "template.spec.": "s.",
    "template.": "t.",
}


def of_head(spec: RayClusterSpec) -> str:
    """What a head Pod is made from: the fields of its group, and those that concern the whole cluster."""
    content = spec.known()
    head = {f"headGroupSpec.{path}": value for path, value in _group(content.get("headGroupSpec") or {})}
    return _written({**_shared(spec, content), **head})


def of_workers(spec: RayClusterSpec) -> list[str]:
    """What the Pods of each worker group are made from, by paths within the group and `CLUSTER` paths."""
    content = spec.known()
    shared = _shared(spec, content)
    common = {
        "authOptions": shared.get("authOptions"),
        "autoscalerOptions": spec.autoscaler_version == "v2" if spec.is_autoscaling else None,
        "gcsFaultToleranceOptions": "gcsFaultToleranceOptions" in shared,
        "headGroupSpec.rayStartParams": spec.head_group_spec.ray_start_params.get("port"),
        "rayVersion": shared.get("rayVersion"),
    }
    fields = {f"{CLUSTER}{path}": value for path, value in common.items() if value}
    return [_written({**fields, **dict(_group(group))}) for group in content.get("workerGroupSpecs") or []]


def of_head_service(spec: RayClusterSpec) -> str:
    """What a head Service is made from."""
    group = spec.head_group_spec
    given = shape(SERVICE, group.head_service or {}).meaning
    metadata = mapping(given, "metadata")
    fields: Json = {}
    for path, parts in (
        (SERVICE_ANNOTATIONS, spec.head_service_annotations),
        (HEAD_SERVICE_ANNOTATIONS, mapping(metadata, "annotations")),
        (HEAD_SERVICE_LABELS, mapping(metadata, "labels")),
        (HEAD_SERVICE_SPEC, mapping(given, "spec")),
    ):
        fields |= {f"{path}{key}": value for key, value in parts.items()}
    fields[HEAD_LABELS] = group.labels
    fields[TEMPLATE_LABELS] = mapping(mapping(_template(group.template), "metadata"), "labels")
    return _written({**fields, **_exposure(spec)})


def of_serve_service(spec: RayClusterSpec) -> str:
    """What a Service for Serve is made from."""
    return _written(_exposure(spec))


def changed(before: str, after: str) -> list[str]:
    """The paths at which two of them differ, in order. One that cannot be read tells nothing."""
    if before == after:
        return []
    old, new = _read(before), _read(after)
    if old is None or new is None:
        return []
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def with_some(before: str, after: str, paths: Collection[str]) -> str:
    """The one of something that was changed at some paths only."""
    old, new = _read(before) or {}, _read(after) or {}
    kept = {path: checksum for path, checksum in old.items() if path not in paths}
    return _joined({**kept, **{path: checksum for path, checksum in new.items() if path in paths}})


def _shared(spec: RayClusterSpec, content: Json) -> Json:
    """The fields of the whole cluster that end up in Pods."""
    without = set(_AT_ONCE)
    if not spec.is_autoscaling:
        without |= {"autoscalerOptions", "enableInTreeAutoscaling"}
    if spec.auth_options is not None and not spec.auth_options.is_token:
        without.add("authOptions")
    given = {name: _without_elsewhere(name, value) for name, value in content.items() if name not in without}
    return cast(Json, respelled(structural.defaulted(given, spec_schema()), spec_schema()))


def _without_elsewhere(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    elsewhere = _ELSEWHERE.get(name, frozenset())
    return {key: _without_elsewhere(key, part) for key, part in value.items() if key not in elsewhere}


def _exposure(spec: RayClusterSpec) -> Json:
    group = spec.head_group_spec
    ports = ray_container(_template(group.template)).get("ports")
    return {SERVICE_TYPE: group.service_type or None, CONTAINER_PORTS: ports}


def _template(given: Json) -> Json:
    return shape(POD_TEMPLATE, given).meaning


def _group(group: Json) -> Iterator[tuple[str, Any]]:
    for name in _IN_PODS:
        # One host is what no number means, and what an API server fills in.
        if group.get(name) and (name, group[name]) != ("numOfHosts", 1):
            yield name, group[name]
    template = _template(group.get("template") or {})
    for name, value in mapping(template, "metadata").items():
        yield f"template.metadata.{name}", value
    for name, value in mapping(template, "spec").items():
        if name in ("containers", "initContainers") and isinstance(value, list):
            for index, container in enumerate(value):
                for key, part in container.items() if isinstance(container, dict) else ():
                    yield f"template.spec.{name}[{index}].{key}", part
        elif name not in _PLACEMENT:
            yield f"template.spec.{name}", value


def _written(fields: Json) -> str:
    """Each path with a checksum of what stands there; values themselves may be secret."""
    return _joined(
        {
            path: _checksum(zlib.crc32(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)))
            for path, value in fields.items()
            if value not in (None, {}, [])
        }
    )


def _joined(sums: dict[str, str]) -> str:
    return _VERSION + ",".join(f"{_shortened(path)}={checksum}" for path, checksum in sorted(sums.items()))


def _read(text: str) -> dict[str, str] | None:
    if text.startswith(_VERSION):
        sums = (each.rpartition("=") for each in text.removeprefix(_VERSION).split(",") if each)
        return {_lengthened(path): checksum for path, _, checksum in sums}
    try:
        found = orjson.loads(text)
        return {path: _checksum(int(checksum, 16)) for path, checksum in found.items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        return None


def _checksum(crc: int) -> str:
    """Four characters that tell one value of a field from the next."""
    return urlsafe_b64encode(crc.to_bytes(4, "big")[:3]).decode()


@lru_cache(maxsize=4096)
def _shortened(path: str) -> str:
    return _respelled(path, _WORDS)


def _lengthened(path: str) -> str:
    return _respelled(path, {short: long for long, short in _WORDS.items()})


def _respelled(path: str, words: dict[str, str]) -> str:
    """The same path with other words at its beginning: one for the head's group, one within a group."""
    group, *inner = words
    start, rest = (words[group], path.removeprefix(group)) if path.startswith(group) else ("", path)
    found = next((word for word in inner if rest.startswith(word)), None)
    return start + (rest if found is None else words[found] + rest.removeprefix(found))
