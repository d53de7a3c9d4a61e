from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kuberay.kube.controller import Controller, Result, TerminalError
from kuberay.kube.errors import TransportError
from kuberay.kube.metrics import ControllerMetrics, Metrics, QueueMetrics
from kuberay.kube.queue import LOW, Queue
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    import pytest


def values(metrics: Metrics) -> dict[str, float]:
    """Every series as it is written, by its text."""
    metrics.refresh()
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


class TestQueues:
    @virtual_time
    async def test_what_waits_what_is_under_work_and_how_long(self) -> None:
        metrics = Metrics()
        queue: Queue[str] = Queue(clock=clock, metrics=QueueMetrics(metrics, "q", clock=clock))
        for key in ("a", "b", "b"):
            queue.add(key)
        queue.add("low", priority=LOW)
        queue.add("later", after=100)
        await asyncio.sleep(2)
        key = await queue.get()
        await asyncio.sleep(3)
        during = values(metrics)
        both = "controller=q,name=q"
        assert during[f"workqueue_adds_total{{{both}}}"] == 4
        assert during[f"workqueue_depth{{{both},priority=0}}"] == 1
        assert during[f"workqueue_depth{{{both},priority=-100}}"] == 1
        assert during[f"workqueue_queue_duration_seconds_sum{{{both}}}"] == 2
        assert during[f"workqueue_unfinished_work_seconds{{{both}}}"] == 3
        assert during[f"workqueue_longest_running_processor_seconds{{{both}}}"] == 3
        queue.retry(key)
        queue.done(key)
        after = values(metrics)
        assert after[f"workqueue_work_duration_seconds_sum{{{both}}}"] == 3
        assert after[f"workqueue_retries_total{{{both}}}"] == 1
        assert after[f"workqueue_unfinished_work_seconds{{{both}}}"] == 0


class TestControllers:
    @virtual_time
    async def test_what_came_of_reconciles(self) -> None:
        outcomes = [None, Result(requeue_after=1), TransportError("no"), RuntimeError("oops"), TerminalError("never")]

        async def reconcile(key: str) -> Result | None:
            outcome = outcomes[int(key)]
            await asyncio.sleep(1)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        metrics = Metrics()
        queue: Queue[str] = Queue(clock=clock)
        c = Controller("c", queue, reconcile, workers=2, metrics=ControllerMetrics(metrics, "c", 2), clock=clock)
        for number in range(5):
            queue.add(str(number))
        running = asyncio.create_task(c.run())
        await asyncio.sleep(0.5)
        assert values(metrics)["controller_runtime_active_workers{controller=c}"] == 2
        await asyncio.sleep(2.5)
        c.stop()
        await running
        found = values(metrics)
        prefix = "controller_runtime_reconcile"
        assert found[f"{prefix}_total{{controller=c,result=success}}"] >= 1
        assert found[f"{prefix}_total{{controller=c,result=requeue_after}}"] >= 1
        assert found[f"{prefix}_total{{controller=c,result=error}}"] == found[f"{prefix}_errors_total{{controller=c}}"]
        assert found[f"{prefix}_panics_total{{controller=c}}"] >= 1
        assert found["controller_runtime_terminal_reconcile_errors_total{controller=c}"] == 1
        assert found["controller_runtime_max_concurrent_reconciles{controller=c}"] == 2
        assert found["controller_runtime_active_workers{controller=c}"] == 0
        assert (
            found[f"{prefix}_time_seconds_sum{{controller=c}}"] == found[f"{prefix}_time_seconds_count{{controller=c}}"]
        )


class TestTheWhole:
    def test_names_and_labels_are_those_of_the_go_libraries(self) -> None:
        metrics = Metrics()
        families = metrics.registry.collect()
        names = {family.name for family in families if not family.name.startswith("process_")}
        assert names == {
            *(f"workqueue_{each}" for each in ("depth", "adds", "retries", "queue_duration_seconds")),
            *(f"workqueue_{each}" for each in ("work_duration_seconds", "unfinished_work_seconds")),
            "workqueue_longest_running_processor_seconds",
            *(f"controller_runtime_reconcile{each}" for each in ("", "_errors", "_panics", "_time_seconds")),
            "controller_runtime_terminal_reconcile_errors",
            *(f"controller_runtime_{each}" for each in ("max_concurrent_reconciles", "active_workers")),
            *(f"controller_runtime_webhook_{each}" for each in ("requests", "latency_seconds", "panics")),
            "controller_runtime_webhook_requests_in_flight",
            *(f"rest_client_{each}" for each in ("requests", "request_retries", "request_duration_seconds")),
            *(f"rest_client_{each}_duration_seconds" for each in ("rate_limiter", "dns_resolution")),
            *(f"rest_client_{each}_size_bytes" for each in ("request", "response")),
            "leader_election_master_status",
            *(f"certwatcher_read_certificate{each}" for each in ("", "_errors")),
        }

    async def test_leadership_is_asked_for_when_the_metrics_are(self) -> None:
        metrics = Metrics()
        leads = False
        metrics.follow_leadership("l", lambda: leads)
        assert values(metrics)["leader_election_master_status{name=l}"] == 0
        leads = True
        assert values(metrics)["leader_election_master_status{name=l}"] == 1

    async def test_two_processes_in_one_do_not_mix(self) -> None:
        one, other = Metrics(), Metrics()
        one.requests.labels("200", "GET", "h").inc()
        assert not any(name.startswith("rest_client") for name in values(other))

    async def test_the_text_is_made_off_the_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        threads: list[threading.Thread] = []

        def generate(_: Any) -> bytes:
            threads.append(threading.current_thread())
            return b""

        monkeypatch.setattr("kuberay.kube.metrics.generate_latest", generate)
        assert await Metrics().render() == b""
        assert threads != [threading.main_thread()]

    async def test_nothing_is_said_of_when_a_counter_was_made(self) -> None:
        metrics = Metrics()
        metrics.requests.labels("200", "GET", "h").inc()
        assert not any("_created" in name for name in values(metrics))
