"""What a controller process measures of itself, under the names that boards for controller-runtime already use.

Nothing is measured unless a queue, controller or transport is given its part. Labels are bound once, so that counting
is an addition. Text is made off the event loop: thousands of series take tens of milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from kuberay.kube.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.kube.queue import Queue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_QUEUE_BUCKETS = [10.0**exponent for exponent in range(-8, 4)]
_RECONCILE_BUCKETS = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75,
    2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
]  # fmt: skip

_REQUEST_SECONDS: list[float] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]
_REQUEST_BYTES: list[float] = [64, 256, 512, *(4**exponent for exponent in range(5, 13))]


class Metrics:
    """All metrics of one process, in a registry of their own; others may be registered beside them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        # When a counter was made is of no use to anybody, and doubles their number.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry or CollectorRegistry()
        self._before: list[Callable[[], None]] = []
        ProcessCollector(registry=self.registry)
        by_queue = ["name", "controller"]
        self.depth = self._gauge("workqueue_depth", "Keys that wait to be looked at.", [*by_queue, "priority"])
        self.adds = self._counter("workqueue_adds", "Keys that were added.", by_queue)
        self.retries = self._counter("workqueue_retries", "Keys that came back after a failure.", by_queue)
        self.waited = self._histogram("workqueue_queue_duration_seconds", "How long keys waited.", by_queue)
        self.worked = self._histogram("workqueue_work_duration_seconds", "How long work on keys took.", by_queue)
        self.unfinished = self._gauge(
            "workqueue_unfinished_work_seconds", "How long work on keys has taken that is not done.", by_queue
        )
        self.longest = self._gauge(
            "workqueue_longest_running_processor_seconds", "How long the longest of that has taken.", by_queue
        )
        prefix = "controller_runtime"
        by_controller = ["controller"]
        self.reconciles = self._counter(
            f"{prefix}_reconcile", "Reconciles by what came of them.", ["controller", "result"]
        )
        self.errors = self._counter(f"{prefix}_reconcile_errors", "Reconciles that failed.", by_controller)
        self.terminal = self._counter(
            f"{prefix}_terminal_reconcile_errors", "Reconciles that failed for good.", by_controller
        )
        self.panics = self._counter(
            f"{prefix}_reconcile_panics", "Reconciles that failed by a mistake in the program.", by_controller
        )
        self.took = self._histogram(
            f"{prefix}_reconcile_time_seconds", "How long reconciles took.", by_controller, _RECONCILE_BUCKETS
        )
        self.workers = self._gauge(
            f"{prefix}_max_concurrent_reconciles", "How many reconciles may run at once.", by_controller
        )
        self.active = self._gauge(f"{prefix}_active_workers", "How many reconciles run.", by_controller)
        self._add_rest_client()
        self.leader = self._gauge("leader_election_master_status", "1 while this process leads, else 0.", ["name"])
        by_webhook = ["webhook"]
        self.webhook_requests = self._counter(
            f"{prefix}_webhook_requests", "Admission requests by status code.", ["webhook", "code"]
        )
        self.webhook_took = self._histogram(
            f"{prefix}_webhook_latency_seconds", "How long admission requests took.", by_webhook, _RECONCILE_BUCKETS
        )
        self.webhook_active = self._gauge(
            f"{prefix}_webhook_requests_in_flight", "Admission requests under way.", by_webhook
        )
        self.webhook_panics = self._counter(
            f"{prefix}_webhook_panics", "Reviews that failed by a mistake in the program.", []
        )
        self.certificate_reads = self._counter(
            "certwatcher_read_certificate", "Looks at the files of the webhook server's certificate.", []
        )
        self.certificate_errors = self._counter(
            "certwatcher_read_certificate_errors", "Those that found nothing that can be used.", []
        )

    def _add_rest_client(self) -> None:
        by_verb = ["verb", "host"]
        self.requests = self._counter(
            "rest_client_requests", "Requests to the API server by answer.", ["code", "method", "host"]
        )
        self.request_retries = self._counter(
            "rest_client_request_retries", "Requests that were sent again.", ["code", *by_verb]
        )
        self.request_seconds = self._histogram(
            "rest_client_request_duration_seconds", "How long requests took.", by_verb, _REQUEST_SECONDS
        )
        self.limiter_seconds = self._histogram(
            "rest_client_rate_limiter_duration_seconds",
            "How long requests were held back by the limit of this process.",
            by_verb,
            _REQUEST_SECONDS,
        )
        self.dns_seconds = self._histogram(
            "rest_client_dns_resolution_duration_seconds",
            "How long the server's name took to look up.",
            ["host"],
            _REQUEST_SECONDS[:-1],
        )
        self.request_bytes = self._histogram(
            "rest_client_request_size_bytes", "How large requests were.", by_verb, _REQUEST_BYTES
        )
        self.response_bytes = self._histogram(
            "rest_client_response_size_bytes", "How large answers were.", by_verb, _REQUEST_BYTES
        )

    def follow_leadership(self, name: str, holds: Callable[[], bool]) -> None:
        """Show whether this process leads; asked whenever the metrics are."""
        status = self.leader.labels(name)
        self.before_rendering(lambda: status.set(1 if holds() else 0))

    def before_rendering(self, refresh: Callable[[], None]) -> None:
        """Call something on the event loop before the text is made, to bring gauges up to date."""
        self._before.append(refresh)

    def refresh(self) -> None:
        """Bring gauges up to date that are not counted along."""
        for refresh in self._before:
            refresh()

    async def render(self) -> bytes:
        """All metrics as text."""
        self.refresh()
        return await asyncio.to_thread(generate_latest, self.registry)

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, labels: list[str], bounds: list[float] | None = None) -> Histogram:
        return Histogram(name, text, labels, bounds=bounds or _QUEUE_BUCKETS, registry=self.registry)


