from __future__ import annotations

import asyncio
import gc
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kuberay.operator.memory import keep_small, spare_the_collector
from tests.kube.virtual_time import clock, virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class TestGivingBack:
    @virtual_time
    async def test_happens_after_work_and_not_at_rest(self) -> None:
        used = [0.0]
        given: list[float] = []
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(keep_small(lambda: given.append(clock()), worked=lambda: used[0]))
            for used[0] in (0.1, 5.0, 5.1, 5.15, 9.0):
                await asyncio.sleep(20)
            keeping.cancel()
        assert len(given) == 2
        assert 20 <= given[0] < 40
        assert 80 <= given[1] < 100

    async def test_works_with_the_library_of_this_machine(self) -> None:
        keeping = asyncio.create_task(keep_small(worked=lambda: 1.0))
        await asyncio.wait((keeping,), timeout=0.1)
        # With glibc it goes on for ever; with another library there is nothing to do.
        assert keeping.done() is (platform.libc_ver()[0] != "glibc")
        keeping.cancel()


def test_what_is_there_from_the_start_is_hidden_from_the_collector(collector: None) -> None:
    spare_the_collector()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold()[0] > 700


def test_an_operator_carries_only_what_it_needs() -> None:
    """Ray, a web framework and what reads certificates are large, and of no use to it at rest."""
    loaded = "import sys, kuberay.operator.process, kuberay.cli.operator; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True).stdout.split()
    assert not {"aiohttp", "ray", "cryptography", "jsonschema_rs"} & set(found)
