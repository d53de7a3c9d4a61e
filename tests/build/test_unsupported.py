"""Features that are refused by name rather than left out in silence."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build.unsupported import unsupported
from tests.build.clusters import cluster, group, template

ASKED: dict[str, dict[str, Any]] = {
    "spec.enableInTreeAutoscaling": {"enableInTreeAutoscaling": True},
    "spec.authOptions": {"authOptions": {"mode": "token"}},
    "spec.tlsOptions": {"tlsOptions": {"enabled": True}},
    "spec.networkPolicy": {"networkPolicy": {}},
    "spec.historyServerOptions": {"historyServerOptions": {}},
    "spec.headGroupSpec.enableIngress": {"head": {"enableIngress": True, "template": template("ray-head")}},
    "spec.upgradeStrategy.type": {"upgradeStrategy": {"type": "Recreate"}},
    "metadata.annotations[ray.io/enable-serve-service]": {
        "metadata": {"annotations": {"ray.io/enable-serve-service": "true"}}
    },
    "spec.workerGroupSpecs[1].numOfHosts": {"groups": [group(), group("b", numOfHosts=2)]},
}


@pytest.mark.parametrize("path", ASKED)
def test_the_problem_names_the_field(path: str) -> None:
    (problem,) = unsupported(cluster(**ASKED[path]))
    assert problem.path == path
    assert "not supported yet" in problem.message


def test_every_feature_is_named_at_once() -> None:
    rc = cluster(enableInTreeAutoscaling=True, authOptions={"mode": "token"})
    assert [problem.path for problem in unsupported(rc)] == ["spec.enableInTreeAutoscaling", "spec.authOptions"]


def test_a_plain_cluster_asks_for_nothing_special() -> None:
    rc = cluster(
        enableInTreeAutoscaling=False,
        suspend=True,
        autoscalerOptions={"idleTimeoutSeconds": 60},
        authOptions={"mode": "disabled"},
        tlsOptions={"enabled": False},
        upgradeStrategy={"type": "None"},
        groups=[group(numOfHosts=1)],
        metadata={"annotations": {"ray.io/ft-enabled": "false", "ray.io/enable-serve-service": "True"}},
    )
    assert unsupported(rc) == []
