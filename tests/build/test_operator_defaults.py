"""What the operator's administrator puts into every Pod."""

from __future__ import annotations

from typing import Any

from tests.build.clusters import cluster, template
from tests.build.test_pod import env, head, ray, worker

Json = dict[str, Any]
AGENT = {"name": "agent", "image": "agent:1"}


class TestSidecars:
    def test_they_come_last_and_as_they_are(self) -> None:
        rc = cluster(enableInTreeAutoscaling=True)
        made = head(rc, head_sidecars=(AGENT,), worker_sidecars=({"name": "other"},))
        assert [each["name"] for each in made["spec"]["containers"]] == ["ray-head", "autoscaler", "agent"]
        assert made["spec"]["containers"][2] == AGENT

    def test_heads_and_workers_have_their_own(self) -> None:
        made = worker(worker_sidecars=(AGENT,), head_sidecars=({"name": "other"},))
        assert [each["name"] for each in made["spec"]["containers"]] == ["ray-worker", "agent"]


class TestLabelsAndAnnotations:
    def test_they_fill_what_nobody_set(self) -> None:
        """raycluster EX-72."""
        rc = cluster(head={"template": template("ray-head", metadata={"labels": {"shared": "head"}})})
        defaults = {"fleet": "managed", "shared": "default", "ray.io/group": "x"}
        labels = head(rc, default_labels=defaults)["metadata"]["labels"]
        assert (labels["fleet"], labels["shared"], labels["ray.io/group"]) == ("managed", "head", "headgroup")

    def test_the_mark_of_a_service_is_ours(self) -> None:
        rc = cluster(metadata={"labels": {"ray.io/originated-from-crd": "RayService"}})
        assert worker(rc, default_labels={"ray.io/serve": "x"})["metadata"]["labels"]["ray.io/serve"] == "true"
        assert head(rc, default_labels={"ray.io/serve": "x"})["metadata"]["labels"]["ray.io/serve"] == "false"

    def test_an_annotation_can_keep_commands_as_they_are(self) -> None:
        rc = cluster(head={"template": template("ray-head", command=["sleep", "1"])})
        made = head(rc, default_annotations={"ray.io/overwrite-container-cmd": "true"})
        assert ray(made)["command"] == ["sleep", "1"]


class TestEnvironment:
    def test_variables_fill_what_nobody_set_before_ours_do(self) -> None:
        own = [{"name": "A", "value": "user"}]
        rc = cluster(head={"template": template("ray-head", env=own)})
        defaults = tuple({"name": name, "value": "operator"} for name in ("A", "B", "RAY_PORT", "RAY_CLUSTER_NAME"))
        found = env(ray(head(rc, default_environment=defaults)))
        assert found[:4] == ["A=user", "B=operator", "RAY_PORT=operator", "RAY_CLUSTER_NAME=operator"]
        assert found.count("RAY_PORT=operator") == 1
        assert "RAY_PORT=6379" not in found
        assert "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']" in found

    def test_sidecars_and_init_containers_do_not_get_them(self) -> None:
        made = worker(worker_sidecars=(AGENT,), default_environment=({"name": "B", "value": "1"},))
        assert "env" not in made["spec"]["containers"][1]
        assert "B" not in [each["name"] for each in made["spec"]["initContainers"][0]["env"]]
