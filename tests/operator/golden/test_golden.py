"""From KubeRay's manifests our operator makes what KubeRay's own made: whole objects, events and status compared.

Played on the embedded API server and on a real one. What differs on purpose stands in `comparison.ACCEPTED`; what
cannot be played yet stands in `NOT_YET`, by name.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.operator.golden.comparison import ACCEPTED, Accepted, met, shown, unexpected
from tests.operator.golden.normal_form import expanded
from tests.operator.golden.records import UPSTREAM, Case, cases
from tests.operator.golden.stage import Stage
from tests.servers import BOTH, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records (../shared/upstream) are not on this machine"),
]

_BATCH_SCHEDULERS = "batch schedulers are not there yet"
_MTLS = "certificates for mutual TLS are not there yet"
_HISTORY = "the history server's collector is not there yet"

NOT_YET: dict[str, str] = {
    "history-collector-owner-labels": _HISTORY,
    "kai-without-queue": _BATCH_SCHEDULERS,
    "mtls-certificates-not-ready": _MTLS,
    "mtls-with-autoscaler": _MTLS,
    "ray-cluster.volcano-scheduler": _BATCH_SCHEDULERS,
    "ray-cluster.yunikorn-scheduler": _BATCH_SCHEDULERS,
    "scheduler-plugins-gang": _BATCH_SCHEDULERS,
    "volcano-autoscaler-counts-minimum": _BATCH_SCHEDULERS,
    "volcano-legacy-flag": _BATCH_SCHEDULERS,
    "volcano-network-topology": _BATCH_SCHEDULERS,
    "volcano-plain": _BATCH_SCHEDULERS,
    "workload-aware-autoscaler": _BATCH_SCHEDULERS,
    "workload-aware-gang": _BATCH_SCHEDULERS,
    "yunikorn-plain": _BATCH_SCHEDULERS,
}
"""Cases that ask for what is not built, each with what that is."""

COMPARED = [case for case in cases() if case.name not in NOT_YET]
SAMPLES = [case for case in cases() if case.is_sample]
DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"


@pytest.fixture(scope="session", params=BOTH)
def played(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Our records of all cases, by name."""

    async def play() -> dict[str, Any]:
        async with serving(request.param, request) as server:
            others = [case.by_default() for case in SAMPLES if case.name in NOT_YET]
            return await Stage(server.client).play(COMPARED + others)

    return asyncio.run(play())


@pytest.fixture(scope="session")
def needed(played: dict[str, Any]) -> set[Accepted]:
    """The entries of the table that some case needs."""
    found = [case for case in COMPARED if "trouble" not in played[case.name]]
    return {entry for case in found for entry in met(case.name, expanded(case.record), played[case.name])}


@pytest.mark.parametrize("case", COMPARED, ids=lambda case: case.name)
def test_is_as_kuberay_made_it(played: dict[str, Any], case: Case) -> None:
    ours = played[case.name]
    assert "trouble" not in ours, ours["trouble"]
    found = unexpected(case.name, expanded(case.record), ours)
    assert not found, f"{len(found)} differences\n{shown(found)}"


@pytest.mark.parametrize("case", SAMPLES, ids=lambda case: case.name)
def test_every_sample_becomes_ready(played: dict[str, Any], case: Case) -> None:
    """Those that ask for what is not built have what they get from an operator without it."""
    ours = played[case.name]
    assert "trouble" not in ours, ours["trouble"]
    assert [each["status"].get("state") for each in ours["ray"].values()] == ["ready"]


@pytest.mark.parametrize("entry", ACCEPTED, ids=lambda entry: entry.reason.replace(" ", "-"))
class TestADifference:
    def test_is_still_there(self, needed: set[Accepted], entry: Accepted) -> None:
        assert entry in needed

    def test_is_told_to_users(self, entry: Accepted) -> None:
        assert entry.told in DIFFERENCES.read_text()


def test_every_case_that_is_left_out_is_there() -> None:
    assert NOT_YET.keys() <= {case.name for case in cases()}
