"""Whatever is sent, the server answers with an object or a refusal, never with a failure of its own."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberay.engine.apiserver import SqliteStorage
from tests.engine.apiserver.api import (
    DEFINITIONS,
    PODS,
    SERVICES,
    WIDGETS,
    Api,
    binding,
    config_map,
    definition,
    pod,
    widget,
)

if TYPE_CHECKING:
    from pathlib import Path

EVENT = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"}, "series": {"count": 1}}
SERVICE = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}]}}
PROBED = pod("a")
PROBED["spec"]["containers"][0] |= {
    "readinessProbe": {"httpGet": {"port": 80}},
    "resources": {"limits": {"cpu": 1}},
    "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "volumeMounts": [{"name": "v", "mountPath": "/x"}],
}
PROBED["spec"]["volumes"] = [{"name": "v", "projected": {"sources": [{"downwardAPI": {"items": []}}]}}]

TARGETS = {
    "pod": (PODS, PROBED),
    "service": (SERVICES, SERVICE),
    "widget": (WIDGETS, widget()),
    "definition": (DEFINITIONS, definition(additionalPrinterColumns=[{"name": "a", "type": "date", "jsonPath": ".a"}])),
    "event": ("/api/v1/namespaces/default/events", EVENT),
    "namespace": ("/api/v1/namespaces", {"metadata": {"name": "n"}, "spec": {}}),
    "secret": ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
    "config": ("/api/v1/namespaces/default/configmaps", config_map("c", {"a": "b"})),
    "binding": (f"{PODS}/bound/binding", binding("bound")),
}

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str, Any]:
    """A good body with one of its values replaced by anything."""
    path, body = TARGETS[draw(st.sampled_from(sorted(TARGETS)))]
    body = copy.deepcopy(body)
    container, key = draw(st.sampled_from(places(body)))
    container[key] = draw(ANYTHING)
    return path, body


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(spoilt())
def test_no_body_makes_the_server_fail(request: tuple[str, Any]) -> None:
    path, body = request

    async def send() -> None:
        api = Api()
        await api.create(DEFINITIONS, definition())
        await api.create(PODS, pod("bound"))
        answer = await api.create(path, body)
        assert answer.status < 500, answer.body
        name = (answer.body.get("metadata") or {}).get("name")
        if answer.status == 201 and name and "binding" not in path:
            for accept in ("", "application/json;as=Table;v=v1;g=meta.k8s.io"):
                assert (await api.get(f"{path}/{name}", accept=accept)).status == 200
            assert (await api.merge(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})).status < 500
            assert (await api.delete(f"{path}/{name}")).status < 500

    asyncio.run(send())


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["spec", "status", "metadata", "data"]), ANYTHING)
def test_no_patch_makes_the_server_fail(part: str, value: Any) -> None:
    async def send() -> None:
        api = Api()
        await api.create(DEFINITIONS, definition())
        for path, body in (TARGETS["pod"], TARGETS["service"], TARGETS["widget"], TARGETS["config"]):
            created = await api.create(path, copy.deepcopy(body))
            where = f"{path}/{created.meta['name']}"
            for target in (where, f"{where}/status"):
                assert (await api.merge(target, {part: value})).status < 500
                assert (await api.patch(target, [{"op": "add", "path": f"/{part}", "value": value}])).status < 500

    asyncio.run(send())


@settings(max_examples=50, deadline=None)
@given(ANYTHING)
def test_no_delete_options_make_the_server_fail(value: Any) -> None:
    async def send() -> None:
        api = Api()
        for name in ("gracePeriodSeconds", "propagationPolicy", "preconditions", "dryRun", "orphanDependents"):
            await api.create(PODS, pod("a"))
            assert (await api.delete(f"{PODS}/a", {name: value})).status < 500

    asyncio.run(send())


class TestARestart:
    async def test_brings_back_every_object_byte_by_byte(self, tmp_path: Path) -> None:
        storage = SqliteStorage(tmp_path / "objects.db")
        api = Api(storage=storage)
        await api.create(DEFINITIONS, definition())
        await api.create(WIDGETS, widget("w"))
        await api.create(PODS, pod("a"))
        before = [await api.get(path) for path in (DEFINITIONS, WIDGETS, PODS, "/api/v1/namespaces")]
        await storage.close()
        again = SqliteStorage(tmp_path / "objects.db")
        api = Api(storage=again)
        after = [await api.get(path) for path in (DEFINITIONS, WIDGETS, PODS, "/api/v1/namespaces")]
        assert [answer.body for answer in after] == [answer.body for answer in before]
        assert int((await api.create(PODS, pod("b"))).meta["resourceVersion"]) == storage.version + 1
        await again.close()
