"""Fixtures that start real parts, and a closing summary of the parts this machine lacks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.apiserver import ApiServer, InProcessTransport, MemoryStorage
from kuberay.engine.loops import GarbageCollector, Namespaces
from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from tests import control_plane
from tests.control_plane import ControlPlane, ProgramsMissing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real kube-apiserver with its controllers, one for the whole run: use a namespace of your own."""
    try:
        control_plane.programs()
    except ProgramsMissing as missing:
        pytest.skip(f"real kube-apiserver: {missing}")
    with control_plane.control_plane(tmp_path_factory.mktemp("kubernetes"), controllers=True) as plane:
        yield plane


@pytest.fixture(params=["embedded", pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of the embedded API server and of a real one, in turn: what holds must hold on both.

    The real one is shared by all tests: use a namespace of your own.
    """
    if request.param == "embedded":
        client = Client(InProcessTransport(ApiServer(MemoryStorage())))
        loops = [asyncio.create_task(loop.run()) for loop in (GarbageCollector(client), Namespaces(client))]
        yield client
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
    else:
        plane: ControlPlane = request.getfixturevalue("kubernetes")
        client = Client(HttpTransport(load(plane.kubeconfig)))
        yield client
        await client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test on both API servers waits for what others do: it is not one of the quick ones, on either of them."""
    for item in items:
        if "api" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, at the very end, which parts were not there and how many tests that cost."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    if reasons:
        terminalreporter.section("parts this machine lacks")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count:4} skipped: {reason}")
