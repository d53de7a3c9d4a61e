"""Who goes from a group of single hosts: whom Ray's autoscaler names, and Pods whose group is gone."""

from __future__ import annotations

from dataclasses import replace

from tests.build.clusters import group
from tests.controllers.raycluster.situations import OPTIONS, cluster, deletes, head, plan, pod, seen
from tests.controllers.raycluster.test_children import RIGHTS, there

WORKERS = "abcde"


def left(*named: str, random: bool = False) -> str:
    """The workers that stay when five of them shall become three, and these are named."""
    rc = cluster(
        groups=[group(replicas=3, scaleStrategy={"workersToDelete": list(named)})], enableInTreeAutoscaling=True
    )
    pods = [pod(name, index=index) for index, name in enumerate(WORKERS)]
    gone = deletes(plan(seen(rc, head(), *pods, children=there(*RIGHTS)), replace(OPTIONS, random_pod_delete=random)))
    return "".join(name for name in WORKERS if name not in gone)


def test_nobody_goes_whom_it_has_not_named() -> None:
    """raycluster EX-60."""
    assert left("b", "ghost") == "acde"
    assert left("g1", "g2") == "abcde"


def test_nobody_goes_for_those_who_were_named() -> None:
    """raycluster EX-59."""
    assert left("a", "e", random=True) == "bcd"


def test_others_go_for_those_who_are_not_there_when_any_may() -> None:
    """raycluster EX-59: but not the first of a list, who may be the oldest."""
    assert left("b", "ghost", random=True) == "acd"
    assert left("g1", "g2", random=True) == "abc"


def test_no_name_is_used_again_that_somebody_had_a_moment_ago() -> None:
    """Ray's autoscaler knows workers by their names: a new one would be taken for the dead one."""
    situation = seen(cluster(groups=[group(replicas=2)]), head())
    first = {each.name for each in plan(situation).actions}
    assert {each.name for each in plan(situation).actions} == first, "or a create that is sent twice makes two"
    later = {each.name for each in plan(replace(situation, used_names=frozenset(first))).actions}
    assert len(later) == 2
    assert later.isdisjoint(first)


def test_pods_of_a_group_that_is_gone_go_in_portions_and_once() -> None:
    orphans = [pod(name, group="gone", leaving=name == "a") for name in WORKERS]
    situation = seen(cluster(groups=[]), head(), *orphans)
    assert deletes(plan(situation, replace(OPTIONS, batch=3))) == ["b", "c", "d"]
    assert deletes(plan(situation)) == ["b", "c", "d", "e"]
