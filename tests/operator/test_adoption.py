"""Clusters that KubeRay's own operators left behind are taken over as they are, and then obey.

Every test runs on the embedded API server and on a real kube-apiserver, over all clusters of `inheritance`.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.operator.inheritance import UPSTREAM, Left, Life, left, lives
from tests.servers import BOTH, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's clusters (../shared/upstream) are not on this machine"),
]

CLUSTERS = left()


@pytest.fixture(scope="session", params=BOTH)
def lived(request: pytest.FixtureRequest) -> dict[str, Life]:
    """What became of all of them, by name."""

    async def live() -> dict[str, Life]:
        async with serving(request.param, request) as server:
            return await lives(server, CLUSTERS)

    return asyncio.run(live())


@pytest.fixture(params=CLUSTERS, ids=lambda each: each.name)
def cluster(request: pytest.FixtureRequest) -> Left:
    found: Left = request.param
    return found


@pytest.fixture
def life(lived: dict[str, Life], cluster: Left) -> Life:
    return lived[cluster.name]


def test_nothing_is_made_removed_or_started_anew(life: Life) -> None:
    assert life.pods("taken over") == life.pods("left")
    statuses = Counter(each for each in life.writes if each.endswith("/status"))
    assert all(count == 1 for count in statuses.values()), statuses
    others = [each for each in life.writes if not each.endswith("/status")]
    # A head of another operator version is marked as ours, so that it is not taken for outdated.
    marked = [each for each in others if each.startswith("PATCH") and "/pods/" in each and "-head" in each]
    assert others == marked
    assert len(marked) <= 1


def test_they_grow_and_lose_nobody(life: Life, cluster: Left) -> None:
    hosts = cluster.cluster["spec"]["workerGroupSpecs"][0].get("numOfHosts", 1)
    assert life.pods("awake") >= life.pods("left")
    assert life.pods("grown") > life.pods("awake")
    assert len(life.pods("grown")) == len(life.pods("awake")) + hosts


def test_they_shrink_by_as_much_as_was_asked(life: Life) -> None:
    assert life.pods("shrunk") < life.pods("grown")
    assert len(life.pods("shrunk")) == len(life.pods("awake"))


def test_a_new_image_replaces_their_pods_where_recreate_is_asked_for_and_nowhere_else(
    life: Life, cluster: Left
) -> None:
    if cluster.is_recreated:
        assert not life.pods("edited") & life.pods("shrunk")
        assert len(life.pods("edited")) == len(life.pods("shrunk"))
    else:
        assert life.pods("edited") == life.pods("shrunk")


def test_they_are_suspended_and_come_back(life: Life) -> None:
    assert life.pods("suspended") == frozenset()
    assert len(life.pods("resumed")) == len(life.pods("edited"))


def test_they_go_with_all_that_belongs_to_them(life: Life) -> None:
    assert life.pods("gone") == frozenset()


def test_some_of_them_are_recreated() -> None:
    assert any(each.is_recreated for each in CLUSTERS)
