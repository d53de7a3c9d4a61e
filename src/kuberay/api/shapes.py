"""Pod templates and Services as an API server would take them if it had the full CRDs.

With the slim ones it stores what it is given: without defaults, and whatever its shape. Nothing shall depend on which
of the two a Kubernetes has, so whoever makes something of a spec takes it `completed`, whoever compares what it says
compares its `meaning`, and nothing is made from one whose `problems` hold an error: it could never become a Pod.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from kuberay.api import kubernetes, structural
from kuberay.api.problems import Problem, beneath, warning
from kuberay.api.schema import schema_of
from kuberay.api.spelling import respelled
from kuberay.api.v1 import RayClusterSpec

if TYPE_CHECKING:
    from kuberay.api.facts import Json
    from kuberay.api.structural import Schema

POD_TEMPLATE = "PodTemplateSpec"
SERVICE = "Service"


class Shape(NamedTuple):
    """What the full CRDs would make of a template or a Service."""

    completed: Json
    """With defaults, and without nulls. It is shared: nobody changes it."""
    meaning: Json
    """The same in one spelling. It is shared, too."""
    problems: tuple[Problem, ...]
    """By paths within it. Unknown fields are warnings: they are dropped, or known to a newer Kubernetes."""


def shape(kind: str, value: Json) -> Shape:
    """The shape of a value that is meant to be of a Kubernetes type: `POD_TEMPLATE` or `SERVICE`."""
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        # It is nested without end, or holds a number that no API server knows: there is nothing that could be sent.
        return Shape({}, {}, (*_judged(kind, value).problems, Problem("", f"cannot be written as JSON: {error}")))
    return _known(kind, text)


def shape_problems(spec: RayClusterSpec, path: str = "spec") -> list[Problem]:
    """What the full CRD refuses in Pod templates and the head Service, and the slim CRD lets through.

    For an operator that may run beside either. Fields that are only unknown are warnings.
    """
    head, groups = spec.head_group_spec, spec.worker_group_specs
    parts = [(POD_TEMPLATE, head.template, f"{path}.headGroupSpec.template")]
    if head.head_service is not None:
        parts.append((SERVICE, head.head_service, f"{path}.headGroupSpec.headService"))
    parts += [
        (POD_TEMPLATE, group.template, f"{path}.workerGroupSpecs[{index}].template")
        for index, group in enumerate(groups)
    ]
    return [
        msgspec.structs.replace(problem, path=beneath(where, problem.path))
        for kind, value, where in parts
        for problem in shape(kind, value).problems
    ]


@cache
def spec_schema() -> Schema:
    """That of a cluster's spec, with templates and Services left open: these have shapes of their own."""
    return schema_of(RayClusterSpec, partial(kubernetes.slim, embed=kubernetes.compared))


@lru_cache(maxsize=256)
def _known(kind: str, text: bytes) -> Shape:
    """Kept for a while: thousands of clusters are made from a few manifests."""
    return _judged(kind, _without_nulls(orjson.loads(text)))


def _without_nulls(value: Any) -> Any:
    """Members that are null mean the same as none, in fields that the schema does not know, too."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _judged(kind: str, value: Any) -> Shape:
    schema = kubernetes.compared(kind)
    completed = structural.defaulted(value, schema)
    found = structural.problems(completed, schema)
    return Shape(completed, respelled(completed, schema), tuple(_lenient(each) for each in found))


def _lenient(problem: Problem) -> Problem:
    return warning(problem.path, problem.message) if isinstance(problem, structural.UnknownField) else problem
