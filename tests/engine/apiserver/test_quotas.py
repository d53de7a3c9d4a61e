"""Quotas: how many objects a namespace may hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.apiserver.api import CONFIG_MAPS, PODS, TABLE, Api, config_map, pod

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def quota(name: str = "q", **hard: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


async def used(api: Api) -> dict[str, str]:
    found: dict[str, str] = (await api.get(f"{QUOTAS}/q")).body["status"]["used"]
    return found


class TestAQuota:
    async def test_refuses_what_is_too_much_and_says_whose_fault_it_is(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods="1"))
        assert (await api.create(PODS, pod("a"))).status == 201
        refused = await api.create(PODS, pod("b"))
        assert (refused.status, refused.reason) == (403, "Forbidden")
        expected = 'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
        assert refused.message == expected

    async def test_refuses_a_trial_as_well(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods=0))
        assert (await api.create(PODS, pod("a"), dryRun="All")).status == 403

    async def test_has_room_again_when_something_went(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods="1"))
        await api.create(PODS, pod("a"))
        await api.delete(f"{PODS}/a")
        assert (await api.create(PODS, pod("b"))).status == 201

    async def test_does_not_count_pods_that_have_ended(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods="1"))
        await api.create(PODS, pod("a"))
        await api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
        assert await used(api) == {"pods": "0"}
        assert (await api.create(PODS, pod("b"))).status == 201

    async def test_can_be_of_any_kind(self, api: Api) -> None:
        await api.create(QUOTAS, quota(**{"count/jobs.batch": "0"}))
        job = {"metadata": {"name": "j"}, "spec": {"template": pod() | {"metadata": {}}}}
        assert "exceeded quota: q" in (await api.create(JOBS, job)).message

    async def test_tells_how_much_is_used(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("before"))
        await api.create(QUOTAS, quota(configmaps="5", pods="2"))
        assert await used(api) == {"configmaps": "1", "pods": "0"}
        await api.create(CONFIG_MAPS, config_map("after"))
        assert await used(api) == {"configmaps": "2", "pods": "0"}
        await api.delete(f"{CONFIG_MAPS}/before")
        assert await used(api) == {"configmaps": "1", "pods": "0"}
        (row,) = (await api.get(QUOTAS, accept=TABLE)).body["rows"]
        assert row["cells"][:3] == ["q", "configmaps: 1/5, pods: 0/2", ""]

    async def test_that_is_raised_lets_more_through(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods="0"))
        assert (await api.create(PODS, pod("a"))).status == 403
        await api.merge(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "1"}}})
        assert (await api.get(f"{QUOTAS}/q")).body["status"]["hard"] == {"pods": "1"}
        assert (await api.create(PODS, pod("a"))).status == 201

    async def test_counts_its_own_namespace_only(self, api: Api) -> None:
        await api.create(QUOTAS, quota(pods="0"))
        assert (await api.create("/api/v1/namespaces/kube-system/pods", pod("a"))).status == 201

    @pytest.mark.parametrize("hard", [{"requests.cpu": "1"}, {"pods": "-1"}, {"pods": "half"}, {"pods": "100m"}])
    async def test_of_what_cannot_be_counted_is_refused(self, api: Api, hard: dict[str, str]) -> None:
        refused = await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        assert refused.status == 422
        assert refused.fields[0] == f"spec.hard[{next(iter(hard))}]"

    async def test_of_some_pods_only_is_refused(self, api: Api) -> None:
        body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}
        assert (await api.create(QUOTAS, body)).fields == ["spec.scopes"]
