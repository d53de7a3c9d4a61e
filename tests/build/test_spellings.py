"""Another spelling of a spec is the same spec, and anything else is another one: for every field of the CRD.

The cases are the fields of the generated CRD, Pod templates and Services included, at every level. Each is tried in a
spec that has nothing but the way to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberay.api import kubernetes, structural
from kuberay.api.crd import crd
from kuberay.api.kubernetes import POINTER
from kuberay.api.schema import schema_of
from kuberay.api.spelling import respelled
from kuberay.api.v1 import RayCluster, RayClusterSpec
from kuberay.build import origin, pod
from kuberay.build.options import BuildOptions
from kuberay.build.revision import revision
from tests.build.clusters import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]

ABSENT = object()
TEMPLATE = re.compile(r"\.(template|headService)\.")
MUTED = re.compile(
    r"^(\.upgradeStrategy|\.workerGroupSpecs\[\]\.((min|max)?[rR]eplicas|scaleStrategy)"
    r"|\.(headGroupSpec|workerGroupSpecs\[\])\.template\.spec\.(tolerations|schedulingGates))(\.|\[|$)"
)
"""What may change while Pods live on."""
VALUES = {".headGroupSpec", ".headGroupSpec.template", ".workerGroupSpecs[].template"}
"""Objects of `ray.io` that are never absent: an empty one is none."""


@dataclass(frozen=True)
class Field:
    """A field of the CRD."""

    path: str
    schema: Json
    steps: tuple[str, ...]
    """The keys that lead to it; `[]` is the first element of a list, and `{}` a member of a map."""

    @property
    def zero(self) -> Any:
        """What stands there when nothing does."""
        return {"string": "", "boolean": False, "integer": 0, "array": [], "object": {}}.get(
            self.schema.get("type", ""), 0
        )

    @property
    def is_none_when_empty(self) -> bool:
        """Whether writing the zero value says no more than leaving the field away."""
        if "default" in self.schema and self.schema["default"] == self.zero:
            return True
        is_collection = "items" in self.schema or "additionalProperties" in self.schema
        own = not (self.schema.get("type") == "string" or is_collection or self.path in VALUES)
        return not self.schema.get(POINTER, own)

    def spec(self, value: Any) -> RayClusterSpec:
        """A spec that has this value there, and nothing else beside the way to it."""
        for step in reversed(self.steps):
            if step == "[]":
                value = [value]
            elif step == "{}":
                value = {"k": value}
            else:
                value = {} if value is ABSENT else {step: value}
        groups = [{"groupName": "g", **each} for each in value.get("workerGroupSpecs") or []]
        policy = value.get("networkPolicy") or {}
        for rules in policy.get("workerGroups") or []:
            rules.setdefault("groupName", "g")
        return RayClusterSpec.from_dict({**value, **({"workerGroupSpecs": groups} if groups else {})})


def fields(schema: Json, path: str = "", steps: tuple[str, ...] = ()) -> Iterator[Field]:
    """Every field beneath a schema, at any depth."""
    for key, inner in schema.get("properties", {}).items():
        here, way = f"{path}.{key}", (*steps, key)
        yield Field(here, inner, way)
        yield from fields(inner, here, way)
    for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], path + sign, (*steps, sign))


def filled(schema: Json) -> Any:
    """A value that is not empty."""
    if "enum" in schema:
        return schema["enum"][0]
    if "items" in schema:
        return [filled(schema["items"])]
    if isinstance(schema.get("additionalProperties"), dict):
        return {"k": filled(schema["additionalProperties"])}
    if "properties" in schema:
        name = next((each for each in schema["properties"] if each not in ("replicas", "status")), "")
        return {name: filled(schema["properties"][name])}
    return {"string": "x", "boolean": True, "integer": 7, "object": {"k": "v"}}.get(schema.get("type", ""), 7)


def names(spec: RayClusterSpec) -> tuple[Any, ...]:
    """All that a spec is compared by."""
    return (
        revision(spec),
        origin.of_head(spec),
        origin.of_workers(spec),
        origin.of_head_service(spec),
        origin.of_serve_service(spec),
    )


SCHEMA = schema_of(RayClusterSpec, kubernetes.compared)
FIELDS = [each for each in fields(SCHEMA) if not each.path.endswith("].groupName")]
"""Groups are told apart by their names: there is no group without one."""


def is_amount(field: Field) -> bool:
    return bool(field.schema.get("x-kubernetes-int-or-string")) and "pattern" in field.schema


def test_the_fields_are_those_of_the_crd() -> None:
    def unmarked(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {key: unmarked(value) for key, value in schema.items() if key != POINTER}
        return [unmarked(each) for each in schema] if isinstance(schema, list) else schema

    served = crd("RayCluster")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert unmarked(SCHEMA) == served["properties"]["spec"]
    assert POINTER not in str(served)
    assert len(FIELDS) > 2000


class TestAnyField:
    def test_that_is_null_is_as_good_as_none(self) -> None:
        wrong = [each.path for each in FIELDS if names(each.spec(None)) != names(each.spec(ABSENT))]
        assert wrong == []

    def test_that_is_empty_is_as_good_as_none_unless_being_there_says_something(self) -> None:
        wrong = [
            each.path
            for each in FIELDS
            if each.is_none_when_empty and names(each.spec(each.zero)) != names(each.spec(ABSENT))
        ]
        assert wrong == []

    def test_whose_default_is_written_out_is_as_good_as_none(self) -> None:
        defaulted = [each for each in FIELDS if "default" in each.schema]
        wrong = [
            each.path for each in defaulted if names(each.spec(each.schema["default"])) != names(each.spec(ABSENT))
        ]
        assert len(defaulted) > 50
        assert wrong == []

    def test_that_says_something_when_it_is_empty_counts_then(self) -> None:
        counting = [each for each in FIELDS if not each.is_none_when_empty and not MUTED.search(each.path)]
        wrong = [each.path for each in counting if revision(each.spec(each.zero)) == revision(each.spec(ABSENT))]
        assert len(counting) > 500
        assert wrong == []

    def test_counts_when_it_is_filled_unless_it_may_change_while_pods_live_on(self) -> None:
        wrong = [
            each.path
            for each in FIELDS
            if (revision(each.spec(filled(each.schema))) == revision(each.spec(ABSENT)))
            is not bool(MUTED.search(each.path) or filled(each.schema) == each.schema.get("default"))
        ]
        assert wrong == []

    @pytest.mark.parametrize(
        ("one", "other"),
        [("1", 1), ("1", "1000m"), ("1", "1.0"), ("2Gi", "2048Mi"), ("2Gi", 2 * 2**30), ("1e3", "1k"), ("0.5", "500m")],
    )
    def test_that_is_an_amount_may_be_written_in_any_way(self, one: Any, other: Any) -> None:
        amounts = [each for each in FIELDS if is_amount(each)]
        wrong = [each.path for each in amounts if names(each.spec(one)) != names(each.spec(other))]
        assert len(amounts) > 10
        assert wrong == []

    def test_that_is_another_amount_counts(self) -> None:
        amounts = [each for each in FIELDS if is_amount(each) and not MUTED.search(each.path)]
        for one, other in (("1", "1001m"), ("1Gi", "1G"), ("1", "1k")):
            assert [each.path for each in amounts if revision(each.spec(one)) == revision(each.spec(other))] == []


class TestAFieldThatThisVersionDoesNotKnow:
    """The CRD of a newer KubeRay may fill it in: that is no reason to restart anything."""

    @pytest.mark.parametrize("path", ["", ".headGroupSpec", ".workerGroupSpecs[]", ".autoscalerOptions"])
    def test_counts_for_nothing_in_the_types_of_ray(self, path: str) -> None:
        steps = tuple(re.findall(r"\w+|\[\]", path))
        field = Field(f"{path}.fromTheFuture", {}, (*steps, "fromTheFuture"))
        future: tuple[Any, ...] = (True, 0, [], {"a": 1})
        for value in future:
            assert names(field.spec(value)) == names(field.spec(ABSENT))


class TestPods:
    """Whatever is compared, Pods that would look otherwise are never taken for the same."""

    OPTIONS = BuildOptions()

    def test_that_differ_are_of_specs_that_differ(self) -> None:
        """But for what is changed on running Pods, and for numbers of them."""
        tried, wrong = 0, []
        for field in FIELDS:
            if TEMPLATE.search(field.path):
                continue  # goes into Pods as it is
            for value in (None, field.zero, filled(field.schema)):
                before, after = self.around(field, ABSENT), self.around(field, value)
                if revision(before.spec) == revision(after.spec):
                    tried += 1
                    wrong += [field.path] if self.pods(before) != self.pods(after) else []
        assert tried > 200
        assert wrong == []

    def around(self, field: Field, value: Any) -> RayCluster:
        """A whole cluster with a value somewhere in its spec."""
        base = cluster(enableInTreeAutoscaling=True).to_dict()
        return RayCluster.from_dict(merged(base, {"spec": field.spec(value).to_dict()}))

    def pods(self, cluster: RayCluster) -> list[Any]:
        """Their specs, as an API server would store them."""
        made = [pod.head(cluster, self.OPTIONS)]
        made += [pod.worker(cluster, group, self.OPTIONS) for group in cluster.spec.worker_group_specs]
        schema = kubernetes.compared("PodSpec")
        return [respelled(structural.defaulted(orjson.loads(each.spec), schema), schema) for each in made]


def merged(base: Any, more: Any) -> Any:
    """What is said in addition; the first group of workers is one and the same."""
    if isinstance(base, dict) and isinstance(more, dict):
        return {**base, **{key: merged(base.get(key), each) for key, each in more.items()}}
    if isinstance(base, list) and isinstance(more, list) and base and more and "groupName" in base[0]:
        return [merged(base[0], {key: each for key, each in more[0].items() if key != "groupName"})]
    return more


@st.composite
def values(draw: st.DrawFn, schema: Json, depth: int = 0) -> Any:
    """Values of a schema, most of their fields left away."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(st.sampled_from(["1", "2Gi", "500m"]))
    if "items" in schema:
        return [draw(values(schema["items"], depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    if isinstance(schema.get("additionalProperties"), dict):
        return {key: draw(values(schema["additionalProperties"], depth + 1)) for key in draw(_KEYS)}
    if "properties" in schema:
        known = sorted(schema["properties"])
        chosen = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
        return {key: draw(values(schema["properties"][key], depth + 1)) for key in chosen}
    kinds = {"string": st.sampled_from(["", "x", "y"]), "boolean": st.booleans(), "integer": st.integers(0, 3)}
    return draw(kinds.get(schema.get("type", ""), st.just({})))


_KEYS = st.lists(st.sampled_from(["k", "l"]), max_size=2, unique=True)
_AMOUNTS = {"1": "1000m", "2Gi": "2048Mi", "500m": "0.5"}


def otherwise(draw: Callable[[SearchStrategy[Any]], Any], value: Any, schema: Json, path: str = "") -> Any:
    """The same in another spelling: with empty fields, without them, with nulls and defaults, in another notation."""
    if isinstance(value, dict) and "properties" in schema:
        result = {}
        for key, inner in schema["properties"].items():
            field = Field(f"{path}.{key}", inner, ())
            if key in value:
                new = otherwise(draw, value[key], inner, field.path)
                may_go = field.is_none_when_empty and new == field.zero and "default" not in inner
                if key == "groupName" or not may_go or draw(st.booleans()):
                    result[key] = new
            elif key != "groupName" and field.is_none_when_empty and "default" not in inner:
                choice = draw(st.sampled_from([ABSENT] * 8 + [None, field.zero]))
                if choice is not ABSENT:
                    result[key] = choice
        return result
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        return {key: otherwise(draw, each, inner, path + "{}") for key, each in value.items()}
    if isinstance(value, list):
        return [otherwise(draw, each, schema["items"], path + "[]") for each in value]
    if is_amount(Field(path, schema, ())):
        return _AMOUNTS.get(value, value)
    return value


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_whole_spec_in_another_spelling_is_the_same(data: st.DataObject) -> None:
    group = {"groupName": "g", **data.draw(values(SCHEMA["properties"]["workerGroupSpecs"]["items"]))}
    one = {**data.draw(values(SCHEMA)), "workerGroupSpecs": [{**group, "groupName": "g"}]}
    one.pop("networkPolicy", None)
    other = otherwise(data.draw, one, SCHEMA)
    assert names(RayClusterSpec.from_dict(one)) == names(RayClusterSpec.from_dict(other))
