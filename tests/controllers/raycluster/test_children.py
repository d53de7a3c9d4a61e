"""What a cluster needs beside its Pods: made when missing, taken when there, brought back when it drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest

from kuberay.api.core import Metadata, Owner
from kuberay.api.partial import Ingress, PartialObject
from kuberay.build import ingress
from kuberay.controllers.failures import Failure
from kuberay.controllers.kinds import ROUTES
from kuberay.controllers.options import ControllerOptions
from kuberay.controllers.plan import Create, Patch, Require
from kuberay.kube.resources import INGRESSES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from tests.build.clusters import group, template
from tests.controllers.raycluster.situations import (
    NOW,
    OPTIONS,
    OWNER,
    after,
    cluster,
    creates,
    grown_up,
    head,
    holding,
    plan,
    pod,
    seen,
    service,
)

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.plan import Plan
    from kuberay.kube.resources import Resource

Json = dict[str, Any]
OPENSHIFT = ControllerOptions(resync=None, is_openshift=True)
PREDECESSOR = Owner(api_version="ray.io/v1", kind="RayCluster", name="rc", uid="u-0", controller=True)
RIGHTS = ((SERVICE_ACCOUNTS, "rc"), (ROLES, "rc"), (ROLE_BINDINGS, "rc"))


def scaling(**fields: Any) -> RayCluster:
    return cluster(enableInTreeAutoscaling=True, **fields)


def authenticated(**options: Any) -> RayCluster:
    return cluster(authOptions={"mode": "token", **options})


def with_ingress(annotations: Json | None = None, **options: Any) -> RayCluster:
    given = {"template": template("ray-head"), "enableIngress": True, "ingressOptions": options}
    return cluster(head=given, metadata={"annotations": annotations or {}})


def there(*keys: tuple[Resource, str], owner: Owner | None = OWNER) -> dict[tuple[Resource, str], PartialObject]:
    """Objects that the caches know."""
    owners = [owner] if owner else []
    return {
        (resource, name): PartialObject(metadata=Metadata(name=name, namespace="default", owner_references=owners))
        for resource, name in keys
    }


def stored_ingress(rc: RayCluster, *, owner: Owner | None = OWNER, **changes: Any) -> dict[Any, Ingress]:
    """The Ingress of a cluster as it is on the server, with these changes of its spec."""
    made = msgspec.json.decode(orjson.dumps(ingress.ingress(rc)), type=Ingress)
    metadata = msgspec.structs.replace(made.metadata, uid="uid-i", owner_references=[owner] if owner else [])
    found = msgspec.structs.replace(made, metadata=metadata, spec={**made.spec, **changes})
    return {(INGRESSES, "rc-head-ingress"): found}


def patches(found: Plan) -> list[Patch]:
    return [each for each in found.actions if isinstance(each, Patch)]


class TestRightsOfTheAutoscaler:
    def test_they_are_made_before_the_head(self) -> None:
        found = plan(seen(scaling(), head_service=None))
        assert [[each.subject.noun for each in stage] for stage in found.stages] == [
            ["service", "service account", "role"],
            ["role binding"],
            ["head Pod"],
            ["worker Pod"],
        ]

    def test_what_is_there_is_left_alone_whoever_made_it(self) -> None:
        children = there(*RIGHTS, owner=None)
        assert creates(plan(seen(scaling(), head(), pod("w"), children=children))) == []

    def test_what_was_found_under_the_name_once_is_not_asked_for_again(self) -> None:
        found = plan(seen(scaling(), head(), pod("w"), stand_ins=frozenset(RIGHTS)))
        assert not found.actions

    def test_what_an_earlier_cluster_left_behind_is_waited_for(self) -> None:
        children = there(*RIGHTS, owner=PREDECESSOR)
        assert not plan(seen(scaling(), children=children)).actions

    def test_an_account_that_the_user_names_has_to_be_there(self) -> None:
        """raycluster EX-33."""
        rc = scaling(head={"template": template("ray-head", pod={"serviceAccountName": "my-sa"})})
        (first, *_) = plan(seen(rc)).stages
        assert [(type(each), each.name) for each in first] == [(Require, "my-sa"), (Create, "rc")]
        assert first[0].subject.topic == "AutoscalerServiceAccount"

    def test_as_long_as_it_is_not_there_is_no_head(self) -> None:
        """raycluster EX-33."""
        rc = scaling(head={"template": template("ray-head", pod={"serviceAccountName": "my-sa"})})
        assert not [
            each for each in plan(seen(rc, failures=refused("service account"))).actions if each.scope == "head"
        ]

    @pytest.mark.parametrize("missing", [0, 1, 2])
    def test_a_refusal_of_one_of_them_keeps_pods_from_being_made(self, missing: int) -> None:
        scope = ("service account", "role", "role binding")[missing]
        others = [key for index, key in enumerate(RIGHTS) if index != missing]
        found = plan(seen(scaling(), failures=refused(scope), children=there(*others)))
        assert not found.actions
        assert found.held == {scope}

    def test_nothing_is_taken_away_when_autoscaling_is_switched_off(self) -> None:
        assert not plan(seen(cluster(), head(), pod("w"), children=there(*RIGHTS))).actions

    def test_a_suspended_cluster_has_them_too(self) -> None:
        """What comes before Pods is done whether there are to be Pods or not."""
        rc = scaling(suspend=True, status=holding("RayClusterSuspended"))
        found = plan(seen(rc))
        assert creates(found) == ["service account rc", "role rc", "role binding rc"]
        assert not plan(seen(rc, children=there(*RIGHTS))).actions


class TestTheFirstAutoscaler:
    RC = scaling(
        autoscalerOptions={"version": "v1"},
        groups=[group(template=template("ray-worker", pod={"restartPolicy": "Always"}))],
    )

    def test_a_restart_policy_that_does_not_suit_it_is_told(self) -> None:
        """raycluster EX-11."""
        (event,) = plan(seen(self.RC)).events
        assert (event.type, event.reason) == ("Warning", "InvalidRayClusterSpec")
        assert "spec.workerGroupSpecs[0].template.spec.restartPolicy" in event.note
        assert creates(plan(seen(self.RC)))

    def test_it_is_told_once(self) -> None:
        known = cluster(
            enableInTreeAutoscaling=True,
            autoscalerOptions={"version": "v1"},
            groups=[group(template=template("ray-worker", pod={"restartPolicy": "Always"}))],
            status={"observedGeneration": 1},
        )
        assert plan(seen(known)).events == ()


class TestTheToken:
    def test_its_secret_is_made_before_pods(self) -> None:
        found = plan(seen(authenticated()))
        assert [each.subject.noun for each in found.stages[0]] == ["secret"]
        assert isinstance(found.stages[0][0], Create)
        assert not found.stages[0][0].subject.is_announced

    def test_without_it_no_pod_is_made(self) -> None:
        assert not plan(seen(authenticated(), failures=refused("secret"))).actions

    def test_it_is_not_shown_when_a_plan_is_printed(self) -> None:
        (secret, *_) = plan(seen(authenticated())).actions
        assert isinstance(secret, Create)
        token = orjson.loads(secret.body)["stringData"]["auth_token"]
        assert token not in repr(secret)

    def test_it_is_never_made_anew(self) -> None:
        found = plan(seen(authenticated(), head(), pod("w"), children=there((SECRETS, "rc"))))
        assert not found.actions

    @pytest.mark.parametrize("options", [{"secretName": "s"}, {"mode": "disabled"}])
    def test_no_secret_is_made_where_none_is_needed(self, options: Json) -> None:
        """raycluster EX-37."""
        assert creates(plan(seen(authenticated(**options), head(), pod("w")))) == []


class TestAnIngress:
    def test_one_that_is_missing_is_made(self) -> None:
        assert creates(plan(seen(with_ingress(), head(), pod("w")))) == ["ingress rc-head-ingress"]

    def test_one_that_is_as_it_shall_be_is_left_alone(self) -> None:
        rc = with_ingress({"x": "y"}, host="a.example")
        assert not plan(seen(rc, head(), pod("w"), children=stored_ingress(rc))).actions

    def test_a_class_that_the_server_filled_in_is_kept(self) -> None:
        """raycluster EX-35."""
        rc = with_ingress()
        children = stored_ingress(rc, ingressClassName="nginx")
        assert not plan(seen(rc, head(), pod("w"), children=children)).actions

    def test_a_class_that_is_asked_for_replaces_another(self) -> None:
        """raycluster EX-35."""
        rc = with_ingress({"kubernetes.io/ingress.class": "traefik"})
        (patch,) = patches(plan(seen(rc, head(), pod("w"), children=stored_ingress(rc, ingressClassName="nginx"))))
        assert patch.patch == {"spec": {"ingressClassName": "traefik"}}
        assert patch.uid == "uid-i"

    def test_a_label_that_is_lost_comes_back(self) -> None:
        """raycluster EX-36."""
        rc = with_ingress()
        (key, found) = stored_ingress(rc).popitem()
        bare = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels={}))
        (patch,) = patches(plan(seen(rc, head(), pod("w"), children={key: bare})))
        assert patch.patch["metadata"]["labels"]["ray.io/cluster"] == "rc"

    def test_an_annotation_of_the_cluster_comes_back_and_those_of_others_stay(self) -> None:
        """A controller of Ingresses that keeps notes in them would write them again at once, and so on without end."""
        children = stored_ingress(with_ingress({"theirs": "note", "ours": "changed"}))
        assert not plan(seen(with_ingress(), head(), pod("w"), children=children)).actions
        (patch,) = patches(plan(seen(with_ingress({"ours": "x"}), head(), pod("w"), children=children)))
        assert patch.patch == {"metadata": {"annotations": {"ours": "x"}}}

    def test_a_list_that_no_server_stores_is_not_missed(self) -> None:
        rc = with_ingress(tls=[{"hosts": [], "secretName": "s"}])
        children = stored_ingress(rc, tls=[{"secretName": "s"}])
        assert not plan(seen(rc, head(), pod("w"), children=children)).actions

    def test_somebody_elses_is_left_alone_and_told_of(self) -> None:
        rc = with_ingress()
        (create,) = plan(seen(rc, head(), pod("w"), children=stored_ingress(rc, owner=None))).actions
        assert isinstance(create, Create)
        assert create.takes_any
        assert create.tells_of_others

    def test_it_stays_when_it_is_no_longer_asked_for(self) -> None:
        children = stored_ingress(with_ingress())
        assert not plan(seen(cluster(), head(), pod("w"), children=children)).actions

    def test_its_refusal_does_not_keep_pods_from_being_made(self) -> None:
        found = plan(seen(with_ingress(), failures=refused("ingress")))
        assert [each.scope for each in found.actions] == ["head", "group wg"]

    def test_on_openshift_it_is_a_route(self) -> None:
        """raycluster EX-36a."""
        found = plan(seen(with_ingress(), head(), pod("w")), OPENSHIFT)
        assert creates(found) == ["route rc-head-route"]
        assert not plan(
            seen(with_ingress(), head(), pod("w"), children=there((ROUTES, "rc-head-route"))), OPENSHIFT
        ).actions

    @pytest.mark.parametrize(("kind", "options"), [(INGRESSES, OPTIONS), (ROUTES, OPENSHIFT)])
    def test_it_is_not_made_before_one_knows_whether_it_is_there(
        self, kind: Resource, options: ControllerOptions
    ) -> None:
        found = plan(seen(with_ingress(), unknown=frozenset({kind})), options)
        assert [each.scope for each in found.actions] == ["head", "group wg"]
        [event] = found.events
        assert (event.type, event.reason) == ("Warning", f"FailedToCreate{kind.kind}")
        assert f"the operator cannot list {kind.plural} at the moment" in event.note

    def test_a_kind_that_nobody_asks_for_may_stay_unknown(self) -> None:
        unknown = frozenset({INGRESSES, ROUTES})
        assert not plan(seen(cluster(), unknown=unknown)).events
        found = plan(seen(with_ingress(), head(), pod("w"), unknown=frozenset({ROUTES})))
        assert creates(found) == ["ingress rc-head-ingress"]
        assert not found.events

    def test_unless_told_otherwise(self) -> None:
        """raycluster EX-36a."""
        options = ControllerOptions(resync=None, is_openshift=True, ingress_on_openshift=True)
        assert creates(plan(seen(with_ingress(), head(), pod("w")), options)) == ["ingress rc-head-ingress"]
        assert creates(plan(seen(cluster(), head(), pod("w")), OPENSHIFT)) == []


class TestServices:
    SERVE = cluster(metadata={"annotations": {"ray.io/enable-serve-service": "true"}})

    def test_one_for_serve_is_made_where_it_is_asked_for(self) -> None:
        assert creates(plan(seen(self.SERVE, head(), pod("w")))) == ["service rc-serve-svc"]

    def test_one_that_is_there_is_enough(self) -> None:
        children: dict[Any, Any] = {(SERVICES, "rc-serve-svc"): service()}
        assert not plan(seen(self.SERVE, head(), pod("w"), children=children)).actions

    def test_without_a_port_for_it_nothing_is_started(self) -> None:
        """raycluster EX-42."""
        declared = [{"name": "dashboard", "containerPort": 8265}]
        rc = cluster(
            head={"template": template("ray-head", ports=declared)},
            metadata={"annotations": {"ray.io/enable-serve-service": "true"}},
        )
        found = plan(seen(rc, head_service=None))
        assert not found.actions
        assert "ray.io/enable-serve-service" in found.events[0].note


class TestAServiceForHosts:
    RC = cluster(groups=[group(replicas=1, numOfHosts=2)])

    def test_is_to_be_the_clusters_own(self) -> None:
        """A name that is taken is an error, as it is for the head Service."""
        (made,) = [each for each in plan(seen(self.RC)).actions if each.name == "rc-headless"]
        assert isinstance(made, Create)
        assert not made.takes_any

    def test_is_not_waited_for_by_pods(self) -> None:
        found = plan(seen(self.RC, failures=refused("headless service")))
        assert [each.split(" rc")[0] for each in creates(found)] == ["head Pod", "worker Pod", "worker Pod"]


def refused(scope: str) -> dict[str, Failure]:
    """A refusal of a moment ago."""
    failure = Failure(scope=scope, reason="FailedCreate", message="no", generation=1, attempts=1, retry_at=NOW + 1)
    return {scope: failure}


def test_a_settled_cluster_with_everything_needs_nothing() -> None:
    rc = cluster(
        enableInTreeAutoscaling=True,
        authOptions={"mode": "token"},
        metadata={"annotations": {"ray.io/enable-serve-service": "true"}},
    )
    children: dict[Any, Any] = {**there(*RIGHTS, (SECRETS, "rc")), (SERVICES, "rc-serve-svc"): service()}
    assert not plan(seen(rc, head(), pod("w"), children=children), OPTIONS).actions


def test_acting_on_a_plan_leaves_nothing_to_decide() -> None:
    rc = cluster(
        enableInTreeAutoscaling=True,
        authOptions={"mode": "token"},
        head={"template": template("ray-head"), "enableIngress": True},
        groups=[group(replicas=2, numOfHosts=2)],
        metadata={"annotations": {"ray.io/enable-serve-service": "true"}},
    )
    situation = seen(rc, head_service=None)
    for _ in range(4):
        situation = grown_up(after(situation, plan(situation)))
    assert plan(situation).is_empty
