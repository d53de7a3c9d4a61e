"""Features that are refused by name rather than left out in silence."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build.unsupported import unsupported
from tests.build.clusters import cluster, group

ASKED: dict[str, dict[str, Any]] = {
    "spec.tlsOptions": {"tlsOptions": {"enabled": True}},
    "spec.historyServerOptions": {"historyServerOptions": {}},
}


@pytest.mark.parametrize("path", ASKED)
def test_the_problem_names_the_field(path: str) -> None:
    (problem,) = unsupported(cluster(**ASKED[path]))
    assert problem.path == path
    assert "not supported yet" in problem.message


def test_every_feature_is_named_at_once() -> None:
    rc = cluster(tlsOptions={"enabled": True}, historyServerOptions={})
    assert [problem.path for problem in unsupported(rc)] == ["spec.tlsOptions", "spec.historyServerOptions"]


def test_a_plain_cluster_asks_for_nothing_special() -> None:
    rc = cluster(
        enableInTreeAutoscaling=True,
        suspend=True,
        autoscalerOptions={"idleTimeoutSeconds": 60},
        authOptions={"mode": "token"},
        tlsOptions={"enabled": False},
        upgradeStrategy={"type": "Recreate"},
        groups=[group(numOfHosts=2)],
        metadata={"annotations": {"ray.io/ft-enabled": "false", "ray.io/enable-serve-service": "True"}},
    )
    assert unsupported(rc) == []
