"""What makes Pods outdated, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build.revision import revision
from tests.build.clusters import cluster, group, template

SAME: dict[str, dict[str, Any]] = {
    "replicas": {"groups": [group(replicas=5)]},
    "bounds": {"groups": [group(minReplicas=1, maxReplicas=99)]},
    "workers to delete": {"groups": [group(scaleStrategy={"workersToDelete": ["a"]})]},
    "tolerations of a worker": {"groups": [group(template=template("ray-worker", pod={"tolerations": [{}]}))]},
    "gates of the head": {"head": {"template": template("ray-head", pod={"schedulingGates": [{"name": "x"}]})}},
    "upgrade strategy": {"upgradeStrategy": {"type": "Recreate"}},
}
OTHER: dict[str, dict[str, Any]] = {
    "image": {"head": {"template": template("ray-head", image="rayproject/ray:3.0.0")}},
    "a group more": {"groups": [group(), group("b")]},
    "Ray version": {"rayVersion": "2.53.0"},
    "suspend": {"suspend": False},
    "hosts": {"groups": [group(numOfHosts=2)]},
    "annotations of the head Service": {"headServiceAnnotations": {"a": "b"}},
}


@pytest.mark.parametrize("change", SAME)
def test_scaling_and_placing_leave_it_as_it_is(change: str) -> None:
    assert revision(cluster(**SAME[change]).spec) == revision(cluster().spec)


@pytest.mark.parametrize("change", OTHER)
def test_everything_else_changes_it(change: str) -> None:
    assert revision(cluster(**OTHER[change]).spec) != revision(cluster().spec)


def test_it_looks_as_clients_expect() -> None:
    text = revision(cluster().spec)
    assert len(text) == 32
    assert set(text) <= set("0123456789ABCDEFGHIJKLMNOPQRSTUV")
