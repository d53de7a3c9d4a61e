"""What Pods are made from, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay.build import origin
from tests.build.clusters import cluster, group, template


def head(**fields: Any) -> str:
    return origin.of_head(cluster(**fields).spec)


def worker(**fields: Any) -> str:
    return origin.of_workers(cluster(groups=[group(**fields)]).spec)[0]


class TestAHead:
    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"rayVersion": "2.53.0"}, "rayVersion"),
            ({"enableInTreeAutoscaling": True}, "enableInTreeAutoscaling"),
            ({"head": {"template": template("other")}}, "headGroupSpec.template.spec.containers[0].name"),
            ({"head": {"rayStartParams": {"port": "1"}}}, "headGroupSpec.rayStartParams"),
            ({"authOptions": {"mode": "token"}}, "authOptions"),
            ({"gcsFaultToleranceOptions": {"backend": "rocksdb"}}, "gcsFaultToleranceOptions"),
            (
                {"head": {"template": template("ray-head", metadata={"annotations": {"a": "b"}})}},
                "headGroupSpec.template.metadata.annotations",
            ),
        ],
    )
    def test_a_field_of_its_own_or_of_the_whole_cluster_counts(self, fields: dict[str, Any], path: str) -> None:
        assert origin.changed(head(), head(**fields)) == [path]

    @pytest.mark.parametrize(
        "fields",
        [
            {"groups": []},
            {"suspend": False},
            {"upgradeStrategy": {"type": "None"}},
            {"head": {"template": template("ray-head"), "enableIngress": True}},
            {"autoscalerOptions": {"image": "x"}},
            {"enableInTreeAutoscaling": False},
            {"authOptions": {"mode": "disabled"}},
        ],
    )
    def test_what_takes_effect_without_a_new_pod_does_not(self, fields: dict[str, Any]) -> None:
        assert origin.changed(head(), head(**fields)) == []

    def test_what_the_autoscaler_reads_by_itself_does_not(self) -> None:
        plain = head(enableInTreeAutoscaling=True)
        for options, found in (
            ({"upscalingMode": "Default", "idleTimeoutSeconds": 5}, []),
            ({"image": "x"}, ["autoscalerOptions"]),
        ):
            assert origin.changed(plain, head(enableInTreeAutoscaling=True, autoscalerOptions=options)) == found

    def test_what_goes_into_the_volume_claim_does_not(self) -> None:
        plain = {"backend": "rocksdb", "storage": {"size": "1Gi"}}
        other = {"backend": "rocksdb", "storage": {"size": "2Gi", "deletionPolicy": "Retain"}}
        moved = {"backend": "rocksdb", "storage": {"size": "1Gi", "claimName": "mine"}}
        before = head(gcsFaultToleranceOptions=plain)
        assert origin.changed(before, head(gcsFaultToleranceOptions=other)) == []
        assert origin.changed(before, head(gcsFaultToleranceOptions=moved)) == ["gcsFaultToleranceOptions"]


class TestWhicheverCrdsThereAre:
    """Full ones fill in defaults and leave out nulls; slim ones store what they are given."""

    SLIM = template("ray", ports=[{"containerPort": 1}], env=None, metadata={"labels": {"a": "b", "c": None}})
    FULL = template("ray", ports=[{"containerPort": 1, "protocol": "TCP"}], metadata={"labels": {"a": "b"}})

    def test_pods_are_made_from_the_same(self) -> None:
        assert head(head={"template": self.SLIM}) == head(head={"template": self.FULL})
        assert worker(template=self.SLIM) == worker(template=self.FULL)

    def test_services_are_made_from_the_same(self) -> None:
        slim, full = (
            cluster(head={"template": given, "headService": {"spec": {"ports": [port]}}}).spec
            for given, port in ((self.SLIM, {"port": 1}), (self.FULL, {"port": 1, "protocol": "TCP"}))
        )
        assert origin.of_head_service(slim) == origin.of_head_service(full)
        assert origin.of_serve_service(slim) == origin.of_serve_service(full)

    @pytest.mark.parametrize("odd", [{"spec": "x"}, {"metadata": [1]}, {"spec": {"containers": [10**30, {"a": 1}]}}])
    def test_something_is_said_about_what_is_no_template_at_all(self, odd: dict[str, Any]) -> None:
        assert head(head={"template": odd})
        assert worker(template=odd)


class TestAWorker:
    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"authOptions": {"mode": "token"}}, "authOptions"),
            ({"rayVersion": "2.53.0"}, "rayVersion"),
            ({"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}, "gcsFaultToleranceOptions"),
            ({"head": {"rayStartParams": {"port": "1"}}}, "headGroupSpec.rayStartParams"),
            ({"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}, "autoscalerOptions"),
        ],
    )
    def test_what_the_whole_cluster_says_of_it_is_a_field(self, fields: dict[str, Any], path: str) -> None:
        [before], [after] = (origin.of_workers(cluster(**each).spec) for each in ({}, fields))
        assert origin.changed(before, after) == [f"^{path}"]

    def test_every_part_of_a_container_is_a_field(self) -> None:
        given = template("ray-worker", image="new", env=[{"name": "A", "value": "1"}])
        assert origin.changed(worker(), worker(template=given)) == [
            "template.spec.containers[0].env",
            "template.spec.containers[0].image",
        ]

    def test_its_number_and_its_bounds_do_not_count(self) -> None:
        assert worker() == worker(replicas=5, minReplicas=2, maxReplicas=7, priority=1, idleTimeoutSeconds=9)

    def test_an_empty_field_is_as_good_as_none(self) -> None:
        assert worker() == worker(rayStartParams={}, labels={})

    def test_what_the_server_fills_in_is_no_change(self) -> None:
        assert worker() == worker(numOfHosts=1)
        assert origin.changed(worker(), worker(numOfHosts=2)) == ["numOfHosts"]

    def test_values_are_not_written_out(self) -> None:
        assert "hunter2" not in worker(template=template("w", env=[{"name": "PASSWORD", "value": "hunter2"}]))


class TestHowItIsWritten:
    LONG = "v2:h.c[0].image=Ss4e,rayVersion=8T7e"
    """What stands on Pods must stay readable: this is how it is written today."""

    def test_every_word_comes_back_as_it_went(self) -> None:
        given = template("w", metadata={"labels": {"a": "b"}}, pod={"initContainers": [{"name": "i"}], "hostIPC": True})
        paths = origin.changed(worker(template=given), "v2:other=AAAA")
        assert paths == [
            "^rayVersion",
            "other",
            "template.metadata.labels",
            "template.spec.containers[0].image",
            "template.spec.containers[0].name",
            "template.spec.hostIPC",
            "template.spec.initContainers[0].name",
        ]

    def test_a_typical_one_is_short(self) -> None:
        ports = [{"name": "dashboard", "containerPort": 8265}]
        given = template("ray-head", ports=ports, resources={"limits": {"cpu": "1"}}, volumeMounts=[{"name": "logs"}])
        fields: dict[str, Any] = {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": given}
        assert len(head(head=fields)) < 150

    def test_a_pod_that_was_made_before_it_was_short_is_understood(self) -> None:
        before = '{"headGroupSpec.template.spec.containers[0].image":"4ace1e00","rayVersion":"f13ede00"}'
        assert origin.changed(before, self.LONG) == []
        assert origin.changed(before.replace("4ace", "5ace"), self.LONG) == [
            "headGroupSpec.template.spec.containers[0].image"
        ]

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a":1}', '{"a":"zz"}', '{"a":"fffffffff"}', "v3:a=bcde"])
    def test_what_cannot_be_read_tells_nothing(self, text: str) -> None:
        assert origin.changed(text, self.LONG) == []