class QueueMetrics:
    """Measures one queue: give it to the queue, and the queue to `follow`."""

    def __init__(self, metrics: Metrics, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._name = name
        self._clock = clock
        self._started: dict[Any, float] = {}
        self.added = metrics.adds.labels(name, name).inc
        self.retried = metrics.retries.labels(name, name).inc
        self._waited = metrics.waited.labels(name, name)
        self._worked = metrics.worked.labels(name, name)
        self._unfinished = metrics.unfinished.labels(name, name)
        self._longest = metrics.longest.labels(name, name)
        self._priorities: set[int] = {0}

    def taken(self, key: Any, waited: float) -> None:
        """A key was handed out."""
        self._waited.observe(waited)
        self._started[key] = self._clock()

    def done(self, key: Any) -> None:
        """The work on a key has ended."""
        started = self._started.pop(key, None)
        if started is not None:
            self._worked.observe(self._clock() - started)

    def follow(self, queue: Queue[Any]) -> None:
        """Show how many keys wait and what is under work, whenever the metrics are asked for."""

        def refresh() -> None:
            depths = queue.depths()
            self._priorities |= depths.keys()
            for priority in self._priorities:
                self._metrics.depth.labels(self._name, self._name, priority).set(depths.get(priority, 0))
            now = self._clock()
            running = [now - started for started in self._started.values()]
            self._unfinished.set(sum(running))
            self._longest.set(max(running, default=0.0))

        self._metrics.before_rendering(refresh)


class ControllerMetrics:
    """Measures the reconciles of one controller."""

    def __init__(self, metrics: Metrics, name: str, workers: int) -> None:
        metrics.workers.labels(name).set(workers)
        # Those of controller-runtime; what asks for a look at once is a `requeue_after` here.
        results = ("success", "requeue", "requeue_after", "error")
        self._results = {result: metrics.reconciles.labels(name, result).inc for result in results}
        self._errors = metrics.errors.labels(name)
        self.active = metrics.active.labels(name)
        self.took = metrics.took.labels(name).observe
        self._terminal = metrics.terminal.labels(name)
        self._panics = metrics.panics.labels(name)

    def succeeded(self, *, again: bool) -> None:
        """A reconcile did what it should, and may have asked for another look."""
        self._results["requeue_after" if again else "success"]()

    def failed(self, *, terminal: bool = False, panic: bool = False) -> None:
        """A reconcile failed: for a while, for good, or by a mistake in the program."""
        self._results["error"]()
        self._errors.inc()
        if terminal:
            self._terminal.inc()
        if panic:
            self._panics.inc()
