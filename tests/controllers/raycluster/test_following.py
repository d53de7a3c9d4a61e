"""Services follow the spec: what is changed in place, what waits, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.api.core import Service
from kuberay.api.meta import find_condition
from kuberay.build import names
from kuberay.build.labels import MADE_FROM
from kuberay.controllers.plan import Create, Patch
from kuberay.kube.resources import SERVICES
from tests.build.clusters import group, template
from tests.controllers.raycluster.situations import NOW, after, cluster, grown_up, plan, seen, stored

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.raycluster.observe import Seen

Json = dict[str, Any]
SERVING: Json = {"annotations": {"ray.io/enable-serve-service": "true"}}
PORTS: list[Json] = [{"name": "dashboard", "containerPort": 8266}]


def rc(*, metadata: Json | None = None, ports: list[Json] | None = None, **head: Any) -> RayCluster:
    spec = {"headServiceAnnotations": head.pop("annotations")} if "annotations" in head else {}
    labels = head.pop("template_labels", None)
    container: Json = {"ports": ports} if ports else {}
    given = template("ray-head", metadata={"labels": labels} if labels else None, **container)
    return cluster(head={"template": given, **head}, groups=[], metadata=metadata or {}, **spec)


def made(before: RayCluster) -> Seen:
    """A cluster that was brought up, with its Services as a server stores them."""
    empty = seen(before, head_service=None)
    first = plan(empty)
    children: dict[Any, Any] = {}
    for action in first.actions:
        if isinstance(action, Create) and action.resource == SERVICES:
            children[SERVICES, action.name] = stored(msgspec.json.decode(action.body, type=Service), NOW)
    up = grown_up(after(empty, first))
    head_service = children.pop((SERVICES, names.head_service(before)))
    return replace(up, head_service=head_service, children=children)


def now(situation: Seen, later: RayCluster) -> Seen:
    """The same with another spec."""
    status = situation.cluster.status
    return replace(situation, cluster=msgspec.structs.replace(later, status=status), drawn=None)


def patches(situation: Seen) -> dict[str, Json]:
    return {each.name: dict(each.patch) for each in plan(situation).actions if isinstance(each, Patch)}


def patched(situation: Seen, service: str = "rc-head-svc") -> Json:
    """What is changed in a Service, but for the note of what it was made from."""
    found = patches(situation)[service]
    annotations = {key: value for key, value in found["metadata"]["annotations"].items() if key != MADE_FROM}
    return {"annotations": annotations, "labels": found["metadata"]["labels"], "spec": found["spec"]}


def waiting(situation: Seen) -> str:
    status = after(situation, plan(situation)).cluster.status
    found = find_condition(status.conditions, "SpecChangesPending")
    return found.message if found is not None else ""


def carried_out(situation: Seen) -> Seen:
    """The situation when the head Service has been changed."""
    service = situation.head_service
    assert service is not None
    note = patches(situation)[service.name]["metadata"]["annotations"][MADE_FROM]
    metadata = msgspec.structs.replace(service.metadata, annotations={**service.metadata.annotations, MADE_FROM: note})
    return replace(situation, head_service=msgspec.structs.replace(service, metadata=metadata))


class TestInPlace:
    def test_a_spec_that_stands_changes_nothing(self) -> None:
        assert patches(now(made(rc()), rc())) == {}

    def test_annotations_come_change_and_go(self) -> None:
        situation = now(made(rc(annotations={"a": "1", "b": "1"})), rc(annotations={"b": "2", "c": "2"}))
        assert patched(situation) == {"annotations": {"a": None, "b": "2", "c": "2"}, "labels": {}, "spec": {}}
        assert waiting(situation) == ""

    def test_every_part_of_a_given_service_is_followed(self) -> None:
        before = {"metadata": {"labels": {"a": "1"}}, "spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}
        later = {
            "metadata": {"labels": {"b": "1"}, "annotations": {"c": "1"}},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        }
        assert patched(now(made(rc(headService=before)), rc(headService=later))) == {
            "annotations": {"c": "1"},
            "labels": {"a": None, "b": "1"},
            "spec": {"sessionAffinity": None, "externalTrafficPolicy": "Local"},
        }

    @pytest.mark.parametrize(("before", "later"), [("NodePort", "LoadBalancer"), ("LoadBalancer", "ClusterIP")])
    def test_the_type_of_one_with_an_address(self, before: str, later: str) -> None:
        found = patched(now(made(rc(serviceType=before)), rc(serviceType=later)))
        assert found["spec"] == {"type": later}

    def test_the_one_for_serve_too(self) -> None:
        situation = made(rc(metadata=SERVING, serviceType="NodePort"))
        situation = now(situation, rc(metadata=SERVING, serviceType="LoadBalancer"))
        assert patched(situation, "rc-serve-svc")["spec"] == {"type": "LoadBalancer"}

    def test_it_tells_which_fields(self) -> None:
        (change,) = plan(now(made(rc()), rc(annotations={"a": "1"}))).actions
        assert change.why == "changed in the spec: spec.headServiceAnnotations.a"

    def test_once_it_is_done_nothing_is_left_to_do(self) -> None:
        situation = carried_out(now(made(rc()), rc(annotations={"a": "1"})))
        assert patches(situation) == {}


class TestWhatGoesByTheHead:
    """A head that runs has the ports and labels of the spec that it was made from."""

    def test_ports_wait_for_a_new_head_which_is_told(self) -> None:
        situation = now(made(rc()), rc(ports=PORTS))
        assert patches(situation) == {}
        assert waiting(situation).startswith("spec.headGroupSpec.template.spec.containers[0].ports: running Pods")
        without = replace(situation, pods=(), counted=None)
        assert [port["port"] for port in patched(without)["spec"]["ports"]] == [8266, 8080]

    def test_so_do_ports_that_are_given_to_the_service_itself(self) -> None:
        given = {"spec": {"ports": [{"port": 1}]}}
        situation = now(made(rc()), rc(template_labels={"app.kubernetes.io/name": "mine"}, headService=given))
        assert waiting(situation).startswith(
            "spec.headGroupSpec.template.metadata.labels, spec.headGroupSpec.headService.spec.ports: running Pods"
        )

    def test_annotations_of_the_head_are_nothing_to_a_service(self) -> None:
        given = template("ray-head", metadata={"annotations": {"a": "b"}})
        later = rc(headService={"spec": {"ports": [{"port": 1}]}})
        later = cluster(head={"template": given, "headService": later.spec.head_group_spec.head_service}, groups=[])
        assert "ports" in patched(now(made(rc()), later))["spec"]

    def test_so_do_the_labels_that_find_it(self) -> None:
        situation = now(made(rc()), rc(template_labels={"app.kubernetes.io/name": "mine"}))
        assert patches(situation) == {}
        found = patched(replace(situation, pods=(), counted=None))
        assert found["spec"]["selector"]["app.kubernetes.io/name"] == "mine"
        assert found["labels"]["app.kubernetes.io/name"] == "mine"

    def test_a_selector_of_the_users_own_never_counts(self) -> None:
        given = {"spec": {"selector": {"app": "mine"}}}
        situation = now(made(rc()), rc(headService=given, template_labels={"app.kubernetes.io/name": "mine"}))
        assert patches(situation) == {}
        found = patched(replace(situation, pods=(), counted=None))
        assert "app" not in found["spec"]["selector"]

    def test_nothing_else_waits_for_it(self) -> None:
        situation = now(made(rc()), rc(ports=PORTS, annotations={"a": "1"}))
        assert patched(situation)["spec"] == {}
        assert patches(carried_out(situation)) == {}
        later = replace(carried_out(situation), pods=(), counted=None)
        assert list(patched(later)["spec"]) == ["ports"]

    def test_of_a_head_that_does_not_tell_it_is_not_known(self) -> None:
        situation = now(made(rc()), rc(ports=PORTS))
        (head,) = situation.pods
        silent = msgspec.structs.replace(head, metadata=msgspec.structs.replace(head.metadata, annotations={}))
        assert patches(replace(situation, pods=(silent,), counted=None)) == {}


class TestWhatCannotBeChanged:
    def test_a_service_without_an_address_cannot_get_one(self) -> None:
        situation = now(made(rc()), rc(serviceType="NodePort", annotations={"a": "1"}))
        assert patched(situation) == {"annotations": {"a": "1"}, "labels": {}, "spec": {}}
        assert waiting(situation) == (
            "spec.headGroupSpec.serviceType: Service rc-head-svc keeps the old value until it is deleted and made anew"
        )
        status = after(situation, plan(situation)).cluster.status
        found = find_condition(status.conditions, "SpecChangesPending")
        assert found is not None
        assert found.reason == "ServiceOfOlderSpec"

    def test_it_is_told_beside_what_pods_wait_for(self) -> None:
        later = cluster(head={"template": template("ray-head", image="new"), "serviceType": "NodePort"}, groups=[])
        found = waiting(now(made(rc()), later))
        assert "containers[0].image: running Pods" in found
        assert ". spec.headGroupSpec.serviceType: Service" in found

    def test_a_new_one_is_made_from_the_new_spec(self) -> None:
        situation = replace(now(made(rc()), rc(serviceType="NodePort")), head_service=None)
        (action,) = plan(situation).actions
        assert isinstance(action, Create)
        assert waiting(situation) == ""


@pytest.mark.parametrize(
    ("name", "fields"),
    [("rc-serve-svc", {"metadata": SERVING}), ("rc-headless", {"groups": [group(numOfHosts=2)]})],
)
def test_the_head_service_cannot_have_the_name_of_another(name: str, fields: Json) -> None:
    given: Json = {"template": template("ray-head"), "headService": {"metadata": {"name": name, "labels": {"a": "b"}}}}
    path = "spec.headGroupSpec.headService.metadata.name"
    (event,) = plan(seen(cluster(head=given, **fields), head_service=None)).events
    assert f"{path}: {name} is the name of another Service" in event.note
    assert not plan(seen(cluster(head=given), head_service=None)).events


class TestOneForServeThatNobodyAsksForAnyMore:
    def test_it_stays_as_it_is_which_is_told(self) -> None:
        ports = [{"name": "serve", "containerPort": 8000}]
        situation = now(made(rc(metadata=SERVING, ports=ports)), rc(ports=PORTS))
        without = replace(situation, pods=(), counted=None)
        assert list(patches(without)) == ["rc-head-svc"]
        assert waiting(without) == (
            "metadata.annotations[ray.io/enable-serve-service]: Service rc-serve-svc stays until it is deleted"
        )


class TestWhatIsLeftAlone:
    @staticmethod
    def without_a_note(situation: Seen, **metadata: Any) -> Seen:
        assert situation.head_service is not None
        changed = msgspec.structs.replace(situation.head_service.metadata, **metadata)
        return replace(situation, head_service=msgspec.structs.replace(situation.head_service, metadata=changed))

    @pytest.mark.parametrize("note", ["{", "v3:x=1"])
    def test_one_whose_note_cannot_be_read(self, note: str) -> None:
        situation = now(made(rc()), rc(annotations={"a": "1"}, serviceType="NodePort"))
        situation = self.without_a_note(situation, annotations={MADE_FROM: note})
        assert patches(situation) == {}
        assert waiting(situation) == ""

    def test_one_of_another_operator_but_what_it_lacks_is_told(self) -> None:
        later = rc(annotations={"a": "1", "b": "2"}, serviceType="NodePort")
        situation = self.without_a_note(now(made(rc()), later), annotations={"b": "2"})
        assert patches(situation) == {}
        assert waiting(situation).startswith(
            "spec.headGroupSpec.serviceType, spec.headServiceAnnotations.a: Service rc-head-svc keeps"
        )

    def test_one_of_another_operator_that_is_as_the_spec_says(self) -> None:
        situation = self.without_a_note(made(rc(headService={"spec": {"type": "NodePort"}})), annotations={})
        assert waiting(situation) == ""

    def test_one_of_somebody_else(self) -> None:
        situation = now(made(rc()), rc(annotations={"a": "1"}))
        situation = self.without_a_note(situation, annotations={}, owner_references=[])
        assert patches(situation) == {}
        assert waiting(situation) == ""


class TestAnotherName:
    def test_the_service_of_the_old_one_stays_for_the_pods_that_know_it_and_is_told(self) -> None:
        before = made(rc())
        former = before.head_service
        assert former is not None
        renamed = now(before, rc(headService={"metadata": {"name": "other"}}))
        renamed = replace(renamed, head_service=None, children={(SERVICES, former.name): former})
        (create,) = plan(renamed).actions
        assert (type(create), create.name) == (Create, "other")
        assert waiting(renamed) == (
            "spec.headGroupSpec.headService.metadata.name: running Pods know their head by Service rc-head-svc, "
            "which stays until it is deleted"
        )

    def test_the_one_that_is_wanted_is_no_old_one(self) -> None:
        situation = made(rc())
        assert situation.head_service is not None
        own = {(SERVICES, situation.head_service.name): situation.head_service}
        assert waiting(replace(situation, children=own)) == ""
