"""Histograms are written as prometheus_client writes its own."""

from __future__ import annotations

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from kuberay.kube.histogram import Histogram

sizes = st.floats(min_value=0, max_value=1e6) | st.sampled_from([0.005, 0.1, 1.0, 64.0])
bounds = st.lists(st.sampled_from([0.005, 0.1, 0.5, 1.0, 64.0, 4096.0]), min_size=1, unique=True).map(sorted)


@given(bounds, st.lists(st.tuples(st.sampled_from("ab"), sizes)))
def test_they_count_and_are_written_like_those_of_the_library(
    bounds: list[float], seen: list[tuple[str, float]]
) -> None:
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    registries = CollectorRegistry(), CollectorRegistry()
    ours = Histogram("took_seconds", "How long.", ["verb"], bounds=bounds, registry=registries[0])
    theirs = prometheus_client.Histogram("took_seconds", "How long.", ["verb"], buckets=bounds, registry=registries[1])
    for verb, size in seen:
        ours.labels(verb).observe(size)
        theirs.labels(verb).observe(size)
    assert generate_latest(registries[0]) == generate_latest(registries[1])


def test_two_of_one_name_are_refused_as_by_the_library() -> None:
    registry = CollectorRegistry()
    Histogram("took_seconds", "How long.", [], bounds=[1.0], registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("took_seconds", "How long.", [], bounds=[1.0], registry=registry)
