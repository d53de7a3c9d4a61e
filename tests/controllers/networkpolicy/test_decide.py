"""Which NetworkPolicies a cluster gets, keeps and loses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from kuberay.api.core import Metadata, Owner
from kuberay.api.partial import NetworkPolicy
from kuberay.build.network_policy import policies
from kuberay.controllers.failures import Failure
from kuberay.controllers.networkpolicy.decide import decide
from kuberay.controllers.plan import Create, Delete, Patch
from kuberay.controllers.raycluster.status import timestamp
from tests.build.clusters import group
from tests.controllers.raycluster.situations import NOW, OWNER, cluster

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.plan import Plan

Json = dict[str, Any]


def closed(*, metadata: Json | None = None, groups: list[Json] | None = None, **options: Any) -> RayCluster:
    return cluster(networkPolicy=options, metadata=metadata or {}, groups=groups or [group("a")])


def of_job(mode: str) -> RayCluster:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": "u-j", "controller": True}
    return closed(metadata={"labels": {"ray.io/job-submission-mode": mode}, "ownerReferences": [owner]})


def made(rc: RayCluster) -> dict[str, Json]:
    return {each["metadata"]["name"]: each["spec"] for each in policies(rc)}


def stored(rc: RayCluster, *, owner: Owner | None = OWNER) -> list[NetworkPolicy]:
    """The policies of a cluster as a server has them."""
    found = []
    for each in policies(rc):
        spec = orjson.loads(orjson.dumps(each["spec"]))
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")
        meta = Metadata(
            name=each["metadata"]["name"],
            namespace="default",
            uid=f"uid-{each['metadata']['name']}",
            labels=each["metadata"]["labels"],
            owner_references=[owner] if owner else [],
        )
        found.append(NetworkPolicy(metadata=meta, spec=spec))
    return found


def plan(rc: RayCluster, found: list[NetworkPolicy] | None = None, *failures: Failure) -> Plan:
    return decide(rc, found or [], {each.scope: each for each in failures}, NOW)


class TestWhatIsAllowed:
    def test_a_closed_cluster_talks_to_itself(self) -> None:
        """raycluster EX-91."""
        each_other = [{"podSelector": {"matchLabels": {"ray.io/cluster": "rc"}}}]
        assert made(closed())["rc-head"] == {
            "podSelector": {"matchLabels": {"ray.io/cluster": "rc", "ray.io/node-type": "head"}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": each_other}],
            "egress": [{"to": each_other}],
        }

    def test_of_workers_each_group_has_its_own(self) -> None:
        both = closed(groups=[group("a"), group("b")])
        assert [each["metadata"]["labels"]["ray.io/group"] for each in policies(both)] == ["headgroup", "a", "b"]
        assert {each["kind"] for each in policies(both)} == {"NetworkPolicy"}
        chosen = {"ray.io/cluster": "rc", "ray.io/node-type": "worker", "ray.io/group": "b"}
        assert made(both)["rc-workers-b"]["podSelector"] == {"matchLabels": chosen}

    def test_a_submitter_reaches_the_dashboard(self) -> None:
        """raycluster EX-91."""
        head = made(of_job("K8sJobMode"))["rc-head"]
        submitter = {"ray.io/originated-from-cr-name": "j", "ray.io/originated-from-crd": "RayJob"}
        assert head["ingress"][1:] == [
            {
                "from": [{"podSelector": {"matchLabels": submitter}}],
                "ports": [{"protocol": "TCP", "port": 8265}],
            }
        ]
        assert len(made(of_job("SidecarMode"))["rc-head"]["ingress"]) == 1

    def test_rules_of_a_group_replace_those_of_all_workers(self) -> None:
        """raycluster EX-92."""
        rc = closed(
            groups=[group("gpu"), group("cpu")],
            worker={"egressRules": [{}]},
            workerGroups=[{"groupName": "gpu", "ingressRules": [{}]}],
        )
        gpu, cpu = made(rc)["rc-workers-gpu"], made(rc)["rc-workers-cpu"]
        assert (len(gpu["ingress"]), len(gpu["egress"])) == (2, 1)
        assert (len(cpu["ingress"]), len(cpu["egress"])) == (1, 2)

    def test_a_direction_that_is_open_has_no_rules(self) -> None:
        head = made(closed(mode="DenyAllIngress"))["rc-head"]
        assert head["policyTypes"] == ["Ingress"]
        assert "egress" not in head


class TestDecisions:
    def test_what_is_missing_is_made(self) -> None:
        names = [each.name for each in plan(closed()).actions if isinstance(each, Create)]
        assert names == ["rc-head", "rc-workers-a"]

    def test_what_is_there_is_left(self) -> None:
        """raycluster EX-94: a port without a protocol is a TCP port."""
        rc = closed(head={"ingressRules": [{"ports": [{"port": 80}]}]})
        assert plan(rc, stored(rc)).is_empty

    def test_what_differs_is_mended(self) -> None:
        rc = closed()
        head, workers = stored(rc)
        opened = msgspec.structs.replace(head, spec={**head.spec, "ingress": [{}]})
        (patch,) = plan(rc, [opened, workers]).actions
        assert isinstance(patch, Patch)
        assert (patch.uid, patch.is_update) == ("uid-rc-head", True)
        assert list(patch.patch["spec"]) == ["ingress"]

    def test_labels_that_are_lost_come_back_and_those_of_others_stay(self) -> None:
        rc = closed()
        head, workers = stored(rc)
        bare = msgspec.structs.replace(head, metadata=msgspec.structs.replace(head.metadata, labels={"x": "y"}))
        (patch,) = plan(rc, [bare, workers]).actions
        assert isinstance(patch, Patch)
        assert patch.patch == {"metadata": {"labels": head.metadata.labels}}
        more = msgspec.structs.replace(
            head, metadata=msgspec.structs.replace(head.metadata, labels={**head.metadata.labels, "x": "y"})
        )
        assert plan(rc, [more, workers]).is_empty

    def test_the_policy_of_a_group_that_is_gone_goes(self) -> None:
        """raycluster EX-93."""
        found = plan(closed(), stored(closed(groups=[group("a"), group("b")])))
        assert [(type(each), each.name) for each in found.actions] == [(Delete, "rc-workers-b")]

    def test_all_go_when_none_is_wanted(self) -> None:
        found = plan(cluster(), stored(closed()))
        assert [each.name for each in found.actions if isinstance(each, Delete)] == ["rc-head", "rc-workers-a"]

    def test_a_policy_of_somebody_else_is_left_and_told_of(self) -> None:
        """raycluster EX-94."""
        found = plan(closed(), stored(closed(), owner=None)[:1])
        assert [each.name for each in found.actions] == ["rc-workers-a"]
        (event,) = found.events
        assert event.reason == "NetworkPolicyNameCollision"
        assert plan(cluster(), stored(closed(), owner=None)).is_empty

    def test_a_cluster_that_is_leaving_or_somebody_elses_is_left(self) -> None:
        leaving = closed(metadata={"deletionTimestamp": timestamp(NOW)})
        assert plan(leaving).is_empty
        assert plan(cluster(networkPolicy={}, managedBy="kueue.x-k8s.io/multikueue")).is_empty

    def test_what_was_refused_waits(self) -> None:
        failure = Failure(scope="rc-head", reason="", message="", generation=1, attempts=1, retry_at=NOW + 3)
        found = plan(closed(), [], failure)
        assert [each.name for each in found.actions] == ["rc-workers-a"]
        assert found.look_again == 3
