"""What a Pod was made from, field by field: so that a user can be told which changes of a spec wait for new Pods.

Only fields that end up in Pods count. Replicas, Ingress, network policy and what the autoscaler reads by itself take
effect at once; tolerations and scheduling gates belong to those who place Pods.

It is written on every Pod, so it is kept short: `v2:h.rayStartParams=5Sx0,h.c[0].image=Yk1-,rayVersion=b2Jl`. Pods
made before that have a JSON object of the same checksums, and can be read as well.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.v1 import RayClusterSpec, WorkerGroupSpec

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
_READ_BY_THE_AUTOSCALER = frozenset({"idleTimeoutSeconds", "upscalingMode"})
_IN_PODS = ("labels", "numOfHosts", "rayStartParams", "resources")
_PLACEMENT = frozenset({"schedulingGates", "tolerations"})

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
    content = spec.to_dict()
    fields = {name: value for name, value in content.items() if name not in _AT_ONCE}
    if "autoscalerOptions" in fields:
        chosen = fields["autoscalerOptions"]
        fields["autoscalerOptions"] = {
            name: value for name, value in chosen.items() if name not in _READ_BY_THE_AUTOSCALER
        }
    head = {f"headGroupSpec.{path}": value for path, value in _group(content.get("headGroupSpec") or {})}
    return _written({**fields, **head})


def of_worker(group: WorkerGroupSpec) -> str:
    """What the Pods of a worker group are made from, by paths within the group."""
    return _written(dict(_group(group.to_dict())))


def changed(before: str, after: str) -> list[str]:
    """The paths at which two of them differ, in order. One that cannot be read tells nothing."""
    if before == after:
        return []
    old, new = _read(before), _read(after)
    if not old or not new:
        return []
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def _group(group: Json) -> Iterator[tuple[str, Any]]:
    for name in _IN_PODS:
        # One host is what no number means, and what an API server fills in.
        if group.get(name) and (name, group[name]) != ("numOfHosts", 1):
            yield name, group[name]
    template = group.get("template") or {}
    if template.get("metadata"):
        yield "template.metadata", template["metadata"]
    for name, value in (template.get("spec") or {}).items():
        if name in ("containers", "initContainers") and isinstance(value, list):
            for index, container in enumerate(value):
                for key, part in container.items() if isinstance(container, dict) else ():
                    yield f"template.spec.{name}[{index}].{key}", part
        elif name not in _PLACEMENT:
            yield f"template.spec.{name}", value


def _written(fields: Json) -> str:
    """Each path with a checksum of what stands there; values themselves may be secret."""
    sums = (
        f"{_shortened(path)}={_checksum(zlib.crc32(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)))}"
        for path, value in sorted(fields.items())
        if value not in (None, {}, [])
    )
    return _VERSION + ",".join(sums)


def _read(text: str) -> dict[str, str]:
    if text.startswith(_VERSION):
        sums = (each.rpartition("=") for each in text.removeprefix(_VERSION).split(",") if each)
        return {_lengthened(path): checksum for path, _, checksum in sums}
    try:
        found = orjson.loads(text)
        return {path: _checksum(int(checksum, 16)) for path, checksum in found.items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        return {}


def _checksum(crc: int) -> str:
    """Four characters that tell one value of a field from the next."""
    return urlsafe_b64encode(crc.to_bytes(4, "big")[:3]).decode()


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
