from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberay.kube.limits import LimitedTransport, TokenBucket
from kuberay.kube.transport import Request
from tests.kube.scripted import Answer, ScriptedTransport
from tests.kube.virtual_time import clock, virtual_time


@given(
    rate=st.floats(0.5, 100),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
@settings(deadline=None)
def test_never_more_than_the_burst_and_the_rate_allow(rate: float, burst: int, gaps: list[float]) -> None:
    now = 0.0
    bucket = TokenBucket(rate, burst, clock=lambda: now)
    granted: list[float] = []
    for gap in gaps:
        now += gap
        granted.append(now + bucket.take())
    assert granted == sorted(granted)
    for first in range(len(granted)):
        for last in range(first, len(granted)):
            allowed = burst + rate * (granted[last] - granted[first])
            assert last - first + 1 <= allowed + 1 + 1e-6


class TestRequests:
    def limited(self, qps: float, burst: int) -> tuple[ScriptedTransport, LimitedTransport]:
        inner = ScriptedTransport(lambda _: Answer())
        return inner, LimitedTransport(inner, qps=qps, burst=burst, clock=clock)

    @virtual_time
    async def test_a_burst_goes_at_once_and_the_rest_at_the_rate(self) -> None:
        _, transport = self.limited(10, 5)
        times: list[float] = []

        async def send() -> None:
            await transport.send(Request("GET", "/"))
            times.append(round(clock(), 3))

        await asyncio.gather(*(send() for _ in range(8)))
        assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3]

    @virtual_time
    async def test_streams_count_as_well(self) -> None:
        _, transport = self.limited(1, 1)
        for _ in range(2):
            async with transport.stream(Request("GET", "/")) as stream:
                assert stream.status == 200
        assert clock() == pytest.approx(1)

    @virtual_time
    async def test_a_request_that_is_given_up_leaves_its_turn_to_the_next(self) -> None:
        inner, transport = self.limited(1, 1)
        await transport.send(Request("GET", "/1"))
        given_up = asyncio.create_task(transport.send(Request("GET", "/2")))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        await transport.send(Request("GET", "/3"))
        assert clock() == pytest.approx(1)
        assert [each.path for each in inner.requests] == ["/1", "/3"]
        await transport.close()
        assert inner.closed

    @pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
    def test_a_limit_that_lets_nothing_through_is_refused(self, rate: float, burst: int) -> None:
        with pytest.raises(ValueError, match="a limit needs"):
            TokenBucket(rate, burst)
