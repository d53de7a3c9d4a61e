"""Heads that do not go: their nodes are looked at in time, and they are forced away only when that is safe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.api.meta import find_condition
from kuberay.api.partial import Node, NodeSpec, Taint
from kuberay.controllers.plan import Delete
from kuberay.controllers.raycluster.deletion import FINALIZER
from kuberay.controllers.raycluster.lost import OUT_OF_SERVICE, Look
from kuberay.controllers.raycluster.status import timestamp
from tests.controllers.raycluster.situations import (
    NOW,
    after,
    cluster,
    creates,
    deletes,
    head,
    holding,
    plan,
    pod,
    seen,
    workers,
)

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.controllers.raycluster.observe import Seen

UP = Look(NOW, Node())
DOWN = Look(NOW, Node(spec=NodeSpec(taints=[Taint(key=OUT_OF_SERVICE)])))
GONE = Look(NOW, None)
FORBIDDEN = Look(NOW, None, is_forbidden=True)


def leaving(one: Pod, *, for_seconds: float, **metadata: Any) -> Pod:
    """A Pod on node `n1` whose grace period ended so long ago."""
    changed = msgspec.structs.replace(one.metadata, deletion_timestamp=timestamp(NOW - for_seconds), **metadata)
    spec = msgspec.structs.replace(one.spec, node_name="n1")
    return msgspec.structs.replace(one, metadata=changed, spec=spec)


def stuck(look: Look | None = None, *, for_seconds: float = 60, count: int = 0, **metadata: Any) -> Seen:
    one = leaving(head(), for_seconds=for_seconds, **metadata)
    return seen(workers(count), one, nodes={"n1": look} if look else {})


def message(situation: Seen) -> str:
    status = after(situation, plan(situation)).cluster.status
    found = find_condition(status.conditions, "HeadPodReady")
    assert found is not None
    assert found.reason == "HeadPodTerminating"
    return found.message


class TestAHeadThatDoesNotGo:
    def test_its_node_is_looked_at_half_a_minute_after_its_grace_period(self) -> None:
        early = plan(stuck(for_seconds=29))
        assert not early.nodes
        assert early.look_again == 1.0
        assert plan(stuck(for_seconds=30)).nodes == {"n1"}

    def test_and_every_half_minute_from_then_on(self) -> None:
        assert not plan(stuck(UP)).nodes
        assert plan(stuck(UP)).look_again == 30.0
        assert plan(stuck(UP), now=NOW + 30).nodes == {"n1"}

    @pytest.mark.parametrize(("look", "why"), [(GONE, "its node n1 is gone"), (DOWN, "its node n1 is out of service")])
    def test_it_is_forced_away_from_a_node_that_is_down_for_certain(self, look: Look, why: str) -> None:
        (action,) = plan(stuck(look)).actions
        assert isinstance(action, Delete)
        assert (action.name, action.uid, action.why) == ("rc-head", "uid-rc-head", why)
        assert action.is_forced

    @pytest.mark.parametrize("look", [UP, FORBIDDEN])
    def test_it_is_left_where_it_may_still_run(self, look: Look) -> None:
        assert not plan(stuck(look)).actions

    def test_what_was_found_when_another_head_left_counts_no_more(self) -> None:
        earlier = replace(GONE, at=NOW - 3600)
        assert not plan(stuck(earlier)).actions
        assert plan(stuck(earlier)).nodes == {"n1"}

    def test_no_other_head_is_made_beside_it(self) -> None:
        assert creates(plan(stuck(UP))) == []

    def test_one_that_never_had_a_node_is_none_of_this(self) -> None:
        found = plan(seen(workers(0), head(leaving=True)), now=NOW + 600)
        assert not found.nodes
        assert not found.actions

    @pytest.mark.parametrize("kind", ["RayClusterSuspending", "RayClusterSuspended"])
    def test_it_is_forced_away_while_the_cluster_is_suspended_too(self, kind: str) -> None:
        situation = replace(stuck(GONE), cluster=workers(0, suspend=True, status=holding(kind)))
        assert deletes(plan(situation)) == ["rc-head"]

    def test_it_holds_up_the_cleanup_of_redis_no_longer_than_it_must(self) -> None:
        metadata = {"deletionTimestamp": timestamp(NOW - 99), "finalizers": [FINALIZER]}
        rc = cluster(metadata=metadata, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        waits = replace(stuck(UP), cluster=rc)
        assert plan(replace(waits, nodes={})).nodes == {"n1"}
        assert not plan(waits).actions
        assert plan(waits).look_again == 30.0
        told = find_condition(after(waits, plan(waits)).cluster.status.conditions, "RedisCleanup")
        assert told is not None
        assert OUT_OF_SERVICE in told.message
        assert deletes(plan(replace(waits, nodes={"n1": GONE}))) == ["rc-head"]


class TestWhatIsTold:
    def test_at_first_only_what_is_waited_for(self) -> None:
        assert message(stuck()) == "waiting for head Pod rc-head to terminate on node n1"

    def test_then_since_when_and_what_would_help(self) -> None:
        found = message(stuck(UP))
        assert timestamp(NOW - 60) in found
        assert f"Node n1 is deleted, or tainted {OUT_OF_SERVICE}" in found

    def test_or_that_nobody_may_look(self) -> None:
        assert "delete the Pod by force" in message(stuck(FORBIDDEN))

    def test_or_who_holds_one_that_was_forced(self) -> None:
        forced = stuck(GONE, deletion_grace_period_seconds=0, finalizers=["example.com/hold"])
        assert not plan(forced).actions
        assert "example.com/hold" in message(forced)

    def test_and_nothing_more_however_often_it_is_looked_at(self) -> None:
        situation = after(stuck(UP), plan(stuck(UP)))
        for number in range(3):
            later = replace(situation, nodes={"n1": replace(UP, at=NOW + 30 * number)})
            assert plan(later, now=NOW + 30 * number).is_empty


class TestAWorkerOnALostNode:
    def test_it_is_no_capacity_from_the_moment_its_deletion_is_asked_for(self) -> None:
        for seconds in (-30, 0, 3600):
            gone = leaving(pod("a"), for_seconds=seconds)
            found = plan(seen(workers(1), head(), gone))
            assert len(creates(found)) == 1
            assert deletes(found) == []
            assert not found.nodes
