from __future__ import annotations

import json
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberay.api.model import DecodeError, Model
from kuberay.api.v1 import (
    AuthOptions,
    HeadGroupSpec,
    ObjectMeta,
    RayCluster,
    RayClusterSpec,
    RayCronJob,
    RayJob,
    RayService,
    WorkerGroupSpec,
)
from tests.api.clusters import group, manifest
from tests.api.upstream import ROOT, manifests, needs_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from kuberay.api.meta import Object


def unknown(model: Any, path: str = "") -> list[str]:
    """Paths of members that no attribute stands for."""
    if isinstance(model, Model):
        members = {name: getattr(model, name) for name in model.__struct_fields__ if name != "extra"}
        found = [f"{path}.{name}" for name, value in model.extra.items() if value not in (None, [], {})]
        return found + [each for name, value in members.items() for each in unknown(value, f"{path}.{name}")]
    if isinstance(model, dict):
        return [each for name, value in model.items() for each in unknown(value, f"{path}.{name}")]
    if isinstance(model, list):
        return [each for index, value in enumerate(model) for each in unknown(value, f"{path}[{index}]")]
    return []


KINDS: dict[str, type[Object]] = {kind.__name__: kind for kind in (RayCluster, RayJob, RayService, RayCronJob)}


class TestReadingAndWriting:
    def test_attributes_are_snake_case_and_the_wire_is_camel_case(self) -> None:
        cluster = RayCluster.from_dict(manifest(group(numOfHosts=2)))
        assert cluster.spec.worker_group_specs[0].num_of_hosts == 2
        assert cluster.to_dict() == manifest(group(numOfHosts=2))

    def test_unknown_fields_survive_at_every_level(self) -> None:
        document = manifest(group(novel={"deep": [1]}), head={"novel": None}, novel="spec")
        document["novel"] = document["metadata"]["novel"] = True
        assert RayCluster.from_dict(document).to_dict() == document

    def test_absent_stays_absent_and_empty_stays_empty(self) -> None:
        specs: list[dict[str, Any]] = [
            {},
            {"workerGroupSpecs": []},
            {"workerGroupSpecs": None},
            {"suspend": False},
            {"authOptions": {}},
        ]
        for spec in specs:
            document = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}
            assert RayCluster.from_dict(document).to_dict() == document

    def test_a_null_reads_as_absent(self) -> None:
        spec = RayCluster.from_dict({"spec": {"suspend": None, "workerGroupSpecs": None}}).spec
        assert spec.suspend is None
        assert spec.worker_group_specs == []

    def test_a_set_attribute_wins_over_the_null_that_was_read(self) -> None:
        spec = RayClusterSpec.from_dict({"suspend": None})
        assert msgspec.structs.replace(spec, suspend=True).to_dict() == {"suspend": True}

    def test_a_template_is_the_very_dict_that_was_given(self) -> None:
        document = manifest()
        cluster = RayCluster.from_dict(document)
        assert cluster.spec.head_group_spec.template is document["spec"]["headGroupSpec"]["template"]

    def test_an_object_built_in_python_says_only_what_was_set(self) -> None:
        cluster = RayCluster(
            spec=RayClusterSpec(
                head_group_spec=HeadGroupSpec(template={"spec": {}}),
                worker_group_specs=[WorkerGroupSpec(group_name="a", replicas=0)],
                auth_options=AuthOptions(enable_k8s_token_auth=True),
            )
        )
        assert cluster.to_dict() == {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "spec": {
                "headGroupSpec": {"template": {"spec": {}}},
                "workerGroupSpecs": [{"groupName": "a", "replicas": 0}],
                "authOptions": {"enableK8sTokenAuth": True},
            },
        }

    def test_caches_may_decode_natively(self) -> None:
        body = msgspec.json.encode(manifest(group(), novel=1))
        cluster = msgspec.json.decode(body, type=RayCluster)
        assert cluster.spec.worker_group_specs[0].group_name == "workers"

    def test_an_object_is_frozen(self) -> None:
        with pytest.raises(AttributeError):
            RayCluster().kind = "Other"  # type: ignore[misc]


