"""The ways to the dashboard from outside."""

from __future__ import annotations

from typing import Any

from kuberay.build import ingress, names
from tests.build.clusters import cluster, template

Json = dict[str, Any]
LONG = "team-vision-prod-raycluster-for-nightly-batch-train1"


def built(annotations: Json | None = None, *, ports: list[Json] | None = None, **options: Any) -> Json:
    container: Json = {"ports": ports} if ports else {}
    head = {"template": template("ray-head", **container), "enableIngress": True, "ingressOptions": options}
    return ingress.ingress(cluster(head=head, metadata={"annotations": annotations or {}}))


def path(made: Json) -> Json:
    found: Json = made["spec"]["rules"][0]["http"]["paths"][0]
    return found


class TestAnIngress:
    def test_it_leads_every_path_to_the_dashboard(self) -> None:
        made = built()
        backend = {"service": {"name": "rc-head-svc", "port": {"number": 8265}}}
        assert (made["apiVersion"], made["kind"]) == ("networking.k8s.io/v1", "Ingress")
        assert made["spec"] == {
            "rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]
        }
        assert made["metadata"]["labels"]["ray.io/identifier"] == "rc-head"

    def test_its_options_are_the_users(self) -> None:
        tls = [{"hosts": ["ray.example"], "secretName": "cert"}]
        made = built(host="ray.example", path="/ray", pathType="Exact", tls=tls)
        assert made["spec"]["rules"][0]["host"] == "ray.example"
        assert (path(made)["path"], path(made)["pathType"]) == ("/ray", "Exact")
        assert made["spec"]["tls"] == tls

    def test_the_port_is_the_one_named_dashboard(self) -> None:
        made = built(ports=[{"name": "dashboard", "containerPort": 9265}])
        assert path(made)["backend"]["service"]["port"] == {"number": 9265}

    def test_annotations_of_the_cluster_are_its_own_but_for_the_class(self) -> None:
        made = built({"kubernetes.io/ingress.class": "nginx", "x": "y"})
        assert made["metadata"]["annotations"] == {"x": "y"}
        assert made["spec"]["ingressClassName"] == "nginx"

    def test_a_long_name_is_cut_at_its_start(self) -> None:
        """raycluster EX-19."""
        assert names.ingress(cluster(name=LONG)) == "d-raycluster-for-nightly-batch-train1-head-ingress"


class TestARoute:
    def test_it_leads_to_the_dashboard(self) -> None:
        rc = cluster(metadata={"annotations": {"kubernetes.io/ingress.class": "nginx"}})
        made = ingress.route(rc)
        assert (made["apiVersion"], made["kind"]) == ("route.openshift.io/v1", "Route")
        assert made["spec"] == {
            "to": {"kind": "Service", "name": "rc-head-svc", "weight": 100},
            "port": {"targetPort": 8265},
            "wildcardPolicy": "None",
        }
        assert made["metadata"]["annotations"] == {"kubernetes.io/ingress.class": "nginx"}

    def test_its_name_is_cut_at_its_end_by_the_length_of_the_namespace(self) -> None:
        """raycluster EX-18."""
        short = cluster(name="demo", metadata={"namespace": "ml-platform"})
        long = cluster(name=LONG, metadata={"namespace": "ml-platform"})
        assert names.route(short) == "demo-head-route"
        assert names.route(long) == "team-vision-prod-raycluster-for-nightly-"

    def test_a_namespace_that_leaves_no_room_leaves_one_letter(self) -> None:
        assert names.route(cluster(metadata={"namespace": "n" * 60})) == "r"
