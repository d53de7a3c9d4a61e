"""Deleting: at once, with grace, with finalizers, with preconditions."""

from __future__ import annotations

from tests.engine.apiserver.api import (
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    WIDGETS,
    Api,
    binding,
    config_map,
    pod,
    widget,
)


class TestAnObjectNobodyHolds:
    async def test_is_gone_and_a_status_says_which(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        answer = await api.delete(f"{CONFIG_MAPS}/a")
        assert answer.body["status"] == "Success"
        assert answer.body["details"] == {"name": "a", "kind": "configmaps", "uid": created.meta["uid"]}
        assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404

    async def test_is_deleted_only_if_it_is_the_one_that_was_meant(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        for preconditions in ({"uid": "other"}, {"resourceVersion": "1"}):
            refused = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": preconditions})
            assert (refused.status, refused.reason) == (409, "Conflict")
        assert (await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": created.meta["uid"]}})).status == 200

    async def test_survives_a_dry_run(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert (await api.delete(f"{CONFIG_MAPS}/a", dryRun="All")).status == 200
        assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200

    async def test_options_that_make_no_sense_are_refused(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        for options in ({"gracePeriodSeconds": -1}, {"propagationPolicy": "Sideways"}, {"dryRun": ["Some"]}):
            assert (await api.delete(f"{CONFIG_MAPS}/a", options)).fields == list(options)


class TestAPod:
    async def test_without_a_node_goes_at_once(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        answer = await api.delete(f"{PODS}/a")
        assert answer.body["kind"] == "Pod"
        assert (await api.get(f"{PODS}/a")).status == 404

    async def test_on_a_node_stays_until_the_node_lets_it_go(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        await api.create(f"{PODS}/a/binding", binding("a"))
        marked = await api.delete(f"{PODS}/a")
        assert marked.meta["deletionTimestamp"] == "2026-05-01T12:00:30Z"
        assert marked.meta["deletionGracePeriodSeconds"] == 30
        assert (await api.get(f"{PODS}/a")).status == 200
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert (await api.get(f"{PODS}/a")).status == 404

    async def test_deleted_again_may_get_less_time_but_never_more(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        await api.create(f"{PODS}/a/binding", binding("a"))
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 20})
        api.clock.advance(5)
        longer = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 60})
        assert longer.meta["deletionTimestamp"] == "2026-05-01T12:00:20Z"
        shorter = await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 3})
        assert shorter.meta["deletionTimestamp"] == "2026-05-01T12:00:08Z"

    async def test_deleted_again_alike_is_not_written_again(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        await api.create(f"{PODS}/a/binding", binding("a"))
        marked = await api.delete(f"{PODS}/a")
        again = await api.delete(f"{PODS}/a")
        assert again.meta["resourceVersion"] == marked.meta["resourceVersion"]

    async def test_that_has_ended_needs_no_grace(self, api: Api) -> None:
        await api.create(PODS, pod("a"))
        await api.create(f"{PODS}/a/binding", binding("a"))
        await api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        await api.delete(f"{PODS}/a")
        assert (await api.get(f"{PODS}/a")).status == 404

    async def test_of_a_cluster_are_deleted_together_by_label(self, api: Api) -> None:
        for name, cluster in (("a", "x"), ("b", "y"), ("c", "x")):
            await api.create(PODS, pod(name, labels={"cluster": cluster}))
        deleted = await api.delete(PODS, labelSelector="cluster=x")
        assert [item["metadata"]["name"] for item in deleted.body["items"]] == ["a", "c"]
        assert await api.names(PODS) == ["b"]


class TestFinalizers:
    async def test_keep_an_object_until_the_last_is_taken_off(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w", finalizers=["a.b/one", "a.b/two"]))
        marked = await widgets.delete(f"{WIDGETS}/w")
        assert marked.meta["deletionTimestamp"] == "2026-05-01T12:00:00Z"
        assert marked.meta["generation"] == 2
        await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": ["a.b/two"]}})
        assert (await widgets.get(f"{WIDGETS}/w")).status == 200
        assert (await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})).status == 200
        assert (await widgets.get(f"{WIDGETS}/w")).status == 404

    async def test_cannot_be_added_to_an_object_that_is_going(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w", finalizers=["a.b/one"]))
        await widgets.delete(f"{WIDGETS}/w")
        refused = await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": ["a.b/one", "a.b/new"]}})
        assert (refused.status, refused.fields) == (422, ["metadata.finalizers"])

    async def test_of_a_pod_hold_it_even_after_its_node_is_done(self, api: Api) -> None:
        await api.create(PODS, pod("a", finalizers=["a.b/one"]))
        await api.create(f"{PODS}/a/binding", binding("a"))
        await api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert (await api.get(f"{PODS}/a")).status == 200
        await api.merge(f"{PODS}/a", {"metadata": {"finalizers": None}})
        assert (await api.get(f"{PODS}/a")).status == 404


class TestPropagation:
    async def test_foreground_and_orphan_leave_the_object_to_the_garbage_collector(self, widgets: Api) -> None:
        for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
            await widgets.create(WIDGETS, widget("w"))
            marked = await widgets.delete(f"{WIDGETS}/w", {"propagationPolicy": policy})
            assert marked.meta["finalizers"] == [finalizer]
            await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
            assert (await widgets.get(f"{WIDGETS}/w")).status == 404

    async def test_background_takes_an_earlier_choice_back(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        await widgets.delete(f"{WIDGETS}/w", {"propagationPolicy": "Foreground"})
        await widgets.delete(f"{WIDGETS}/w", {"propagationPolicy": "Background"})
        assert (await widgets.get(f"{WIDGETS}/w")).status == 404


class TestNamespaces:
    async def test_stay_until_their_contents_are_gone(self, api: Api) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
        marked = await api.delete("/api/v1/namespaces/n")
        assert marked.body["status"] == {"phase": "Terminating"}
        refused = await api.create("/api/v1/namespaces/n/configmaps", config_map("a"))
        assert refused.status == 403
        assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
        await api.replace("/api/v1/namespaces/n/finalize", {"metadata": {"name": "n"}, "spec": {"finalizers": []}})
        assert (await api.get("/api/v1/namespaces/n")).status == 404

    async def test_of_the_system_cannot_be_deleted(self, api: Api) -> None:
        for name in ("default", "kube-system"):
            assert (await api.delete(f"/api/v1/namespaces/{name}")).status == 403


class TestDefinitions:
    async def test_take_their_objects_with_them(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w"))
        assert (await widgets.delete(f"{DEFINITIONS}/widgets.example.com")).body["status"] == "Success"
        assert (await widgets.get(WIDGETS)).status == 404
        assert widgets.storage.entries("widgets.example.com") == []

    async def test_wait_for_an_object_with_a_finalizer(self, widgets: Api) -> None:
        await widgets.create(WIDGETS, widget("w", finalizers=["a.b/one"]))
        marked = await widgets.delete(f"{DEFINITIONS}/widgets.example.com")
        assert marked.meta["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert (await widgets.create(WIDGETS, widget("x"))).status == 405
        await widgets.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
        assert (await widgets.get(f"{DEFINITIONS}/widgets.example.com")).status == 404
        assert (await widgets.get(WIDGETS)).status == 404
