"""Replicas of several hosts: they come as one and go as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberay.api.gates import FeatureGates, Gate
from kuberay.controllers.failures import Failure
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create, Delete
from kuberay.controllers.raycluster.replicas import Replica
from kuberay.kube.resources import SERVICES
from tests.build.clusters import group
from tests.controllers.raycluster.situations import (
    NOW,
    OPTIONS,
    after,
    cluster,
    creates,
    deletes,
    grown_up,
    head,
    plan,
    pod,
    seen,
)
from tests.controllers.raycluster.test_children import RIGHTS, there

if TYPE_CHECKING:
    from kuberay.api.core import Pod
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.plan import Plan
    from kuberay.controllers.raycluster.observe import Seen

HEADLESS = there((SERVICES, "rc-headless"))
GATE_OFF = ControllerOptions(resync=None, gates=FeatureGates({Gate.RAY_MULTI_HOST_INDEXING: False}))


def tpus(replicas: int | None, hosts: int = 2, *, named: tuple[str, ...] = (), **fields: Any) -> RayCluster:
    """A cluster with one group of several hosts."""
    return cluster(
        groups=[group("tpu", replicas=replicas, numOfHosts=hosts, scaleStrategy={"workersToDelete": list(named)})],
        **fields,
    )


def host(replica: str, index: int, number: int, **fields: Any) -> Pod:
    """One host of a replica, named `replica-number`."""
    return pod(f"{replica}-{number}", group="tpu", index=index, replica=replica, host=number, **fields)


def replica(name: str, index: int, hosts: int = 2, **fields: Any) -> list[Pod]:
    return [host(name, index, number, **fields) for number in range(hosts)]


def situation(rc: RayCluster, *pods: Pod) -> Seen:
    return seen(rc, head(), *pods, children=HEADLESS)


def places(found: Plan) -> list[tuple[str, str, str]]:
    """Index, replica and host of each worker that is to be made."""
    made = [orjson.loads(each.body) for each in found.actions if isinstance(each, Create)]
    keys = ("ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name", "ray.io/replica-host-index")
    return [tuple(each["metadata"]["labels"].get(key, "") for key in keys) for each in made]


class TestGrowing:
    def test_hosts_of_a_replica_share_index_and_name(self) -> None:
        """raycluster EX-66."""
        made = places(plan(situation(tpus(2, 3))))
        assert [(index, number) for index, _, number in made] == [
            ("0", "0"),
            ("0", "1"),
            ("0", "2"),
            ("1", "0"),
            ("1", "1"),
            ("1", "2"),
        ]
        assert len({name for _, name, _ in made}) == 2
        assert all(name.startswith("tpu-") and len(name) == len("tpu-x7k2p") for _, name, _ in made)

    def test_workers_get_a_service_for_their_hosts(self) -> None:
        """raycluster EX-41a."""
        rc = cluster(groups=[group("a"), group("b", numOfHosts=4)])
        assert "service rc-headless" in creates(plan(seen(rc, head())))
        assert "service rc-headless" not in creates(plan(seen(rc, head(), children=HEADLESS)))
        assert "service rc-headless" not in creates(plan(seen(cluster(groups=[group("a"), group("b")]), head())))

    def test_a_replica_that_went_is_followed_by_one_of_its_index(self) -> None:
        """pod-template 21.1."""
        made = places(plan(situation(tpus(3, 2))))
        assert [(index, host) for index, _, host in made] == [(i, h) for i in "012" for h in "01"]
        assert [made[first][1] == made[first + 1][1] for first in (0, 2, 4)] == [True] * 3
        left = [*replica("a", 0), *replica("c", 2)]
        assert [(index, host) for index, _, host in places(plan(situation(tpus(3), *left)))] == [("1", "0"), ("1", "1")]

    def test_none_of_its_hosts_has_a_name_that_somebody_had_a_moment_ago(self) -> None:
        one = situation(tpus(1))
        first = {each.name for each in plan(one).actions}
        later = {each.name for each in plan(replace(one, used_names=frozenset(first))).actions}
        assert len(later) == 2
        assert later.isdisjoint(first)

    def test_a_batch_is_never_a_part_of_a_replica(self) -> None:
        options = ControllerOptions(resync=None, batch=5)
        assert len(places(plan(situation(tpus(4, 2)), options))) == 4
        assert len(places(plan(situation(tpus(4, 8)), options))) == 8

    def test_a_replica_that_was_cut_short_while_it_was_made_is_completed(self) -> None:
        begun = host("tpu-a", 0, 1, phase="Pending", ready=None)
        found = plan(situation(tpus(1, 3), begun))
        assert places(found) == [("0", "tpu-a", "0"), ("0", "tpu-a", "2")]
        assert deletes(found) == []

    def test_a_pod_that_does_not_tell_which_host_it_is_counts_as_one(self) -> None:
        nameless = pod("p", group="tpu", phase="Pending", ready=False, replica="tpu-a", index=0)
        assert places(plan(situation(tpus(1), nameless))) == [("0", "tpu-a", "0")]


class TestALostHost:
    def test_takes_the_others_with_it(self) -> None:
        """raycluster EX-67."""
        rest = replica("b", 1, 3)[:2]
        found = plan(situation(tpus(2, 3), *replica("a", 0, 3), *rest))
        assert sorted(deletes(found)) == ["b-0", "b-1"]
        assert {index for index, _, _ in places(found)} == {"1"}
        assert "b" not in {name for _, name, _ in places(found)}

    def test_one_that_is_leaving_is_as_good_as_lost(self) -> None:
        going = [host("a", 0, 0, leaving=True), host("a", 0, 1)]
        found = plan(situation(tpus(1), *going))
        assert deletes(found) == ["a-1"]
        assert len(places(found)) == 2

    def test_even_when_the_others_have_not_started(self) -> None:
        going = [host("a", 0, 0, leaving=True), host("a", 0, 1, phase="Pending", ready=None)]
        assert deletes(plan(situation(tpus(1), *going))) == ["a-1"]

    def test_one_that_failed_is_replaced_with_its_replica_at_once(self) -> None:
        """raycluster EX-68."""
        broken = [host("a", 0, 0, phase="Failed"), host("a", 0, 1)]
        found = plan(situation(tpus(2), *broken, *replica("b", 1)))
        assert sorted(deletes(found)) == ["a-0", "a-1"]
        assert [index for index, _, _ in places(found)] == ["0", "0"]

    def test_one_that_failed_at_once_is_given_time(self) -> None:
        broken = [host("a", 0, 0, phase="Failed", age=1), host("a", 0, 1, age=1)]
        found = plan(situation(tpus(1), *broken))
        assert not found.actions
        assert found.look_again == 4


class TestAHostThatIsRefused:
    """As by a quota that leaves no room for a whole replica."""

    def refused(self, rc: RayCluster, *pods: Pod, again_in: float = 0) -> Seen:
        failure = Failure(scope="group tpu", reason="", message="", generation=1, attempts=1, retry_at=NOW + again_in)
        return replace(situation(rc, *pods), failures={"group tpu": failure})

    def test_does_not_cost_those_that_run(self) -> None:
        """They would be made again, up to the same host, for ever."""
        assert not plan(self.refused(tpus(1, 4), *replica("a", 0, 4)[:3], again_in=1)).actions

    def test_is_made_when_there_is_room(self) -> None:
        found = plan(self.refused(tpus(1, 4), *replica("a", 0, 4)[:3]))
        assert (deletes(found), places(found)) == ([], [("0", "a", "3")])

    def test_is_not_forgotten_while_workers_wait_for_a_head(self) -> None:
        """Or those that run would be taken for the rest of a broken replica when the head is back."""
        waiting = self.refused(tpus(1, 4), *replica("a", 0, 4)[:3])
        held = replace(waiting.failures["group tpu"], scope="head", retry_at=NOW + 1)
        headless = replace(
            waiting, pods=tuple(replica("a", 0, 4)[:3]), counted=None, failures={**waiting.failures, "head": held}
        )
        assert plan(headless).held == {"head", "group tpu"}

    def test_makes_no_difference_to_a_replica_that_loses_another(self) -> None:
        going = [host("a", 0, 0, leaving=True), *replica("a", 0, 4)[1:3]]
        assert deletes(plan(self.refused(tpus(1, 4), *going))) == ["a-1", "a-2"]

    def test_is_waited_for_by_one_replica_and_the_others_make_room(self) -> None:
        """Or there would be room for a whole one, and none would be whole."""
        both = (*replica("a", 0, 4)[:2], *replica("b", 1, 4)[:3])
        found = plan(self.refused(tpus(2, 4), *both))
        assert deletes(found) == ["a-0", "a-1"]
        assert places(found) == [("1", "b", "3")]

    def test_is_of_the_replica_that_goes_when_fewer_are_wanted(self) -> None:
        found = plan(self.refused(tpus(1, 4), *replica("a", 0, 4), *replica("b", 1, 4, age=7200)[:3]))
        assert sorted(deletes(found)) == ["b-0", "b-1", "b-2"]


class TestAReplicaWithTooManyHosts:
    """As after numOfHosts was lowered."""

    def test_loses_the_last_of_them(self) -> None:
        assert deletes(plan(situation(tpus(1), *replica("a", 0, 3)))) == ["a-2"]

    def test_is_one_replica_as_long_as_the_rest_makes_no_other(self) -> None:
        found = plan(situation(tpus(2), *replica("a", 0, 3)))
        assert deletes(found) == ["a-2"]
        assert [index for index, _, _ in places(found)] == ["1", "1"]

    def test_serves_as_two_where_it_has_hosts_for_two(self) -> None:
        found = plan(situation(tpus(2), *replica("a", 0, 4)))
        assert (deletes(found), places(found)) == ([], [])

    def test_keeps_those_that_count_from_zero(self) -> None:
        """They are told apart by these numbers: programs on two hosts do not know of a third."""
        found = plan(situation(tpus(2), *replica("a", 0, 4), *replica("b", 1, 4)))
        assert sorted(deletes(found)) == ["a-2", "a-3", "b-2", "b-3"]

    def test_loses_a_healthy_one_only_on_a_fresh_view(self) -> None:
        found = plan(situation(tpus(1), *replica("a", 0, 3)))
        assert [each.is_fenced for each in found.actions if isinstance(each, Delete)] == [True]


class TestShrinking:
    def test_it_goes_on_while_nothing_can_be_made(self) -> None:
        held = Failure(scope="group tpu", reason="", message="", generation=1, attempts=1, retry_at=NOW + 1)
        one = situation(tpus(1, named=("a-0",)), *replica("a", 0))
        found = plan(replace(one, failures={"group tpu": held}))
        assert deletes(found) == ["a-0", "a-1"]
        assert creates(found) == []

    def test_a_named_pod_stands_for_its_replica(self) -> None:
        """raycluster EX-69."""
        rc = tpus(1, 3, named=("b-1",), enableInTreeAutoscaling=True)
        found = plan(situation_with_rights(rc, *replica("a", 0, 3), *replica("b", 1, 3)))
        assert sorted(deletes(found)) == ["b-0", "b-1", "b-2"]
        assert places(found) == []

    def test_with_the_autoscaler_nothing_goes_unnamed(self) -> None:
        """raycluster EX-70."""
        for named in ((), ("ghost",)):
            rc = tpus(1, 2, named=named, enableInTreeAutoscaling=True)
            assert not plan(situation_with_rights(rc, *replica("a", 0), *replica("b", 1))).actions

    def test_unless_any_may_go(self) -> None:
        options = ControllerOptions(resync=None, random_pod_delete=True)
        rc = tpus(1, 2, enableInTreeAutoscaling=True)
        found = plan(situation_with_rights(rc, *replica("a", 0), *replica("b", 1)), options)
        assert sorted(deletes(found)) == ["b-0", "b-1"]

    def test_whole_replicas_go_and_those_that_do_the_least_first(self) -> None:
        half = [host("b", 1, 0), host("b", 1, 1, ready=False)]
        found = plan(situation(tpus(1), *half, *replica("a", 0, age=60)))
        assert sorted(deletes(found)) == ["b-0", "b-1"]
        assert all(each.is_fenced for each in found.actions if isinstance(each, Delete))

    def test_what_is_not_wanted_is_not_completed_first(self) -> None:
        begun = host("b", 1, 0, phase="Pending", ready=None)
        found = plan(situation(tpus(1), *replica("a", 0), begun))
        assert deletes(found) == ["b-0"]
        assert places(found) == []

    def test_with_the_autoscaler_what_is_too_much_is_not_completed(self) -> None:
        rc = tpus(0, enableInTreeAutoscaling=True)
        found = plan(situation_with_rights(rc, host("tpu-a", 0, 0, phase="Pending", ready=False)))
        assert places(found) == []
        assert deletes(found) == []

    def test_many_go_without_being_compared_with_each_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        comparisons = 0

        def is_same(one: Replica, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return one is other

        monkeypatch.setattr(Replica, "__eq__", is_same)
        many = (each for index in range(100) for each in replica(f"r{index}", index))
        found = plan(situation(tpus(10), *many))
        assert (len(deletes(found)), comparisons) == (180, 0)


class TestPodsWithoutAReplicasName:
    OLD = tuple(pod(f"old-{number}", group="tpu", age=3600 - number) for number in range(4))

    def test_they_are_what_was_asked_for(self) -> None:
        assert not plan(situation(tpus(2), *self.OLD)).actions

    @pytest.mark.parametrize("lost", range(4))
    def test_one_that_is_lost_costs_no_other(self, lost: int) -> None:
        """Nothing tells who its mates are: whoever was taken for one would be of another replica."""
        left = [each for number, each in enumerate(self.OLD) if number != lost]
        found = plan(situation(tpus(2), *left, pod("old-x", group="tpu", leaving=True)))
        assert (deletes(found), places(found)) == ([], [("", "", "")])

    def test_one_that_failed_is_replaced_alone(self) -> None:
        broken = pod("old-1", group="tpu", phase="Failed")
        found = plan(situation(tpus(2), self.OLD[0], broken, *self.OLD[2:]))
        assert (deletes(found), places(found)) == (["old-1"], [("", "", "")])

    def test_one_that_failed_at_once_is_given_time(self) -> None:
        broken = pod("old-1", group="tpu", phase="Failed", age=1)
        found = plan(situation(tpus(2), self.OLD[0], broken, *self.OLD[2:]))
        assert (found.actions, found.look_again) == ([], 4)

    def test_those_that_are_named_go_and_no_others(self) -> None:
        rc = tpus(1, named=("old-0", "old-2"), enableInTreeAutoscaling=True)
        found = plan(situation_with_rights(rc, *self.OLD))
        assert (deletes(found), places(found)) == (["old-0", "old-2"], [])

    def test_one_that_was_refused_is_waited_for(self) -> None:
        held = Failure(scope="group tpu", reason="", message="", generation=1, attempts=1, retry_at=NOW + 1)
        assert not plan(replace(situation(tpus(2), *self.OLD[:3]), failures={"group tpu": held})).actions

    def test_they_go_as_replicas_do(self) -> None:
        assert sorted(deletes(plan(situation(tpus(1), *self.OLD)))) == ["old-2", "old-3"]

    def test_those_that_make_no_replica_go_first(self) -> None:
        found = plan(situation(tpus(2), *self.OLD[:3], *replica("a", 0, age=1)))
        assert deletes(found) == ["old-2"]

    def test_no_replica_is_completed_beside_those_that_only_the_autoscaler_may_remove(self) -> None:
        begun = host("a", 0, 0, phase="Pending", ready=False)
        rc = tpus(1, enableInTreeAutoscaling=True)
        assert plan(situation_with_rights(rc, begun, self.OLD[0])).actions == []
        assert [each[1:] for each in places(plan(situation_with_rights(rc, begun)))] == [("a", "1")]

    def test_those_that_were_replicas_by_themselves_make_way_for_replicas_of_several_hosts(self) -> None:
        """As after numOfHosts was raised from 1."""
        single = [pod(f"w{index}", group="tpu", index=index) for index in range(3)]
        found = plan(situation(tpus(3), *single))
        assert deletes(found) == ["w0", "w1", "w2"]
        assert [(index, number) for index, _, number in places(found)] == [(i, h) for i in "012" for h in "01"]
        assert {each.why for each in found.actions if isinstance(each, Delete)} == {
            "each was a replica by itself, and replicas have 2 hosts now"
        }

    def test_no_two_that_were_replicas_by_themselves_pass_for_one_of_two_hosts(self) -> None:
        """As after numOfHosts was raised from 1, and replicas lowered in the same breath."""
        single = [pod(f"w{index}", group="tpu", index=index) for index in range(2)]
        found = plan(situation(tpus(1), *single))
        assert deletes(found) == ["w0", "w1"]
        assert [(index, number) for index, _, number in places(found)] == [("0", "0"), ("0", "1")]


class TestWithTheGateClosed:
    def test_pods_are_handled_one_by_one(self) -> None:
        """raycluster EX-71."""
        rc = cluster(groups=[group("tpu", replicas=None, minReplicas=1, numOfHosts=4)])
        found = plan(situation(rc, *(pod(f"p{number}", group="tpu") for number in range(5))), GATE_OFF)
        assert len(deletes(found)) == 1

    def test_no_pod_has_an_index(self) -> None:
        assert set(places(plan(situation(tpus(2)), GATE_OFF))) == {("", "", "")}


def situation_with_rights(rc: RayCluster, *pods: Pod) -> Seen:
    return seen(rc, head(), *pods, children={**HEADLESS, **there(*RIGHTS)})


@st.composite
def situations(draw: st.DrawFn) -> Seen:
    """Replicas of two hosts in every state, and Pods without a name."""
    states: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {
            "phase": st.sampled_from(["Pending", "Running", "Running", "Failed"]),
            "ready": st.sampled_from([None, False, True]),
            "leaving": st.sampled_from([False, False, True]),
            "age": st.sampled_from([1.0, 3600.0]),
        }
    )
    found = [
        host(name, index, number, **draw(states))
        for index, name in enumerate("abc")
        for number in range(2)
        if draw(st.booleans())
    ]
    found += [pod(f"old-{number}", group="tpu", **draw(states)) for number in range(draw(st.integers(0, 3)))]
    named = tuple(draw(st.lists(st.sampled_from(["a-0", "b-1", "old-0", "rc-head"]), max_size=2)))
    return situation(tpus(draw(st.integers(0, 4)), named=named), *found)


@given(situations())
def test_acting_on_a_plan_leaves_whole_replicas_and_nothing_to_do(one: Seen) -> None:
    for _ in range(8):
        found = plan(one)
        one = grown_up(after(one, found))
        if found.is_empty:
            break
    assert plan(one).is_empty
    live = [each for each in one.of_group("tpu") if not each.is_leaving]
    wanted = one.cluster.spec.worker_group_specs[0].replicas or 0
    assert len(live) == 2 * wanted
    named = Counter(each.metadata.labels.get("ray.io/worker-group-replica-name", "") for each in live)
    assert all(count == 2 if name else count % 2 == 0 for name, count in named.items())


@given(situations())
def test_what_is_made_and_removed_at_once_is_never_the_same_replica(one: Seen) -> None:
    found = plan(one, OPTIONS)
    gone = {each.name for each in found.actions if isinstance(each, Delete)}
    names = {
        each.metadata.labels.get("ray.io/worker-group-replica-name")
        for each in one.of_group("tpu")
        if each.name in gone
    }
    assert not {name for _, name, _ in places(found)} & names
