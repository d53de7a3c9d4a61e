"""Histograms that cost next to nothing to add to.

Those of prometheus_client can be added to from many threads, and walk through all their bounds each time. Here one
event loop counts, several times for each request.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import CollectorRegistry


class Histogram(Collector):
    """How often something had which size, by labels.

    :param bounds: the largest sizes of all ranges but the last, in order.
    """

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = bounds
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """The series of these labels, to be kept by whoever adds to it."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Series(self._bounds)
        return series

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """For the registry, which has each name once."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """For the registry, which may ask from another thread."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, series in list(self._series.items()):
            counted = accumulate(list(series.counts))
            family.add_metric(labels, [*zip(bounds, map(float, counted), strict=True)], series.sum)
        yield family


class Series:
    """The sizes that were seen under one set of labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.sum = 0.0
        self.counts = [0] * (len(bounds) + 1)
        """How many were in each range."""
        self._bounds = bounds

    def observe(self, size: float) -> None:
        """Something had this size."""
        self.sum += size
        self.counts[bisect_left(self._bounds, size)] += 1
