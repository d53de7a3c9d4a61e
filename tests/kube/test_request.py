from __future__ import annotations

import orjson
import pytest

from kuberay.kube import request as prepare
from kuberay.kube.request import PatchType, Propagation, WriteOptions
from kuberay.kube.resources import EVENTS, NODES, PODS
from kuberay.kube.selectors import FieldSelector, LabelSelector

NOTHING = WriteOptions()


class TestPaths:
    def test_an_object_of_the_core_group(self) -> None:
        assert prepare.get(PODS, "a", namespace="n").path == "/api/v1/namespaces/n/pods/a"

    def test_an_object_of_another_group(self) -> None:
        assert prepare.get(EVENTS, "e", namespace="n").path == "/apis/events.k8s.io/v1/namespaces/n/events/e"

    def test_an_object_without_namespace(self) -> None:
        assert prepare.get(NODES, "n1", namespace=None).path == "/api/v1/nodes/n1"

    def test_a_subresource(self) -> None:
        assert prepare.get(PODS, "a", namespace="n", subresource="status").path.endswith("/pods/a/status")

    def test_all_namespaces(self) -> None:
        assert prepare.list_(PODS).path == "/api/v1/pods"

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
    def test_a_name_cannot_leave_its_place(self, name: str) -> None:
        with pytest.raises(ValueError, match="cannot be the name of pods"):
            prepare.delete(PODS, name, namespace="n")

    def test_neither_can_a_namespace(self) -> None:
        with pytest.raises(ValueError, match="cannot be the namespace"):
            prepare.list_(PODS, namespace="../nodes")

    def test_a_forgotten_namespace_is_an_error_not_a_wider_request(self) -> None:
        with pytest.raises(ValueError, match="pods are namespaced"):
            prepare.get(PODS, "a", namespace=None)
        with pytest.raises(ValueError, match="pods are namespaced"):
            prepare.create(PODS, {"metadata": {"name": "a"}}, namespace=None, options=NOTHING)


class TestLists:
    def test_selectors_may_be_text_or_parsed(self) -> None:
        request = prepare.list_(PODS, labels=LabelSelector.of({"a": "b"}), fields=FieldSelector.parse("c=d"))
        assert request.query == (("labelSelector", "a=b"), ("fieldSelector", "c=d"))
        assert prepare.list_(PODS, labels="a=b", fields="c=d").query == request.query

    def test_an_empty_selector_selects_everything(self) -> None:
        assert prepare.list_(PODS, labels="", fields="").query == ()

    def test_the_first_page_names_a_version_and_later_ones_must_not(self) -> None:
        assert prepare.list_(PODS, limit=2, resource_version="0").query == (("limit", "2"), ("resourceVersion", "0"))
        assert prepare.list_(PODS, limit=2, resource_version="0", continue_="t").query == (
            ("limit", "2"),
            ("continue", "t"),
        )

    def test_a_list_may_be_as_old_as_what_is_known(self) -> None:
        first = prepare.list_(PODS, limit=5, not_older_than="7")
        assert first.query == (("limit", "5"), ("resourceVersion", "7"), ("resourceVersionMatch", "NotOlderThan"))
        assert prepare.list_(PODS, continue_="t", not_older_than="7").query == (("continue", "t"),)

    def test_a_watch_always_asks_for_bookmarks(self) -> None:
        request = prepare.watch(PODS, namespace="n", resource_version="7", timeout_seconds=300)
        assert request.query == (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", "7"),
            ("timeoutSeconds", "300"),
        )

    def test_a_streamed_list_says_how_new_it_has_to_be(self) -> None:
        request = prepare.watch(PODS, send_initial_events=True)
        assert request.query[-2:] == (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))


class TestWrites:
    def test_a_create_takes_the_namespace_from_the_object(self) -> None:
        request = prepare.create(PODS, {"metadata": {"namespace": "n"}}, namespace=None, options=NOTHING)
        assert (request.method, request.path) == ("POST", "/api/v1/namespaces/n/pods")
        assert orjson.loads(request.body or b"") == {"metadata": {"namespace": "n"}}

    def test_ready_made_text_is_sent_as_it_is(self) -> None:
        assert prepare.create(PODS, b'{ "a":1}', namespace="n", options=NOTHING).body == b'{ "a":1}'

    def test_a_subresource_of_an_object_is_created_below_it(self) -> None:
        request = prepare.create(PODS, {}, namespace="n", name="a", subresource="eviction", options=NOTHING)
        assert request.path == "/api/v1/namespaces/n/pods/a/eviction"

    @pytest.mark.parametrize("kind", list(PatchType))
    def test_the_kind_of_patch_is_its_media_type(self, kind: PatchType) -> None:
        options = WriteOptions(field_manager="me", force=True, dry_run=True)
        request = prepare.patch(PODS, "a", {}, namespace="n", kind=kind, options=options)
        assert request.headers["content-type"] == kind.value
        assert request.query == (("dryRun", "All"), ("fieldManager", "me"), ("force", "true"))

    def test_a_write_may_say_what_becomes_of_unknown_fields(self) -> None:
        options = WriteOptions(field_validation="Strict")
        assert prepare.create(PODS, {}, namespace="n", options=options).query == (("fieldValidation", "Strict"),)

    def test_an_apply_without_a_manager_is_refused_before_it_is_sent(self) -> None:
        with pytest.raises(ValueError, match="needs a field_manager"):
            prepare.patch(PODS, "a", {}, namespace="n", kind=PatchType.APPLY, options=NOTHING)

    def test_a_delete_carries_its_preconditions(self) -> None:
        request = prepare.delete(
            PODS,
            "a",
            namespace="n",
            uid="u",
            resource_version="7",
            grace_period_seconds=0,
            propagation=Propagation.FOREGROUND,
        )
        assert orjson.loads(request.body or b"") == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground",
        }

    def test_a_plain_delete_has_no_body(self) -> None:
        assert prepare.delete(PODS, "a", namespace="n").body is None
