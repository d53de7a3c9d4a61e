"""Sizes of groups, as numbers."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.api.v1 import WorkerGroupSpec
from kuberay.controllers.raycluster import scaling
from tests.build.clusters import group as fields


def group(replicas: int | None, low: int | None, high: int | None, hosts: int, **more: Any) -> WorkerGroupSpec:
    numbers = {"replicas": replicas, "minReplicas": low, "maxReplicas": high, "numOfHosts": hosts}
    return WorkerGroupSpec.from_dict({**fields(), **numbers, **more})


class TestDesiredPods:
    @pytest.mark.parametrize(
        ("replicas", "low", "high", "hosts", "expected"),
        [
            (4, 2, 8, 1, 4),
            (1, 2, 8, 1, 2),
            (20, 2, 8, 1, 8),
            (4, 2, 8, 3, 12),
            (None, 2, 8, 1, 2),
            (7, None, None, 1, 7),
            (1, 2, 5, 1, 2),
        ],
    )
    def test_replicas_are_kept_within_their_bounds(
        self, replicas: int | None, low: int | None, high: int | None, hosts: int, expected: int
    ) -> None:
        """raycluster EX-08, raycluster EX-58a."""
        assert scaling.desired_pods(group(replicas, low, high, hosts)) == expected

    def test_a_suspended_group_has_none(self) -> None:
        """raycluster EX-58a."""
        one = group(4, 2, 8, 1, suspend=True)
        assert (scaling.desired_pods(one), scaling.min_pods(one), scaling.max_pods(one)) == (0, 0, 0)


class TestMinimum:
    @pytest.mark.parametrize(("low", "hosts", "expected"), [(2, 3, 6), (None, 3, 0), (2147483647, 2, 2147483647)])
    def test_it_counts_pods_and_saturates(self, low: int | None, hosts: int, expected: int) -> None:
        assert scaling.min_pods(group(0, low, None, hosts)) == expected


class TestMaximum:
    @pytest.mark.parametrize(("high", "hosts", "expected"), [(2147483647, 2, 2147483647), (50, 3, 150)])
    def test_it_saturates(self, high: int, hosts: int, expected: int) -> None:
        """raycluster EX-75."""
        assert scaling.max_pods(group(0, 0, high, hosts)) == expected

    def test_a_sum_saturates_too(self) -> None:
        """raycluster EX-75."""
        assert scaling.total([2_000_000_000, 1_000_000_000]) == 2147483647
