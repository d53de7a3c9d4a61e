"""Clusters that KubeRay's own operators left behind, of several versions: nothing is made, removed or restarted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kuberay.api.core import Pod, Service
from kuberay.api.partial import Ingress, PartialObject
from kuberay.api.v1 import RayCluster
from kuberay.controllers.kinds import ROUTES
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Patch
from kuberay.controllers.raycluster.census import Census
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.observe import BY_OWNER, Seen, observe, owner_index
from kuberay.kube.resources import INGRESSES, PODS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from kuberay.kube.store import Store
from tests.build.golden import UPSTREAM
from tests.controllers.raycluster.situations import ENTROPY, NOW, with_status

Json = dict[str, Any]

TYPES: dict[Any, Any] = {
    PODS: Pod,
    SERVICES: Service,
    INGRESSES: Ingress,
    **dict.fromkeys((ROLE_BINDINGS, ROLES, ROUTES, SECRETS, SERVICE_ACCOUNTS), PartialObject),
}
OPTIONS = ControllerOptions(resync=None)


def left_behind() -> list[Any]:
    files = sorted((UPSTREAM / "made-by-go").glob("*/*.json"))
    return [pytest.param(json.loads(file.read_text()), id=f"{file.parent.name}-{file.stem}") for file in files]


def observed(record: Json) -> Seen:
    """What our caches would hold of a cluster."""
    objects = record["objects"]
    (document,) = [each for each in objects if each["kind"] == "RayCluster"]
    stores: dict[Any, Store[Any]] = {}
    for resource, kind in TYPES.items():
        stores[resource] = Store({BY_OWNER: owner_index})
        found = [msgspec.convert(each, kind) for each in objects if each["kind"] == resource.kind]
        stores[resource].replaced(found, "1000000")
    return observe(
        RayCluster.from_dict(document),
        Census(stores[PODS]),
        stores[SERVICES],
        stores=stores,
        failures={},
        reported=frozenset(),
    )


@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records (../shared/upstream) are not on this machine")
@pytest.mark.parametrize("record", left_behind())
class TestAdoption:
    def test_nothing_is_made_or_removed(self, record: Json) -> None:
        found = decide(observed(record), OPTIONS, NOW, ENTROPY)
        others = [each for each in found.actions if not _renames_the_head(each)]
        assert [(each.why, each.name) for each in others] == []
        assert found.events == ()

    def test_nothing_is_said_to_wait_that_nobody_has_changed(self, record: Json) -> None:
        situation = observed(record)
        status = with_status(situation.cluster, decide(situation, OPTIONS, NOW, ENTROPY)).status
        assert not {"SpecChangesPending", "PodsBlocked", "Blocked"} & {each.type for each in status.conditions}

    def test_the_status_is_written_once_at_most(self, record: Json) -> None:
        situation = observed(record)
        first = decide(situation, OPTIONS, NOW, ENTROPY)
        told = replace(situation, cluster=with_status(situation.cluster, first))
        again = decide(told, OPTIONS, NOW + 60, ENTROPY)
        assert again.status is None


def _renames_the_head(action: Any) -> bool:
    return isinstance(action, Patch) and action.resource == PODS
