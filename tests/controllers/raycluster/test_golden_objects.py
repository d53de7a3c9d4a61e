"""Everything that KubeRay's operator makes of the same manifests, compared whole; and nothing beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.controllers.kinds import ROUTES
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create
from kuberay.controllers.raycluster.decide import decide
from kuberay.controllers.raycluster.observe import Seen
from kuberay.kube.resources import INGRESSES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from tests.build.golden import (
    UPSTREAM,
    Difference,
    differences,
    gates,
    is_accepted,
    is_server_default,
    options,
    records,
)
from tests.controllers.raycluster.situations import ENTROPY, NOW

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

Json = dict[str, Any]

RESOURCES = {each.kind: each for each in (INGRESSES, ROLE_BINDINGS, ROLES, ROUTES, SECRETS, SERVICE_ACCOUNTS, SERVICES)}

REFUSED_HERE = {
    "serve-service-without-port": "the user is told before anything is made, not after the head Service",
}


def made(cluster: RayCluster, record: Json) -> list[Json]:
    """What the first plan for a cluster makes, beside what its user made."""
    settings = record.get("settings") or {}
    how = ControllerOptions(
        build=options(record),
        gates=gates(record),
        is_openshift="openshift" in settings.get("cluster-crds", ()),
        ingress_on_openshift="USE_INGRESS_ON_OPENSHIFT" in record["env"],
    )
    others = frozenset(
        (RESOURCES[each["kind"]], each["metadata"]["name"]) for each in record["others"] if each["kind"] in RESOURCES
    )
    plan = decide(Seen(cluster=cluster, stand_ins=others), how, NOW, ENTROPY)
    return [orjson.loads(action.body) for action in plan.actions if isinstance(action, Create)]


def identity(obj: Json) -> tuple[str, ...]:
    """What an object of ours and one of a record have in common."""
    if obj["kind"] != "Pod":
        return (obj["kind"], obj["metadata"]["name"])
    own = obj["metadata"]["labels"]
    index, host = own.get("ray.io/worker-group-replica-index", ""), own.get("ray.io/replica-host-index", "")
    return ("Pod", own["ray.io/group"], index, host)


def normal(obj: Json) -> Json:
    """An object in the form of the records."""
    if obj["kind"] == "Service":
        obj["spec"].get("ports", []).sort(key=lambda port: port["name"])
    if obj["kind"] == "Secret":
        obj["data"] = dict.fromkeys(obj.pop("stringData", obj.get("data")), "<random>")
    if obj["kind"] == "Pod" and "ray.io/worker-group-replica-name" in obj["metadata"]["labels"]:
        obj["metadata"]["labels"]["ray.io/worker-group-replica-name"] = "<random>"
    return obj


def comparable() -> list[Any]:
    """Records of clusters that we would start, too."""
    return [each for each in records() if each.id not in REFUSED_HERE]


@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records (../shared/upstream) are not on this machine")
@pytest.mark.parametrize(("cluster", "record"), comparable())
def test_what_is_made_is_what_kuberay_makes(cluster: RayCluster, record: Json) -> None:
    ours = {identity(each): normal(each) for each in made(cluster, record)}
    # NetworkPolicies are made by a controller of their own.
    theirs = {identity(each): normal({**each}) for each in record["objects"] if each["kind"] != "NetworkPolicy"}
    was_refused = any(event["reason"].startswith("FailedToCreate") for event in record["events"])
    unexpected: list[Difference] = []
    for key in theirs.keys() & ours.keys():
        theirs[key].pop("x-count", None)
        found = differences(theirs[key], ours[key])
        unexpected += [each for each in found if not is_server_default(each) and not is_accepted(each)]
    assert unexpected == []
    assert theirs.keys() <= ours.keys()
    assert was_refused or ours.keys() <= theirs.keys()
