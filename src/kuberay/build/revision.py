"""A short name for what a spec says, without the parts that may change while its Pods live on.

It is written on head Pods and compared when a cluster is upgraded by recreation. Only equality counts; the value is
opaque, and need not be the one that another operator computes for the same spec. It does not depend on how a spec is
spelled (an empty list is no list, and Ray's autoscaler leaves some behind), nor on which defaults an API server has
filled in: one with the slim CRDs leaves out those of templates, and one with older CRDs those of fields unknown to it.

Heads that run know it by the name that the operator which made them gave it. So whenever this gives other names than
before, the version of the operator has to be another one, too: it is what keeps those heads from being replaced.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api import structural
from kuberay.api.shapes import POD_TEMPLATE, SERVICE, shape, spec_schema
from kuberay.api.spelling import respelled
from kuberay.api.templates import mapping

if TYPE_CHECKING:
    from kuberay.api.v1 import RayClusterSpec


def revision(spec: RayClusterSpec) -> str:
    """32 characters that change when the Pods would have to be made anew, and not when they are scaled or moved."""
    content: dict[str, Any] = respelled(structural.defaulted(spec.known(), spec_schema()), spec_schema())
    content.pop("upgradeStrategy", None)
    head = content.get("headGroupSpec") or {}
    if "headService" in head:
        head = {**head, "headService": shape(SERVICE, head["headService"]).meaning}
    content["headGroupSpec"] = _without_placement(head)
    content["workerGroupSpecs"] = [_worker_group(group) for group in content.get("workerGroupSpecs") or []]
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha1(text, usedforsecurity=False).digest()
    return base64.b32hexencode(digest).decode()


def _worker_group(group: dict[str, Any]) -> dict[str, Any]:
    scale = {key: value for key, value in (group.get("scaleStrategy") or {}).items() if key != "workersToDelete"}
    kept = {
        key: value
        for key, value in group.items()
        if key not in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
    }
    return _without_placement({**kept, "scaleStrategy": scale} if scale else kept)


def _without_placement(group: dict[str, Any]) -> dict[str, Any]:
    """Tolerations and gates are changed on running Pods by those who place them, such as Kueue."""
    template = shape(POD_TEMPLATE, group.get("template") or {}).meaning
    pod_spec = {
        key: value for key, value in mapping(template, "spec").items() if key not in ("tolerations", "schedulingGates")
    }
    return {**group, "template": {**template, "spec": pod_spec}}
