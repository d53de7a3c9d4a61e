"""What the slim CRD lets through, as the full one would have taken it."""

from __future__ import annotations

from typing import Any

from kuberay.api.problems import errors
from kuberay.api.shapes import POD_TEMPLATE, SERVICE, shape, shape_problems
from kuberay.api.v1 import RayCluster
from tests.api.clusters import group, manifest, pod


def nested(levels: int) -> Any:
    """Objects within objects."""
    return {"in": nested(levels - 1)} if levels else 1


class TestProblems:
    def test_a_valid_cluster_has_none(self) -> None:
        cluster = RayCluster.from_dict(manifest(group(), head={"headService": {"spec": {"type": "NodePort"}}}))
        assert shape_problems(cluster.spec) == []

    def test_each_is_told_by_its_field(self) -> None:
        spoiled = pod(hostNetwork="yes", volume=[], containers=[{"image": "x"}])
        cluster = manifest(group(template=spoiled), head={"headService": {"spec": {"ports": [{"port": "80"}]}}})
        assert [str(each) for each in shape_problems(RayCluster.from_dict(cluster).spec)] == [
            "spec.headGroupSpec.headService.spec.ports[0].port: expected an integer, got a string",
            "spec.workerGroupSpecs[0].template.spec.containers[0].name: is required",
            "spec.workerGroupSpecs[0].template.spec.hostNetwork: expected a boolean, got a string",
            "spec.workerGroupSpecs[0].template.spec.volume: unknown field; did you mean volumes?",
        ]

    def test_a_field_that_is_only_unknown_is_a_warning(self) -> None:
        """A newer Kubernetes may know it."""
        found = shape(POD_TEMPLATE, pod(volume=[])).problems
        assert found
        assert errors(found) == []

    def test_a_number_that_no_server_knows_is_told_by_its_field(self) -> None:
        ports = [{"containerPort": 10**400}]
        found = shape(POD_TEMPLATE, {"spec": {"containers": [{"name": "ray", "ports": ports}]}}).problems
        assert [each.path for each in errors(found)] == ["spec.containers[0].ports[0].containerPort", ""]
        assert all(len(str(each)) < 200 for each in found)

    def test_what_cannot_be_written_is_an_error_wherever_it_stands(self) -> None:
        for odd in (10**30, nested(400)):
            assert errors(shape(POD_TEMPLATE, pod(unheard=odd)).problems)


class TestCompletion:
    def test_defaults_are_filled_in_and_nulls_left_out(self) -> None:
        ray = {"name": "ray", "image": None, "ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]}
        metadata = {"creationTimestamp": None, "labels": {"a": "b", "c": None}}
        pod_spec = {"containers": [ray], "volumes": [{"name": "v", "configMap": {}}]}
        assert shape(POD_TEMPLATE, {"metadata": metadata, "spec": pod_spec}).completed == {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    {
                        "name": "ray",
                        "ports": [
                            {"containerPort": 1, "protocol": "TCP"},
                            {"containerPort": 1, "protocol": "UDP"},
                        ],
                    }
                ],
                "volumes": [{"name": "v", "configMap": {"name": ""}}],
            },
        }

    def test_what_is_unknown_stays(self) -> None:
        assert shape(SERVICE, {"spec": {"newer": 1}}).completed == {"spec": {"newer": 1}}

    def test_what_is_complete_stays_as_it_is(self) -> None:
        once = shape(POD_TEMPLATE, pod(volumes=[{"name": "v", "rbd": {}}])).completed
        assert shape(POD_TEMPLATE, once).completed == once
