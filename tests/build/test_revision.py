"""What makes Pods outdated, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pytest

from kuberay.api.v1 import RayCluster
from kuberay.build import origin
from kuberay.build.labels import RECREATE_HASH
from kuberay.build.revision import revision
from tests.build.clusters import cluster, group, template
from tests.build.golden import UPSTREAM, records

if TYPE_CHECKING:
    from kuberay.api.v1 import RayClusterSpec

SAME: dict[str, dict[str, Any]] = {
    "replicas": {"groups": [group(replicas=5)]},
    "bounds": {"groups": [group(minReplicas=1, maxReplicas=99)]},
    "workers to delete": {"groups": [group(scaleStrategy={"workersToDelete": ["a"]})]},
    "tolerations of a worker": {"groups": [group(template=template("ray-worker", pod={"tolerations": [{}]}))]},
    "gates of the head": {"head": {"template": template("ray-head", pod={"schedulingGates": [{"name": "x"}]})}},
    "upgrade strategy": {"upgradeStrategy": {"type": "Recreate"}},
}
OTHER: dict[str, dict[str, Any]] = {
    "image": {"head": {"template": template("ray-head", image="rayproject/ray:3.0.0")}},
    "a group more": {"groups": [group(), group("b")]},
    "Ray version": {"rayVersion": "2.53.0"},
    "suspend": {"suspend": False},
    "hosts": {"groups": [group(numOfHosts=2)]},
    "priority": {"groups": [group(priority=1)]},
    "annotations of the head Service": {"headServiceAnnotations": {"a": "b"}},
    "a head Service, even if nothing is said of it": {"head": {"template": template("ray-head"), "headService": {}}},
}


@pytest.mark.parametrize("change", SAME)
def test_scaling_and_placing_leave_it_as_it_is(change: str) -> None:
    assert revision(cluster(**SAME[change]).spec) == revision(cluster().spec)


@pytest.mark.parametrize("change", OTHER)
def test_everything_else_changes_it(change: str) -> None:
    assert revision(cluster(**OTHER[change]).spec) != revision(cluster().spec)


def test_it_looks_as_clients_expect() -> None:
    text = revision(cluster().spec)
    assert len(text) == 32
    assert set(text) <= set("0123456789ABCDEFGHIJKLMNOPQRSTUV")


class TestHoweverItIsSpelled:
    """A manifest that says the same in other words restarts nothing."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                {"resources": {"limits": {"cpu": 1, "memory": "2Gi"}}},
                {"resources": {"limits": {"cpu": "1000m", "memory": "2048Mi"}}},
            ),
            ({}, {"resources": {}}),
            ({}, {"resources": {"limits": {}}}),
            ({}, {"env": [], "command": []}),
            ({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": ""}]}),
            ({}, {"metadata": {}}),
            ({}, {"metadata": {"labels": {}}}),
            ({}, {"pod": {"nodeSelector": {}, "volumes": [], "hostNetwork": False}}),
        ],
    )
    def test_a_template_is_the_same(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        for name in ("head", "groups"):
            before, after = (_with(name, template("ray", **fields)) for fields in (one, other))
            assert revision(before) == revision(after)
            assert origin.of_head(before) == origin.of_head(after)
            assert origin.of_workers(before) == origin.of_workers(after)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"rayVersion": None}, {"rayVersion": ""}),
            ({"head": {"template": template("h"), "serviceType": ""}}, {"head": {"template": template("h")}}),
            (
                {"autoscalerOptions": {"resources": {"limits": {"cpu": "1"}}}},
                {"autoscalerOptions": {"resources": {"limits": {"cpu": 1}}}},
            ),
        ],
    )
    def test_a_spec_is_the_same(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        before, after = (_cached(cluster(enableInTreeAutoscaling=True, **fields)) for fields in (one, other))
        assert revision(before) == revision(after)
        assert origin.of_head(before) == origin.of_head(after)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1001m"}}}),
            ({"pod": {"volumes": [{"name": "v"}]}}, {"pod": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            ({}, {"pod": {"enableServiceLinks": False}}),
            ({}, {"securityContext": {}}),
            ({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": "0"}]}),
        ],
    )
    def test_what_may_mean_something_else_is_another(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        before, after = (_with("head", template("ray", **fields)) for fields in (one, other))
        assert revision(before) != revision(after)


class TestWhicheverCrdsThereAre:
    """Full ones fill in defaults and leave out nulls; slim ones store what they are given."""

    GIVEN: ClassVar[dict[str, Any]] = {"ports": [{"containerPort": 8265}], "env": None}
    STORED: ClassVar[dict[str, Any]] = {"ports": [{"containerPort": 8265, "protocol": "TCP"}]}

    def test_it_is_the_same_for_a_template(self) -> None:
        for name in ("head", "groups"):
            slim, full = (_with(name, template("ray", **fields)) for fields in (self.GIVEN, self.STORED))
            assert revision(slim) == revision(full)

    def test_it_is_the_same_for_a_service(self) -> None:
        slim, full = (
            cluster(head={"headService": {"spec": {"ports": [port]}}}).spec
            for port in ({"port": 1}, {"port": 1, "protocol": "TCP"})
        )
        assert revision(slim) == revision(full)

    @pytest.mark.parametrize("filled_in", [{"numOfHosts": 1}, {"numOfHosts": 1, "priority": 0}])
    def test_it_is_the_same_for_a_group_whose_defaults_older_ones_do_not_know(self, filled_in: dict[str, Any]) -> None:
        """Priorities came with KubeRay 1.7: applying its CRDs, or ours, is no change of a spec."""
        assert revision(cluster(groups=[group(**filled_in)]).spec) == revision(cluster(groups=[group()]).spec)

    def test_it_is_the_same_for_options_whose_defaults_are_filled_in(self) -> None:
        without, filled_in = (cluster(networkPolicy=policy).spec for policy in ({}, {"mode": "DenyAll"}))
        assert revision(without) == revision(filled_in)

    def test_it_stays_what_heads_were_given_before_older_ones_were_thought_of(self) -> None:
        """An update of the operator restarts nothing: this is how the present CRDs store such a cluster."""
        stored = cluster(groups=[group(numOfHosts=1, priority=0)]).spec
        assert revision(stored) == "C1V27CIOG52JLPBU1VL38SBQ1B9IHVHO"

    def test_a_field_that_is_unknown_to_them_counts(self) -> None:
        """It may be that of a newer Kubernetes."""
        with_it = _with("head", template("ray-head", pod={"fromTheFuture": True}))
        assert revision(with_it) != revision(cluster().spec)


@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records (../shared/upstream) are not on this machine")
def test_specs_are_alike_where_kuberays_operator_finds_them_alike() -> None:
    found: set[tuple[str, str]] = set()
    for given, record in (each.values for each in records()):
        for obj in record["objects"]:
            hashed = obj["metadata"].get("annotations", {}).get(RECREATE_HASH)
            if hashed:
                found.add((hashed, revision(_cached(given))))
    theirs, ours = ({pair[side] for pair in found} for side in (0, 1))
    assert len(theirs) > 50
    assert len(theirs) == len(ours) == len(found)


def _cached(given: RayCluster) -> RayClusterSpec:
    return msgspec.json.decode(given.to_json(), type=RayCluster).spec


def _with(name: str, given: dict[str, Any]) -> RayClusterSpec:
    return (cluster(head={"template": given}) if name == "head" else cluster(groups=[group(template=given)])).spec
