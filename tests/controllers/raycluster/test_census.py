"""Pods sorted change by change are sorted as if all had been looked at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.raycluster.census import Census, Flock, flock
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.observe import BY_OWNER, observe, owner_index
from kuberay.kube.store import Store
from tests.build.clusters import group
from tests.controllers.raycluster.situations import (
    ENTROPY,
    NOW,
    OWNER,
    after,
    cluster,
    grown_up,
    head,
    plan,
    pod,
    seen,
    service,
)

if TYPE_CHECKING:
    from kuberay.api.core import Pod, Service

OTHER = msgspec.structs.replace(OWNER, uid="u-2")


def versioned(one: Pod, version: int) -> Pod:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, resource_version=str(version)))


def content(found: Flock) -> Any:
    """Without order, which nothing depends on."""
    return (
        sorted(each.name for each in found.pods),
        sorted(each.name for each in found.heads),
        {
            name: (sorted(each.name for each in workers.steady), sorted(each.name for each in workers.others))
            for name, workers in found.groups.items()
        },
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    name = draw(st.sampled_from(["rc-head", "a", "b", "c", "d"]))
    state: dict[str, Any] = {
        "phase": draw(st.sampled_from(["Pending", "Running", "Running", "Failed"])),
        "ready": draw(st.sampled_from([None, False, True])),
        "leaving": draw(st.booleans()),
        "policy": draw(st.sampled_from(["Always", "Never"])),
        "ended": draw(st.booleans()),
        "owner": draw(st.sampled_from([OWNER, OWNER, OTHER, None])),
    }
    return head(**state) if name == "rc-head" else pod(name, group=draw(st.sampled_from(["x", "y"])), **state)


changes = st.lists(st.tuples(st.booleans(), pods()), max_size=20)


@given(changes)
def test_it_knows_what_a_look_at_every_pod_would_tell(history: list[tuple[bool, Pod]]) -> None:
    store: Store[Pod] = Store()
    store.replaced([], "1")
    census = Census(store)
    for version, (stays, each) in enumerate(history, 2):
        (store.applied if stays else store.removed)(versioned(each, version))
    own = [each for each in store if each.metadata.controller is not None and each.metadata.controller.uid == "u-1"]
    assert content(census.of("default", "u-1")) == content(flock(own))
    strangers = {each.name for each in store} - {each.name for each in own}
    assert {each.name for each in census.strangers("default", "rc", "u-1")} == strangers


@given(st.lists(pods(), max_size=5, unique_by=lambda each: each.name))
def test_it_forgets_what_is_gone(found: list[Pod]) -> None:
    store: Store[Pod] = Store()
    store.replaced([versioned(each, 2) for each in found], "2")
    census = Census(store)
    store.replaced([], "3")
    assert census.of("default", "u-1") == Flock()
    assert census.strangers("default", "rc", "u-1") == ()
    assert not census._by_owner
    assert not census._by_label


def test_a_pod_that_changes_in_a_large_cluster_costs_little() -> None:
    options = ControllerOptions(resync=None, batch=10_000)
    situation = seen(cluster(groups=[group(replicas=5000, maxReplicas=5000)]))
    for _ in range(3):
        situation = grown_up(after(situation, plan(situation, options)))
    store: Store[Pod] = Store()
    store.replaced([versioned(each, 2) for each in situation.pods], "2")
    census = Census(store)
    services: Store[Service] = Store({BY_OWNER: owner_index})
    services.replaced([service()], "2")
    costs = []
    for number in range(5):
        store.applied(versioned(situation.pods[number], number + 3))
        began = time.process_time()
        snapshot = observe(situation.cluster, census, services, failures={}, reported=frozenset())
        found = decide(snapshot, options, NOW, ENTROPY)
        costs.append(time.process_time() - began)
        assert not found.actions
    assert len(situation.pods) == 5001
    assert min(costs) < 0.005


def test_a_flock_is_steady_when_no_pod_is_on_its_way() -> None:
    assert flock([]).is_steady
    assert flock([head(), pod("a")]).is_steady
    assert not flock([head(), pod("a", ready=False)]).is_steady
    assert not flock([head(ready=False), pod("a")]).is_steady
    assert not flock([head(), pod("a", leaving=True)]).is_steady
