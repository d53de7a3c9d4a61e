"""Creating, reading and changing objects: the rules of metadata."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.engine.apiserver.api import (
    CONFIG_MAPS,
    PODS,
    SERVICES,
    WIDGETS,
    Api,
    config_map,
    pod,
    widget,
)


class TestCreating:
    async def test_the_server_fills_in_the_metadata(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a", labels={"x": "y"}))
        assert created.status == 201
        assert created.meta == {
            "name": "a",
            "namespace": "default",
            "labels": {"x": "y"},
            "uid": created.meta["uid"],
            "creationTimestamp": "2026-05-01T12:00:00Z",
            "resourceVersion": created.meta["resourceVersion"],
        }

    async def test_a_taken_name_is_refused(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        again = await api.create(CONFIG_MAPS, config_map("a"))
        assert (again.status, again.reason) == (409, "AlreadyExists")
        assert again.message == 'configmaps "a" already exists'

    async def test_generated_names_end_in_five_characters_without_vowels(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "job-"}})
        assert re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", created.meta["name"])

    async def test_the_namespace_must_exist(self, api: Api) -> None:
        refused = await api.create("/api/v1/namespaces/nowhere/configmaps", config_map())
        assert (refused.status, refused.message) == (404, 'namespaces "nowhere" not found')

    async def test_the_namespace_must_be_the_one_of_the_path(self, api: Api) -> None:
        assert (await api.create(CONFIG_MAPS, config_map(namespace="kube-system"))).status == 400

    async def test_what_belongs_to_the_server_cannot_be_chosen(self, api: Api) -> None:
        created = await api.create(
            CONFIG_MAPS, config_map(uid="mine", generation=9, deletionTimestamp="2020-01-01T00:00:00Z")
        )
        assert created.meta["uid"] != "mine"
        assert "generation" not in created.meta
        assert "deletionTimestamp" not in created.meta

    async def test_a_version_cannot_be_chosen(self, api: Api) -> None:
        assert (await api.create(CONFIG_MAPS, config_map(resourceVersion="3"))).status == 400

    async def test_another_kind_is_refused(self, api: Api) -> None:
        refused = await api.create(PODS, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}})
        assert (refused.status, refused.reason) == (400, "BadRequest")

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3"])
    async def test_what_is_not_an_object_is_refused(self, api: Api, body: bytes) -> None:
        assert (await api.create(PODS, body)).status == 400

    async def test_a_dry_run_answers_and_stores_nothing(self, api: Api) -> None:
        before = api.storage.version
        answer = await api.create(CONFIG_MAPS, config_map("a"), dryRun="All")
        assert (answer.status, answer.meta["name"]) == (201, "a")
        assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404
        assert api.storage.version == before


class TestResources:
    @pytest.mark.parametrize(
        ("resources", "field"),
        [
            ({"requests": {"nvidia.com/gpu": "1"}}, "limits"),
            ({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}, "requests"),
            ({"limits": {"nvidia.com/gpu": "1500m"}}, "limits[nvidia.com/gpu]"),
            ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "requests"),
            ({"limits": {"cpu": "-1"}}, "limits[cpu]"),
        ],
    )
    async def test_that_cannot_be_had_are_refused(self, api: Api, resources: dict[str, Any], field: str) -> None:
        body = pod("p")
        body["spec"]["containers"][0]["resources"] = resources
        refused = await api.create(PODS, body)
        assert refused.status == 422
        assert f"spec.containers[0].resources.{field}" in refused.fields


class TestReplacing:
    async def test_a_stale_version_is_a_conflict(self, api: Api) -> None:
        first = await api.create(CONFIG_MAPS, config_map("a"))
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
        refused = await api.replace(f"{CONFIG_MAPS}/a", first.body)
        assert (refused.status, refused.reason) == (409, "Conflict")

    async def test_without_a_version_the_last_writer_wins(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        replaced = await api.replace(f"{CONFIG_MAPS}/a", config_map("a", {"x": "1"}))
        assert (replaced.status, replaced.body["data"]) == (200, {"x": "1"})

    async def test_another_uid_is_a_conflict(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert (await api.replace(f"{CONFIG_MAPS}/a", config_map("a", uid="other"))).reason == "Conflict"

    async def test_another_name_is_refused(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert (await api.replace(f"{CONFIG_MAPS}/a", config_map("b"))).status == 400

    async def test_a_missing_object_is_not_created(self, api: Api) -> None:
        assert (await api.replace(f"{CONFIG_MAPS}/a", config_map("a"))).status == 404

    async def test_what_changes_nothing_is_not_written(self, api: Api) -> None:
        first = await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        again = await api.replace(f"{CONFIG_MAPS}/a", first.body)
        assert again.body == first.body
        assert api.storage.version == int(first.meta["resourceVersion"])


class TestPatching:
    async def test_a_merge_patch_merges_and_removes(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1", "y": "2"}))
        patched = await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": None, "z": "3"}})
        assert patched.body["data"] == {"y": "2", "z": "3"}

    async def test_a_json_patch_runs_its_operations(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        patched = await api.patch(f"{CONFIG_MAPS}/a", [{"op": "replace", "path": "/data/x", "value": "2"}])
        assert patched.body["data"] == {"x": "2"}

    async def test_a_failed_test_changes_nothing(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        refused = await api.patch(
            f"{CONFIG_MAPS}/a",
            [{"op": "remove", "path": "/data/x"}, {"op": "test", "path": "/metadata/resourceVersion", "value": "0"}],
        )
        assert (refused.status, refused.reason) == (422, "Invalid")
        assert (await api.get(f"{CONFIG_MAPS}/a")).body == created.body

    async def test_a_merge_patch_with_a_stale_version_is_a_conflict(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert (await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"resourceVersion": "1"}})).status == 409

    async def test_a_dry_run_shows_the_result_and_stores_nothing(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        shown = await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}, dryRun="All")
        assert shown.body["data"] == {"x": "1"}
        assert (await api.get(f"{CONFIG_MAPS}/a")).body == created.body

    @pytest.mark.parametrize("content", ["application/apply-patch+yaml", "application/json", ""])
    async def test_other_kinds_of_patch_are_refused_with_what_to_use_instead(self, api: Api, content: str) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        refused = await api.send("PATCH", f"{CONFIG_MAPS}/a", {}, content=content)
        assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")
        assert "application/merge-patch+json" in refused.message
        assert "kubectl patch --type=merge" in refused.message

    async def test_a_strategic_merge_patch_of_a_custom_resource_is_refused(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("a"))
        refused = await widgets.send("PATCH", f"{WIDGETS}/a", {}, content="application/strategic-merge-patch+json")
        assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")

    async def test_protobuf_bodies_are_refused_with_what_to_use_instead(self, api: Api) -> None:
        refused = await api.create(CONFIG_MAPS, b"k8s\0", content="application/vnd.kubernetes.protobuf")
        assert refused.status == 415
        assert "kubectl create -f" in refused.message


class TestGenerations:
    async def test_count_changes_of_the_spec_only(self, widgets: Api) -> None:
        created = await widgets.create(WIDGETS, widget("w"))
        labelled = await widgets.merge(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})
        reported = await widgets.merge(f"{WIDGETS}/w/status", {"status": {"ready": True}})
        changed = await widgets.merge(f"{WIDGETS}/w", {"spec": {"size": 2}})
        assert [answer.meta["generation"] for answer in (created, labelled, reported, changed)] == [1, 1, 1, 2]


class TestStatus:
    async def test_is_not_taken_from_a_create(self, widgets: Api) -> None:
        created = await widgets.create(WIDGETS, {**widget(), "status": {"ready": True}})
        assert "status" not in created.body

    async def test_is_not_taken_from_a_write_of_the_object(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        await widgets.merge(f"{WIDGETS}/w/status", {"status": {"ready": True}})
        patched = await widgets.merge(f"{WIDGETS}/w", {"status": {"ready": False}, "spec": {"size": 5}})
        assert (patched.body["status"], patched.body["spec"]) == ({"ready": True}, {"size": 5})

    async def test_is_all_that_a_write_of_the_status_changes(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        patched = await widgets.merge(
            f"{WIDGETS}/w/status", {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
        )
        assert patched.body["status"] == {"ready": True}
        assert patched.body["spec"] == {"size": 1}
        assert "labels" not in patched.meta

    async def test_writes_are_locked_by_version_too(self, widgets: Api) -> None:
        created = await widgets.create(WIDGETS, widget("w"))
        await widgets.merge(f"{WIDGETS}/w", {"spec": {"size": 2}})
        assert (await widgets.replace(f"{WIDGETS}/w/status", {**created.body, "status": {"x": 1}})).status == 409


class TestListing:
    async def test_selects_by_label(self, api: Api) -> None:
        for name, tier in (("a", "front"), ("b", "back"), ("c", "back")):
            await api.create(CONFIG_MAPS, config_map(name, labels={"tier": tier}))
        assert await api.names(CONFIG_MAPS, labelSelector="tier=back") == ["b", "c"]
        assert await api.names(CONFIG_MAPS, labelSelector="tier notin (back)") == ["a"]

    async def test_selects_by_field(self, api: Api) -> None:
        for name in ("a", "b"):
            await api.create(PODS, pod(name))
        assert await api.names(PODS, fieldSelector="metadata.name=b") == ["b"]
        assert await api.names(PODS, fieldSelector="status.phase!=Pending") == []

    async def test_a_field_that_cannot_be_selected_by_is_refused(self, api: Api) -> None:
        refused = await api.get(PODS, fieldSelector="spec.foo=x")
        assert (refused.status, refused.message) == (400, "field label not supported: spec.foo")

    async def test_a_selector_that_cannot_be_read_is_refused(self, api: Api) -> None:
        assert (await api.get(PODS, labelSelector="a b")).status == 400

    async def test_all_namespaces_are_listed_together(self, api: Api) -> None:
        await api.create("/api/v1/namespaces/kube-system/configmaps", config_map("b"))
        await api.create(CONFIG_MAPS, config_map("a"))
        assert await api.names("/api/v1/configmaps") == ["a", "b"]

    async def test_carries_the_version_of_the_moment(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        listed = await api.get(CONFIG_MAPS)
        assert listed.meta["resourceVersion"] == created.meta["resourceVersion"]
        assert (listed.body["kind"], listed.body["apiVersion"]) == ("ConfigMapList", "v1")

    async def test_pages_are_all_read_at_the_version_of_the_first(self, api: Api) -> None:
        for name in "abcd":
            await api.create(CONFIG_MAPS, config_map(name))
        first = await api.get(CONFIG_MAPS, limit=2)
        await api.delete(f"{CONFIG_MAPS}/c")
        await api.create(CONFIG_MAPS, config_map("e"))
        second = await api.get(CONFIG_MAPS, limit=2, **{"continue": first.meta["continue"]})
        assert [item["metadata"]["name"] for item in second.body["items"]] == ["c", "d"]
        assert second.meta == {"resourceVersion": first.meta["resourceVersion"]}
        assert first.meta["remainingItemCount"] == 2

    async def test_a_strange_page_token_is_refused(self, api: Api) -> None:
        assert (await api.get(CONFIG_MAPS, **{"continue": "abc"})).status == 400

    async def test_a_version_of_the_future_is_a_timeout(self, api: Api) -> None:
        refused = await api.get(PODS, resourceVersion=999999, resourceVersionMatch="NotOlderThan")
        assert (refused.status, refused.reason) == (504, "Timeout")
        assert refused.headers["retry-after"] == "1"

    async def test_can_be_metadata_only(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
        listed = await api.get(CONFIG_MAPS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        assert listed.body["kind"] == "PartialObjectMetadataList"
        assert [item.keys() for item in listed.body["items"]] == [{"kind", "apiVersion", "metadata"}]


class TestWhatIsNotThere:
    @pytest.mark.parametrize(
        "path",
        ["/api/v1/foos", "/apis/x.y/v1/foos", "/nope", "/api/v2/pods", f"{PODS}/a/nope", "/apis/apps/v1/deployments"],
    )
    async def test_is_a_404_status(self, api: Api, path: str) -> None:
        await api.create(PODS, pod("a"))
        answer = await api.get(path)
        assert (answer.status, answer.reason, answer.body["kind"]) == (404, "NotFound", "Status")

    async def test_a_missing_object_is_named(self, widgets: Api) -> None:
        answer = await widgets.get(f"{WIDGETS}/nope")
        assert answer.message == 'widgets.example.com "nope" not found'
        assert answer.body["details"] == {"name": "nope", "group": "example.com", "kind": "widgets"}

    @pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "eviction", "resize"])
    async def test_a_subresource_that_is_not_served_says_so(self, api: Api, subresource: str) -> None:
        answer = await api.get(f"{PODS}/a/{subresource}")
        assert answer.status == 501
        assert re.fullmatch(f"pods/{subresource} is not served by the local engine: .{{10,}}", answer.message)

    async def test_a_method_that_makes_no_sense_is_refused(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        assert (await api.create(f"{PODS}/a", {})).status == 405
        assert (await api.create("/api/v1/pods", pod("a"))).status == 405
        assert (await api.delete("/api/v1/namespaces")).status == 405

    async def test_a_form_that_is_not_served_is_refused(self, api: Api) -> None:
        assert (await api.get(PODS, accept="application/vnd.kubernetes.protobuf")).status == 406
        assert (await api.get(PODS, accept="application/vnd.kubernetes.protobuf,application/json")).status == 200

    async def test_a_body_that_is_too_large_is_refused(self, api: Api) -> None:
        refused = await api.create(CONFIG_MAPS, b"x" * (3 * 1024 * 1024 + 1))
        assert (refused.status, refused.reason) == (413, "RequestEntityTooLarge")


class TestEvents:
    OLD = "/api/v1/namespaces/default/events"
    NEW = "/apis/events.k8s.io/v1/namespaces/default/events"

    async def test_written_in_the_new_shape_are_read_in_the_old(self, api: Api) -> None:
        event = {
            "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "Created",
            "note": "hello",
            "type": "Normal",
            "reportingController": "kuberay",
            "eventTime": "2026-05-01T12:00:00.000000Z",
        }
        created = await api.create(self.NEW, event)
        assert (created.body["note"], created.body["apiVersion"]) == ("hello", "events.k8s.io/v1")
        old = (await api.get(f"{self.OLD}/e")).body
        assert (old["message"], old["involvedObject"]["name"], old["apiVersion"]) == ("hello", "p", "v1")
        assert old["reportingComponent"] == "kuberay"

    async def test_are_selected_by_what_they_are_about_in_both_shapes(self, api: Api) -> None:
        for name in ("a", "b"):
            await api.create(
                self.OLD, {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": f"pod-{name}"}}
            )
        assert await api.names(self.OLD, fieldSelector="involvedObject.name=pod-b") == ["b"]
        assert await api.names(self.NEW, fieldSelector="regarding.name=pod-b") == ["b"]

    async def test_that_were_not_repeated_for_an_hour_are_forgotten(self, api: Api) -> None:
        for name in ("old", "repeated"):
            await api.create(self.OLD, {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p"}})
        api.clock.advance(3000)
        await api.merge(f"{self.OLD}/repeated", {"count": 2, "lastTimestamp": "2026-05-01T12:50:00Z"})
        api.clock.advance(1000)
        for number in range(64):
            await api.create(self.OLD, {"metadata": {"name": f"new-{number}"}, "involvedObject": {"kind": "Pod"}})
        names = await api.names(self.OLD)
        assert ("old" in names, "repeated" in names, len(names)) == (False, True, 65)


class TestServices:
    async def test_get_an_address_of_their_own(self, api: Api) -> None:
        created = [
            await api.create(SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
            for name in ("a", "b")
        ]
        addresses = [answer.body["spec"]["clusterIP"] for answer in created]
        assert all(address.startswith("10.96.") for address in addresses)
        assert len(set(addresses)) == 2
        assert created[0].body["spec"]["clusterIPs"] == addresses[:1]

    async def test_headless_ones_get_none(self, api: Api) -> None:
        created = await api.create(
            SERVICES, {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
        )
        assert created.body["spec"]["clusterIPs"] == ["None"]

    async def test_keep_their_address_when_replaced_without_it(self, api: Api) -> None:
        service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
        created = await api.create(SERVICES, service)
        replaced = await api.replace(f"{SERVICES}/a", {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}})
        assert replaced.body["spec"]["clusterIP"] == created.body["spec"]["clusterIP"]

    async def test_cannot_change_or_share_their_address(self, api: Api) -> None:
        created = await api.create(SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
        changed = await api.merge(f"{SERVICES}/a", {"spec": {"clusterIP": "10.96.0.77"}})
        shared = await api.create(
            SERVICES,
            {
                "metadata": {"name": "b"},
                "spec": {"clusterIP": created.body["spec"]["clusterIP"], "ports": [{"port": 80}]},
            },
        )
        assert (changed.status, changed.fields) == (422, ["spec.clusterIPs[0]"])
        assert (shared.status, shared.fields) == (422, ["spec.clusterIPs"])

    async def test_node_ports_are_distinct_and_stay(self, api: Api) -> None:
        spec = {"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}
        created = await api.create(SERVICES, {"metadata": {"name": "a"}, "spec": spec})
        ports = [port["nodePort"] for port in created.body["spec"]["ports"]]
        assert len(set(ports)) == 2
        assert all(30000 <= port <= 32767 for port in ports)
        replaced = await api.replace(f"{SERVICES}/a", {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": spec})
        assert [port["nodePort"] for port in replaced.body["spec"]["ports"]] == ports
