"""One spelling for what can be written in several: another spelling is no change of a spec.

Kubernetes keeps its own objects this way, and writes `1000m` as `1` and no list that is empty. What a custom resource
holds is stored as it was written, so whoever compares two of them has it respelled first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.kube import quantity

if TYPE_CHECKING:
    from kuberay.api.structural import Schema

_MEANS_NONE: dict[str, object] = {
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "metadata": {},
    "rayVersion": "",
    "readOnly": False,
    "resources": {},
    "serviceType": "",
    "stdin": False,
    "stdinOnce": False,
    "tty": False,
    "value": "",
}
"""Fields of templates and clusters, and what says no more than leaving them away. Elsewhere it may: `emptyDir: {}`."""


def respelled(value: Any, schema: Schema) -> Any:
    """The same value: amounts as Kubernetes writes them, and without what means the same as none."""
    if isinstance(value, dict):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        result = {}
        for key, member in value.items():
            inner = fields.get(key, rest)
            if not isinstance(inner, dict):
                result[key] = member
                continue
            new = respelled(member, inner)
            is_none = key in fields and key in _MEANS_NONE and new == _MEANS_NONE[key]
            if not is_none and (new or not _is_collection(inner)):
                result[key] = new
        return result
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [respelled(element, schema["items"]) for element in value]
    return _amount(value) if schema.get("x-kubernetes-int-or-string") and "pattern" in schema else value


def _is_collection(schema: Schema) -> bool:
    """Whether it is a list or a map, rather than an object whose mere presence may say something."""
    return "items" in schema or isinstance(schema.get("additionalProperties"), dict)


def _amount(value: Any) -> Any:
    try:
        return str(quantity.parse(value))
    except ValueError:
        return value
