from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuberay.kube.access import Access
from kuberay.kube.client import Client, Retry
from kuberay.kube.errors import TransportError
from kuberay.kube.limits import LimitedTransport
from kuberay.kube.metrics import Metrics
from kuberay.kube.request_metrics import MeasuredTransport, RequestMetrics
from kuberay.kube.resources import PODS
from kuberay.kube.transport import Request
from tests.kube.scripted import BROKEN, Answer, ScriptedTransport, refused
from tests.kube.test_http import connected, echo, serving
from tests.kube.test_metrics import values
from tests.kube.virtual_time import clock, virtual_time

HOST = "api:6443"


def counted(metrics: Metrics, name: str) -> dict[str, float]:
    """The series of a metric by their labels, without the host."""
    found = {text: value for text, value in values(metrics).items() if text.startswith(f"{name}{{")}
    return {text[len(name) :].replace(f",host={HOST}", "").replace(f"host={HOST},", ""): v for text, v in found.items()}


async def test_requests_and_watches_are_counted_by_answer() -> None:
    metrics = Metrics()
    script: list[Any] = [Answer(), Answer(404), BROKEN, Answer(), BROKEN]
    inner = ScriptedTransport(script)
    transport = MeasuredTransport(inner, RequestMetrics(metrics, HOST))
    await transport.send(Request("GET", "/"))
    await transport.send(Request("GET", "/"))
    with pytest.raises(TransportError):
        await transport.send(Request("POST", "/"))
    async with transport.stream(Request("GET", "/")):
        pass
    with pytest.raises(TransportError):
        async with transport.stream(Request("GET", "/")):
            pass
    assert counted(metrics, "rest_client_requests_total") == {
        "{code=200,method=GET}": 2,
        "{code=404,method=GET}": 1,
        "{code=<error>,method=POST}": 1,
        "{code=<error>,method=GET}": 1,
    }
    await transport.close()
    assert inner.closed


@virtual_time
async def test_how_long_they_took_and_how_large_they_were() -> None:
    class Slow(ScriptedTransport):
        async def send(self, request: Request, *, timeout: float | None = None) -> Any:
            await asyncio.sleep(3)
            return await super().send(request, timeout=timeout)

    metrics = Metrics()
    transport = MeasuredTransport(Slow([Answer(body=b"x" * 5000), BROKEN]), RequestMetrics(metrics, HOST, clock=clock))
    await transport.send(Request("POST", "/", body=b"y" * 100))
    with pytest.raises(TransportError):
        await transport.send(Request("POST", "/", body=b"y" * 100))
    assert counted(metrics, "rest_client_request_duration_seconds_sum") == {"{verb=POST}": 6}
    assert counted(metrics, "rest_client_request_size_bytes_sum") == {"{verb=POST}": 200}
    assert counted(metrics, "rest_client_response_size_bytes_sum") == {"{verb=POST}": 5000}
    assert counted(metrics, "rest_client_response_size_bytes_bucket")["{le=16384.0,verb=POST}"] == 1
    assert counted(metrics, "rest_client_response_size_bytes_bucket")["{le=4096.0,verb=POST}"] == 0


@virtual_time
async def test_how_long_they_were_held_back() -> None:
    metrics = Metrics()
    measured = RequestMetrics(metrics, HOST, clock=clock)
    transport = LimitedTransport(ScriptedTransport([Answer()] * 3), qps=1, burst=1, metrics=measured, clock=clock)
    for _ in range(3):
        await transport.send(Request("GET", "/"))
    assert counted(metrics, "rest_client_rate_limiter_duration_seconds_count") == {"{verb=GET}": 3}
    assert counted(metrics, "rest_client_rate_limiter_duration_seconds_sum") == {"{verb=GET}": 2}


@virtual_time
async def test_how_often_they_were_sent_again() -> None:
    metrics = Metrics()
    script = [refused(429, "TooManyRequests"), refused(503, "ServiceUnavailable", retry_after="1"), Answer()]
    client = Client(ScriptedTransport(script), retry=Retry(told=RequestMetrics(metrics, HOST).retried))
    await client.get(PODS, "a", namespace="n")
    assert counted(metrics, "rest_client_request_retries_total") == {
        "{code=429,verb=GET}": 1,
        "{code=503,verb=GET}": 1,
    }


async def test_how_long_names_took_to_look_up() -> None:
    metrics = Metrics()
    async with serving(echo) as url:
        access = Access(url.replace("127.0.0.1", "localhost"))
        async with connected(access, resolve=RequestMetrics(metrics, HOST).resolve) as transport:
            await transport.send(Request("GET", "/"))
    assert counted(metrics, "rest_client_dns_resolution_duration_seconds_count") == {"{host=localhost}": 1}
