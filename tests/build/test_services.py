"""The head Service, generated and completed."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build import services
from kuberay.build.options import BuildOptions
from tests.build.clusters import cluster, template

Json = dict[str, Any]
LABELS = {
    "ray.io/cluster": "rc",
    "ray.io/node-type": "head",
    "ray.io/identifier": "rc-head",
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}


def built(*, ports: list[Json] | None = None, options: BuildOptions | None = None, **head: Any) -> Json:
    container: Json = {"ports": ports} if ports else {}
    rc = cluster(head={"template": template("ray-head", **container), **head})
    return services.head(rc, options or BuildOptions())


def ports(service: Json) -> list[tuple[str, int]]:
    return [(each["name"], each["port"]) for each in service["spec"]["ports"]]


class TestGenerated:
    def test_it_is_headless_with_rays_usual_ports(self) -> None:
        """raycluster EX-39."""
        service = built()
        assert service["metadata"]["name"] == "rc-head-svc"
        assert service["metadata"]["labels"] == LABELS
        assert service["spec"]["selector"] == LABELS
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert ports(service) == [
            ("client", 10001),
            ("dashboard", 8265),
            ("gcs-server", 6379),
            ("metrics", 8080),
            ("serve", 8000),
        ]
        assert {each["appProtocol"] for each in service["spec"]["ports"]} == {"tcp"}

    def test_it_belongs_to_the_cluster_as_the_others_do(self) -> None:
        for service in (built(), services.headless(cluster()), services.serve(cluster())):
            (owner,) = service["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
                "RayCluster",
                "rc",
                "u-1",
                True,
            )
            assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
            assert service["metadata"]["namespace"] == "default"

    def test_declared_ports_replace_the_usual_ones_but_metrics_stays(self) -> None:
        """raycluster EX-38."""
        assert ports(built(ports=[{"name": "random", "containerPort": 1234}])) == [("metrics", 8080), ("random", 1234)]

    def test_a_port_without_a_name_gets_one(self) -> None:
        assert ports(built(ports=[{"containerPort": 1234}])) == [("1234-port", 1234), ("metrics", 8080)]

    def test_annotations_come_from_the_spec(self) -> None:
        rc = cluster(headServiceAnnotations={"a": "b"})
        assert services.head(rc, BuildOptions())["metadata"]["annotations"].items() >= {"a": "b"}.items()

    @pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
    def test_another_type_is_not_headless(self, kind: str) -> None:
        spec = built(serviceType=kind)["spec"]
        assert spec["type"] == kind
        assert "clusterIP" not in spec

    def test_an_explicit_cluster_ip_type_is_headless_too(self) -> None:
        assert built(serviceType="ClusterIP")["spec"]["clusterIP"] == "None"

    def test_it_gets_an_address_of_its_own_when_told_so(self) -> None:
        spec = built(options=BuildOptions(head_cluster_ip_service=True))["spec"]
        assert "clusterIP" not in spec
        assert "publishNotReadyAddresses" not in spec


class TestSelector:
    def test_it_finds_a_head_whose_template_renames_the_application(self) -> None:
        """raycluster EX-74."""
        metadata = {"labels": {"app.kubernetes.io/name": "myapp"}}
        service = built(template=template("ray-head", metadata=metadata))
        assert service["spec"]["selector"] == LABELS | {"app.kubernetes.io/name": "myapp"}
        assert service["metadata"]["labels"] == LABELS | {"app.kubernetes.io/name": "myapp"}

    def test_it_finds_a_head_whose_template_changes_another_of_its_labels(self) -> None:
        metadata = {"labels": {"ray.io/identifier": "mine", "app.kubernetes.io/created-by": "me"}}
        service = built(template=template("ray-head", metadata=metadata))
        assert service["spec"]["selector"]["ray.io/identifier"] == "mine"
        assert service["spec"]["selector"]["app.kubernetes.io/created-by"] == "me"
        assert service["metadata"]["labels"] == LABELS

    def test_it_finds_a_head_whose_template_says_nothing_about_a_label(self) -> None:
        """Slim CRDs keep nulls, and Pods are made without them."""
        unsaid = template("ray-head", metadata={"labels": {"app.kubernetes.io/name": None}})
        assert services.head(cluster(head={"template": unsaid}), BuildOptions())["spec"]["selector"] == LABELS


class TestGivenByTheUser:
    def test_it_is_completed_but_stays_the_clusters(self) -> None:
        """raycluster EX-40."""
        service = built(
            headService={
                "metadata": {"labels": {"ray.io/cluster": "x", "mine": "y"}, "namespace": "other"},
                "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "selector": {"other": "pod"}},
            }
        )
        assert service["metadata"]["labels"] == LABELS | {"mine": "y"}
        assert service["metadata"]["namespace"] == "default"
        assert service["spec"]["type"] == "LoadBalancer"
        assert service["spec"]["clusterIP"] == "10.0.0.1"
        assert service["spec"]["selector"] == LABELS

    def test_its_ports_come_first(self) -> None:
        service = built(headService={"spec": {"ports": [{"name": "zebra", "port": 1}]}})
        assert ports(service)[0] == ("zebra", 1)
        assert ports(service)[1:] == [
            ("client", 10001),
            ("dashboard", 8265),
            ("gcs-server", 6379),
            ("metrics", 8080),
            ("serve", 8000),
        ]

    def test_its_type_wins_over_the_groups(self) -> None:
        assert (
            built(headService={"spec": {"type": "NodePort"}}, serviceType="LoadBalancer")["spec"]["type"] == "NodePort"
        )
        assert built(headService={"spec": {}}, serviceType="LoadBalancer")["spec"]["type"] == "LoadBalancer"

    def test_the_specs_annotations_win_over_its_own(self) -> None:
        rc = cluster(
            head={"headService": {"metadata": {"annotations": {"a": "1", "b": "1"}}}, "template": template("ray-head")},
            headServiceAnnotations={"a": "2"},
        )
        assert services.head(rc, BuildOptions())["metadata"]["annotations"].items() >= {"a": "2", "b": "1"}.items()

    def test_it_is_not_made_headless(self) -> None:
        assert "clusterIP" not in built(headService={})["spec"]

    def test_its_name_is_kept(self) -> None:
        assert built(headService={"metadata": {"name": "mine"}})["metadata"]["name"] == "mine"


class TestForTheHostsOfWorkers:
    def test_it_has_a_name_for_every_worker_and_no_ports(self) -> None:
        service = services.headless(cluster())
        assert service["metadata"]["name"] == "rc-headless"
        assert service["metadata"]["labels"] == {"ray.io/headless-worker-svc": "rc"}
        assert service["spec"] == {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"ray.io/cluster": "rc", "ray.io/node-type": "worker"},
        }


class TestForServe:
    def test_it_has_the_ports_of_the_head_that_are_serves(self) -> None:
        """raycluster EX-42."""
        declared = [
            {"name": "serve", "containerPort": 8000},
            {"name": "serve-grpc", "containerPort": 9000},
            {"name": "dashboard", "containerPort": 8265},
        ]
        rc = cluster(head={"template": template("ray-head", ports=declared), "serviceType": "NodePort"})
        service = services.serve(rc)
        assert service["metadata"]["name"] == "rc-serve-svc"
        assert service["metadata"]["labels"] == {
            "ray.io/originated-from-cr-name": "rc",
            "ray.io/originated-from-crd": "RayCluster",
            "ray.io/serve": "rc-serve",
        }
        assert service["spec"] == {
            "selector": {"ray.io/cluster": "rc"},
            "ports": [{"name": "serve", "port": 8000}, {"name": "serve-grpc", "port": 9000}],
            "type": "NodePort",
        }

    def test_a_head_that_declares_others_has_none(self) -> None:
        """raycluster EX-42."""
        rc = cluster(head={"template": template("ray-head", ports=[{"name": "dashboard", "containerPort": 8265}])})
        assert services.serve_ports(rc) == {}

    @pytest.mark.parametrize(("value", "wanted"), [("true", True), ("True", False), ("1", False)])
    def test_it_is_asked_for_by_one_word(self, value: str, wanted: bool) -> None:
        rc = cluster(metadata={"annotations": {"ray.io/enable-serve-service": value}})
        assert services.wants_serve(rc) is wanted
