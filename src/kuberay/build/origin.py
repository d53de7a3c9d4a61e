"""What a Pod was made from, field by field: so that a user can be told which changes of a spec wait for new Pods.

Only fields that end up in Pods count. Replicas, Ingress, network policy and what the autoscaler reads by itself take
effect at once; tolerations and scheduling gates belong to those who place Pods.
"""

from __future__ import annotations

import zlib
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
    sums = {
        path: format(zlib.crc32(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)), "08x")
        for path, value in fields.items()
        if value not in (None, {}, [])
    }
    return orjson.dumps(sums, option=orjson.OPT_SORT_KEYS).decode()


def _read(text: str) -> dict[str, str]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
