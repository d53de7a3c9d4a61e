"""One spelling for what can be written in several: another spelling is no change of a spec.

Kubernetes keeps its own objects this way, and writes `1000m` as `1` and no list that is empty. What a custom resource
holds is stored as it was written, so whoever compares two of them has it respelled first.

An empty value is the same as none, unless being there says something by itself. In Kubernetes' own types that is so for
pointers (`emptyDir: {}`, `automountServiceAccountToken: false`), and their schemas tell which are: see
`kubernetes.compared`. In the types of `ray.io` it is so for all but texts, lists and maps: `suspend: false` ends a
suspension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.api.kubernetes import POINTER
from kuberay.kube import quantity
from kuberay.kube.quantity import Notation, Quantity

if TYPE_CHECKING:
    from kuberay.api.structural import Schema

_MEBI = 2**20 * 10**9


def respelled(value: Any, schema: Schema) -> Any:
    """The same value: amounts in one notation, and without what means the same as none."""
    if isinstance(value, dict):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        result = {}
        for key, member in value.items():
            inner = fields.get(key, rest)
            if not isinstance(inner, dict):
                result[key] = member
                continue
            new = respelled(member, inner)
            if key in fields and _means_none(new, inner):
                new = inner.get("default")
                if _means_none(new, inner):
                    continue
            result[key] = new
        return result
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [respelled(element, schema["items"]) for element in value]
    return _amount(value) if _is_amount(schema) else value


def _means_none(value: Any, schema: Schema) -> bool:
    """Whether a field could as well be left away."""
    if value is None:
        return True
    if schema.get(POINTER, not (schema.get("type") == "string" or _is_collection(schema))):
        return False
    return not value or (value == "0" and _is_amount(schema))


def _is_collection(schema: Schema) -> bool:
    """Whether it is a list or a map, rather than an object whose mere presence may say something."""
    return "items" in schema or isinstance(schema.get("additionalProperties"), dict)


def _is_amount(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-int-or-string")) and "pattern" in schema


def _amount(value: Any) -> Any:
    """Whole mebibytes as such, and all else by tens: `1073741824` is `1Gi`, and `1e3` is `1k`."""
    try:
        nano = quantity.parse(value).nano
    except ValueError:
        return value
    return str(Quantity(nano, Notation.DECIMAL if nano % _MEBI else Notation.BINARY))