class TestBadData:
    @pytest.mark.parametrize(
        ("document", "message"),
        [
            (manifest(group(), group(replicas="3")),
             "spec.workerGroupSpecs[1].replicas: expected an integer, got a string (group 'workers')"),
            (manifest(group(replicas=True)),
             "spec.workerGroupSpecs[0].replicas: expected an integer, got a boolean (group 'workers')"),
            (manifest(group(replicas=1.5)),
             "spec.workerGroupSpecs[0].replicas: expected an integer, got a number (group 'workers')"),
            (manifest(suspend="yes"), "spec.suspend: expected a boolean, got a string"),
            (manifest(head={"rayStartParams": {"num-cpus": 1}}),
             "spec.headGroupSpec.rayStartParams.num-cpus: expected a string, got an integer"),
            (manifest(workerGroupSpecs={}), "spec.workerGroupSpecs: expected a list, got an object"),
            (manifest(workerGroupSpecs=[None]), "spec.workerGroupSpecs[0]: expected an object, got null"),
            (manifest(head={"template": []}), "spec.headGroupSpec.template: expected an object, got a list"),
            ({"metadata": {"annotations": {"a.io/b": 1}}},
             "metadata.annotations[a.io/b]: expected a string, got an integer"),
        ],
    )  # fmt: skip
    def test_a_wrong_type_is_told_with_its_path(self, document: dict[str, Any], message: str) -> None:
        with pytest.raises(DecodeError) as caught:
            RayCluster.from_dict(document)
        assert str(caught.value) == message

    def test_all_wrong_fields_are_named_at_once(self) -> None:
        with pytest.raises(DecodeError) as caught:
            RayCluster.from_dict(manifest(group(replicas="3", priority={}), rayVersion=2))
        assert {problem.path for problem in caught.value.problems} == {
            "spec.workerGroupSpecs[0].replicas",
            "spec.workerGroupSpecs[0].priority",
            "spec.rayVersion",
        }

    def test_what_makes_no_sense_without_a_field_is_refused_without_it(self) -> None:
        with pytest.raises(DecodeError, match=r"^spec.workerGroupSpecs\[0\].groupName: is required$"):
            RayCluster.from_dict({"spec": {"workerGroupSpecs": [{"replicas": 1}]}})

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"nul", b"\xff", b"[" * 5000])
    def test_what_is_not_an_object_is_refused_in_words(self, body: bytes) -> None:
        with pytest.raises(DecodeError, match=r"not JSON|expected an object"):
            RayCluster.from_json(body)

    def test_a_whole_number_written_with_a_fraction_is_an_integer(self) -> None:
        assert RayCluster.from_dict(manifest(group(replicas=2.0))).spec.worker_group_specs[0].replicas == 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=8,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Any: json_values,
}


def documents_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any JSON value that is of a type: its fields present or not, null, empty or full, with unknown ones beside."""
    choices = [choice for choice in get_args(hint) if choice is not NoneType]
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([documents_of(choice) for choice in choices])
    if get_origin(hint) is list:
        return st.lists(documents_of(choices[0]), max_size=2)
    if get_origin(hint) is dict:
        return st.dictionaries(st.text(max_size=5), documents_of(choices[1]), max_size=2)
    if hint in SCALARS:
        return SCALARS[hint]
    return st.deferred(lambda: _objects_of(hint))


@cache
def _objects_of(kind: type[Model]) -> st.SearchStrategy[dict[str, Any]]:
    hints = get_type_hints(kind)
    fields = [field for field in msgspec.structs.fields(kind) if field.name != "extra"]
    # What a kind says of itself is written even when it was not read.
    needed = {field.encode_name for field in fields if field.required or field.name in ("api_version", "kind")}
    members = {field.encode_name: documents_of(hints[field.name]) for field in fields}
    known = st.fixed_dictionaries(
        {name: values for name, values in members.items() if name in needed},
        optional={name: st.none() | values for name, values in members.items() if name not in needed},
    )
    unknown = st.dictionaries(st.text(max_size=6).map(lambda key: f"x{key}"), json_values, max_size=2)
    return st.builds(lambda given, more: more | given, known, unknown)


class TestLosslessness:
    @pytest.mark.parametrize("kind", KINDS.values())
    @settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.data())
    def test_reading_and_writing_any_object_changes_nothing(self, kind: type[Model], data: st.DataObject) -> None:
        document = data.draw(documents_of(kind))
        read = kind.from_dict(document)
        assert read.to_dict() == document
        assert kind.from_json(read.to_json()) == read

    @needs_upstream
    @pytest.mark.parametrize("document", manifests(without=["rejected-start-param-number"]))
    def test_upstream_manifests_are_read_whole_and_written_back_unchanged(self, document: dict[str, Any]) -> None:
        read = KINDS[document["kind"]].from_dict(document)
        assert read.to_dict() == document
        assert [path for path in unknown(read) if path.startswith((".spec", ".status"))] == []

    @needs_upstream
    @pytest.mark.parametrize(
        "file", sorted(ROOT.glob("made-by-go/*/*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
    )
    def test_what_other_operators_stored_is_read_whole_with_its_status(self, file: Path) -> None:
        objects = [each for each in json.loads(file.read_text())["objects"] if each["kind"] in KINDS]
        for stored in objects:
            read = KINDS[stored["kind"]].from_dict(stored)
            assert read.to_dict() == stored
            assert [path for path in unknown(read) if path.startswith((".spec", ".status"))] == []
            assert msgspec.convert(stored, KINDS[stored["kind"]]).metadata == msgspec.convert(
                stored["metadata"], ObjectMeta
            )
        assert objects
