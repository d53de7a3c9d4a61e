"""Priority classes."""

from __future__ import annotations

from typing import Any

from tests.engine.apiserver.api import PODS, Api, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def made(api: Api, **spec: Any) -> dict[str, Any]:
    body = pod("p")
    body["spec"] |= spec
    found: dict[str, Any] = (await api.create(PODS, body)).body["spec"]
    return {name: found.get(name) for name in ("priority", "priorityClassName", "preemptionPolicy")}


class TestAPod:
    async def test_has_the_value_of_its_class(self, api: Api) -> None:
        await api.create(CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
        found = await made(api, priorityClassName="high")
        assert found == {"priority": 1000, "priorityClassName": "high", "preemptionPolicy": "Never"}

    async def test_keeps_it_when_it_changes(self, api: Api) -> None:
        await api.create(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await made(api, priorityClassName="high")
        await api.delete(f"{CLASSES}/high")
        changed = await api.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        assert (changed.status, changed.body["spec"]["priority"]) == (200, 1000)

    async def test_without_a_class_has_none(self, api: Api) -> None:
        assert (await made(api))["priority"] == 0

    async def test_without_a_class_has_the_one_for_all(self, api: Api) -> None:
        await api.create(CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
        assert (await made(api))["priorityClassName"] == "usual"

    async def test_may_be_of_the_system(self, api: Api) -> None:
        assert (await made(api, priorityClassName="system-node-critical"))["priority"] == 2_000_001_000

    async def test_of_a_class_that_is_not_there_is_refused(self, api: Api) -> None:
        body = pod("p")
        body["spec"]["priorityClassName"] = "nobody"
        refused = await api.create(PODS, body)
        assert (refused.status, refused.message) == (
            403,
            'pods "p" is forbidden: no PriorityClass with name nobody was found',
        )
