"""Fixtures that start real parts, and a closing summary of the parts this machine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import control_plane
from tests.control_plane import ControlPlane, ProgramsMissing
from tests.servers import BOTH, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kuberay.kube.client import Client


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real kube-apiserver with its controllers, one for the whole run: use a namespace of your own."""
    try:
        control_plane.programs()
    except ProgramsMissing as missing:
        pytest.skip(f"real kube-apiserver: {missing}")
    with control_plane.control_plane(tmp_path_factory.mktemp("kubernetes"), controllers=True) as plane:
        yield plane


@pytest.fixture(params=BOTH)
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of the embedded API server and of a real one, in turn: what holds must hold on both.

    The real one is shared by all tests: use a namespace of your own.
    """
    async with serving(request.param, request) as server:
        yield server.client


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
