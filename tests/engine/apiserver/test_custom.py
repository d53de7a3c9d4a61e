"""Custom resources: definitions, pruning, defaults, validation, rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.apiserver.api import DEFINITIONS, PODS, WIDGETS, Api, definition, pod, widget

UPSTREAM = Path(__file__).parents[4] / "shared" / "upstream"


async def serving(properties: dict[str, Any], **version: Any) -> Api:
    api = Api()
    created = await api.create(DEFINITIONS, definition(properties, **version))
    assert created.status == 201, created.body
    return api


async def stored(api: Api, spec: dict[str, Any]) -> Any:
    created = await api.create(WIDGETS, widget("w", spec))
    assert created.status == 201, created.body
    return created.body["spec"]


async def refused(api: Api, spec: dict[str, Any]) -> list[str]:
    answer = await api.create(WIDGETS, widget("w", spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    return answer.fields


class TestADefinition:
    async def test_is_established_before_the_answer(self, api: Api) -> None:
        created = await api.create(DEFINITIONS, definition())
        conditions = {one["type"]: one["status"] for one in created.body["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert created.body["status"]["acceptedNames"]["listKind"] == "WidgetList"
        assert created.body["status"]["storedVersions"] == ["v1"]
        assert (await api.create(WIDGETS, widget())).status == 201

    async def test_is_served_again_after_a_restart(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        again = Api(storage=widgets.storage)
        assert await again.names(WIDGETS) == ["w"]

    async def test_may_change(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        changed = definition({"size": {"type": "integer"}, "colour": {"type": "string", "default": "red"}})
        assert (await widgets.replace(f"{DEFINITIONS}/widgets.example.com", changed)).status == 200
        assert (await widgets.create(WIDGETS, widget("x"))).body["spec"] == {"size": 1, "colour": "red"}

    async def test_serves_several_versions_of_the_same_objects(self, api: Api) -> None:
        both = definition()
        both["spec"]["versions"].append({**both["spec"]["versions"][0], "name": "v1alpha1", "storage": False})
        await api.create(DEFINITIONS, both)
        await api.create(WIDGETS, widget("w"))
        old = await api.get("/apis/example.com/v1alpha1/namespaces/default/widgets/w")
        assert (old.body["apiVersion"], old.body["spec"]) == ("example.com/v1alpha1", {"size": 1})
        group = (await api.get("/apis/example.com")).body
        assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]

    async def test_defaults_of_another_version_are_no_new_generation(self, api: Api) -> None:
        both = definition({"size": {"type": "integer", "default": 7}, "mode": {"type": "string"}})
        old = json.loads(json.dumps(both["spec"]["versions"][0])) | {"name": "v1alpha1", "storage": False}
        del old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["default"]
        both["spec"]["versions"].append(old)
        await api.create(DEFINITIONS, both)
        alpha = widget("w", {"mode": "on"}) | {"apiVersion": "example.com/v1alpha1"}
        await api.create("/apis/example.com/v1alpha1/namespaces/default/widgets", alpha)
        told = await api.merge(f"{WIDGETS}/w/status", {"status": {"ready": True}})
        assert (told.body["spec"], told.meta["generation"]) == ({"mode": "on", "size": 7}, 1)
        changed = await api.merge(f"{WIDGETS}/w", {"spec": {"size": 8}})
        assert changed.meta["generation"] == 2

    async def test_that_is_not_served_is_not_found(self, api: Api) -> None:
        await api.create(DEFINITIONS, definition(served=False))
        assert (await api.get(WIDGETS)).status == 404

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"group": "other.com"}, "metadata.name"),
            ({"scope": "Everywhere"}, "spec.scope"),
            ({"versions": []}, "spec.versions"),
            ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ],
    )
    async def test_that_cannot_be_served_is_refused_by_field(self, api: Api, change: Any, field: str) -> None:
        body = definition()
        body["spec"] |= change
        answer = await api.create(DEFINITIONS, body)
        assert (answer.status, answer.fields) == (422, [field])

    async def test_with_a_rule_that_cannot_be_evaluated_is_refused_and_says_why(self, api: Api) -> None:
        rule = {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('a+')"}]}
        answer = await api.create(DEFINITIONS, definition({"name": rule}))
        assert answer.status == 422
        assert "matches() is not evaluated here" in answer.message
        assert "x-kubernetes-validations[0].rule" in answer.fields[0]


class TestPruning:
    async def test_unknown_fields_are_dropped_with_a_warning(self, widgets: Api) -> None:
        created = await widgets.create(WIDGETS, widget("w", {"size": 1, "sise": 2}))
        assert created.body["spec"] == {"size": 1}
        assert created.headers["warning"] == '299 - "unknown field \\"spec.sise\\""'

    async def test_strict_validation_refuses_unknown_and_repeated_fields_by_name(self, widgets: Api) -> None:
        head = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","x":1},'
        body = head + b'"spec":{"size":1,"size":2,"sise":3}}'
        answer = await widgets.create(WIDGETS, body, fieldValidation="Strict")
        assert answer.status == 400
        for complaint in ('duplicate field "spec.size"', 'unknown field "spec.sise"', 'unknown field "metadata.x"'):
            assert complaint in answer.message

    async def test_ignoring_says_nothing(self, widgets: Api) -> None:
        created = await widgets.create(WIDGETS, widget("w", {"sise": 2}), fieldValidation="Ignore")
        assert "warning" not in created.headers

    async def test_built_in_kinds_are_as_strict(self, api: Api) -> None:
        body = pod("a")
        body["spec"]["containers"][0]["imag"] = "x"
        answer = await api.create(PODS, body, fieldValidation="Strict")
        assert (answer.status, 'unknown field "spec.containers[0].imag"' in answer.message) == (400, True)

    async def test_fields_that_are_to_be_kept_are_kept(self) -> None:
        keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        known = {**keeps, "properties": {"inner": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
        api = await serving({"open": keeps, "half": known})
        spec = {"open": {"x": {"y": 1}}, "half": {"z": 1, "inner": {"a": 1, "b": 2}}}
        assert await stored(api, spec) == {"open": {"x": {"y": 1}}, "half": {"z": 1, "inner": {"a": 1}}}

    async def test_maps_are_pruned_inside(self) -> None:
        inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
        api = await serving({"map": {"type": "object", "additionalProperties": inner}})
        assert await stored(api, {"map": {"any": {"a": 1, "b": 2}}}) == {"map": {"any": {"a": 1}}}


class TestDefaults:
    async def test_fill_in_what_is_missing_at_every_level(self) -> None:
        item = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}
        api = await serving({"mode": {"type": "string", "default": "on"}, "list": {"type": "array", "items": item}})
        assert await stored(api, {"list": [{}, {"n": 1}]}) == {"mode": "on", "list": [{"n": 3}, {"n": 1}]}

    async def test_replace_nulls_that_are_not_allowed(self) -> None:
        api = await serving(
            {
                "a": {"type": "string", "default": "x"},
                "b": {"type": "string"},
                "c": {"type": "string", "nullable": True},
            }
        )
        assert await stored(api, {"a": None, "b": None, "c": None}) == {"a": "x", "c": None}

    async def test_are_not_shared_between_objects(self) -> None:
        api = await serving({"tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]}})
        await stored(api, {})
        await api.patch(f"{WIDGETS}/w", [{"op": "add", "path": "/spec/tags/-", "value": "b"}])
        assert (await api.create(WIDGETS, widget("x", {}))).body["spec"] == {"tags": ["a"]}


class TestValidation:
    @pytest.mark.parametrize(
        ("schema", "value", "good"),
        [
            ({"type": "integer"}, "1", 1),
            ({"type": "integer", "format": "int32"}, 2**40, 5),
            ({"type": "integer", "minimum": 0}, -1, 0),
            ({"type": "string", "pattern": "^a+$"}, "b", "aa"),
            ({"type": "string", "enum": ["a", "b"]}, "c", "b"),
            ({"type": "string", "maxLength": 2}, "abc", "ab"),
            ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], ["a"]),
            ({"x-kubernetes-int-or-string": True}, True, "50%"),
            ({"x-kubernetes-int-or-string": True}, [1], 3),
            ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": 1}, {"a": "1"}),
            ({"type": "string", "format": "date-time"}, "yesterday", "2026-05-01T12:00:00Z"),
            ({"type": "boolean", "nullable": True}, "yes", None),
        ],
    )
    async def test_refuses_by_field_what_the_schema_does_not_allow(self, schema: Any, value: Any, good: Any) -> None:
        api = await serving({"field": schema})
        assert all(field.startswith("spec.field") for field in await refused(api, {"field": value}))
        assert await stored(api, {"field": good}) == {"field": good}

    async def test_names_every_problem_at_once(self) -> None:
        api = await serving({"a": {"type": "integer"}, "b": {"type": "string"}})
        assert await refused(api, {"a": "x", "b": 1}) == ["spec.a", "spec.b"]

    async def test_required_fields_are_named(self, api: Api) -> None:
        body = definition({"size": {"type": "integer"}})
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["size"]
        await api.create(DEFINITIONS, body)
        assert await refused(api, {}) == ["spec.size"]

    async def test_keys_of_a_list_that_is_a_map_are_unique(self) -> None:
        item = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        api = await serving(
            {
                "env": {
                    "type": "array",
                    "items": item,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                }
            }
        )
        assert await refused(api, {"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}) == ["spec.env[2]"]

    @pytest.mark.parametrize(
        ("meta", "field"),
        [
            ({"labels": {"a": 1}}, "metadata.labels.a"),
            ({"labels": "x"}, "metadata.labels"),
            ({"generateName": 3}, "metadata.generateName"),
            ({"finalizers": [{}]}, "metadata.finalizers[0]"),
            ({"ownerReferences": ["x"]}, "metadata.ownerReferences[0]"),
        ],
    )
    async def test_metadata_of_the_wrong_type_is_refused_by_field(self, widgets: Api, meta: Any, field: str) -> None:
        answer = await widgets.create(WIDGETS, widget("w", **meta))
        assert (answer.status, f"{field}: Invalid value" in answer.message) == (400, True)

    @pytest.mark.parametrize("meta", [3, "x", [], True])
    async def test_metadata_that_is_no_object_is_refused(self, widgets: Api, meta: Any) -> None:
        assert (await widgets.create(WIDGETS, {**widget(), "metadata": meta})).status == 400


class TestRules:
    async def test_a_rule_refuses_with_its_message(self) -> None:
        rule = {"rule": "self in ['a', 'b']", "message": "a or b"}
        api = await serving({"x": {"type": "string", "x-kubernetes-validations": [rule]}})
        answer = await api.create(WIDGETS, widget("w", {"x": "c"}))
        assert (answer.fields, answer.message.endswith("a or b")) == (["spec.x"], True)
        assert await stored(api, {"x": "a"}) == {"x": "a"}

    async def test_a_rule_about_change_is_asked_at_changes_only(self) -> None:
        rule = {"rule": "self == oldSelf", "message": "the field is immutable"}
        api = await serving({"x": {"type": "string", "x-kubernetes-validations": [rule]}, "y": {"type": "string"}})
        await stored(api, {"x": "a"})
        assert (await api.merge(f"{WIDGETS}/w", {"spec": {"y": "b"}})).status == 200
        assert (await api.merge(f"{WIDGETS}/w", {"spec": {"x": "b"}})).fields == ["spec.x"]


@pytest.mark.slow
@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's CRDs and samples are not beside the repository")
class TestKubeRaysOwnDefinitions:
    async def serving(self) -> Api:
        api = Api()
        for file in sorted((UPSTREAM / "crds").glob("*.yaml")):
            created = await api.create(DEFINITIONS, yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
            assert created.status == 201, created.message
        return api

    async def test_are_served_and_take_the_samples(self) -> None:
        api = await self.serving()
        taken = 0
        for file in sorted((UPSTREAM / "samples").glob("*.yaml")):
            for document in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
                if document and document["apiVersion"].startswith("ray.io/"):
                    path = f"/apis/{document['apiVersion']}/namespaces/default/{document['kind'].lower()}s"
                    answer = await api.create(path, document, dryRun="All", fieldValidation="Strict")
                    assert answer.status == 201, (file.name, answer.message)
                    taken += 1
        assert taken > 5

    async def test_give_the_defaults_that_the_autoscaler_reads(self) -> None:
        api = await self.serving()
        group = {"groupName": "g", "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
        head = {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}
        cluster = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "c"},
            "spec": {"headGroupSpec": head, "workerGroupSpecs": [group]},
        }
        created = await api.create("/apis/ray.io/v1/namespaces/default/rayclusters", cluster)
        found = created.body["spec"]["workerGroupSpecs"][0]
        assert (found["replicas"], found["minReplicas"], found["maxReplicas"]) == (0, 0, 2147483647)

    async def test_refuse_what_the_real_server_refuses(self) -> None:
        """`rejected` in a record of a case is what the real API server said to that manifest."""
        api = await self.serving()
        compared = 0
        for record in sorted((UPSTREAM / "cases-golden").glob("*.json")):
            rejected = json.loads(record.read_text()).get("rejected")
            manifest = UPSTREAM / "cases" / f"{record.stem}.yaml"
            if not manifest.exists():
                continue
            for document in yaml.load_all(manifest.read_text(), Loader=yaml.CSafeLoader):
                if not document or not document.get("apiVersion", "").startswith("ray.io/"):
                    continue
                path = f"/apis/{document['apiVersion']}/namespaces/default/{document['kind'].lower()}s"
                answer = await api.create(path, document, dryRun="All")
                assert (answer.status >= 300) is bool(rejected), (record.name, rejected, answer.body)
                compared += bool(rejected)
        assert compared > 0
