"""The Job that removes a cluster's state from Redis."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.build import cleanup
from kuberay.build.options import BuildOptions
from tests.build.clusters import cluster, limits, template

if TYPE_CHECKING:
    from pathlib import Path

    from kuberay.api.v1 import RayCluster

Json = dict[str, Any]


def job(head: Json | None = None, **options: Any) -> Json:
    rc: RayCluster = cluster(head=head, gcsFaultToleranceOptions={"redisAddress": "redis:6379", **options})
    return cleanup.job(rc, BuildOptions())


def pod_spec(made: Json) -> Json:
    spec: Json = made["spec"]["template"]["spec"]
    return spec


class TestTheJob:
    def test_is_tried_once_and_not_for_long(self) -> None:
        made = job()
        assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
        assert made["metadata"]["name"] == "rc-redis-cleanup"
        assert made["metadata"]["ownerReferences"][0]["uid"] == "u-1"
        assert made["spec"]["backoffLimit"] == 0
        assert made["spec"]["activeDeadlineSeconds"] == 300
        assert pod_spec(made)["restartPolicy"] == "Never"

    def test_is_no_ray_node(self) -> None:
        made = job()
        for metadata in (made["metadata"], made["spec"]["template"]["metadata"]):
            assert metadata["labels"]["ray.io/node-type"] == "redis-cleanup"
            assert metadata["labels"]["ray.io/group"] == "headgroup"
            assert metadata["annotations"] == {
                "ray.io/ft-enabled": "true",
                "ray.io/external-storage-namespace": "u-1",
            }
        (ray,) = pod_spec(made)["containers"]
        assert not {"livenessProbe", "readinessProbe", "startupProbe"} & ray.keys()

    def test_takes_only_the_ray_container_of_a_head_and_little_of_it(self) -> None:
        """raycluster EX-29."""
        pod = {
            "containers": [
                {"name": "ray-head", "image": "ray", "resources": limits(gpu="1", cpu="8")},
                {"name": "one", "image": "x"},
                {"name": "two", "image": "x"},
            ],
            "initContainers": [{"name": "mine", "image": "x"}, {"name": "wait-for-tls-ip-san", "image": "x"}],
        }
        made = pod_spec(job(head={"template": template("ray-head", pod=pod)}))
        (ray,) = made["containers"]
        assert ray["name"] == "ray-head"
        assert ray["resources"] == {
            "limits": {"cpu": "200m", "memory": "256Mi"},
            "requests": {"cpu": "200m", "memory": "256Mi"},
        }
        assert [each["name"] for each in made["initContainers"]] == ["mine"]

    def test_has_the_environment_of_the_head_and_patience(self) -> None:
        (ray,) = pod_spec(job(redisPassword={"value": "pw"}))["containers"]
        found = {each["name"]: each.get("value") for each in ray["env"]}
        assert found["RAY_REDIS_ADDRESS"] == "redis:6379"
        assert found["REDIS_PASSWORD"] == "pw"
        assert found["RAY_redis_db_connect_retries"] == "120"
        assert found["RAY_redis_db_connect_wait_milliseconds"] == "500"

    def test_has_a_name_that_fits_a_label(self) -> None:
        rc = cluster(name="n" * 60, gcsFaultToleranceOptions={})
        assert len(cleanup.job(rc, BuildOptions())["metadata"]["name"]) == 63


class TestTheProgram:
    """raycluster EX-28: run as the container would, with a Ray that only says what it was asked."""

    def ask(self, folder: Path, *, answer: bool = True, **environment: str) -> tuple[int, Json]:
        package = folder / "ray" / "_private"
        package.mkdir(parents=True)
        (folder / "ray" / "__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "gcs_utils.py").write_text(
            f"import json\ndef cleanup_redis_storage(**asked):\n    print(json.dumps(asked))\n    return {answer}\n"
        )
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        (ray,) = pod_spec(job())["containers"]
        done = subprocess.run(
            [*ray["command"], *ray["args"]],
            env={
                "PATH": str(folder),
                "PYTHONPATH": str(folder),
                "RAY_external_storage_namespace": "u-1",
                **environment,
            },
            capture_output=True,
            check=False,
        )
        advice, asked = done.stdout.splitlines()
        assert b"https://docs.ray.io/" in advice
        return done.returncode, orjson.loads(asked)

    def test_takes_the_first_address_and_reads_it(self, tmp_path: Path) -> None:
        code, asked = self.ask(tmp_path, RAY_REDIS_ADDRESS="rediss://r1:6380,r2:6380")
        assert code == 0
        assert asked == {
            "host": "r1",
            "port": 6380,
            "use_ssl": True,
            "password": "",
            "storage_namespace": "u-1",
        }

    def test_an_address_without_a_scheme_is_plain(self, tmp_path: Path) -> None:
        _, asked = self.ask(tmp_path, RAY_REDIS_ADDRESS="redis:6379", REDIS_PASSWORD="pw")
        assert (asked["host"], asked["port"], asked["use_ssl"]) == ("redis", 6379, False)
        assert asked["password"] == "pw"
        assert "username" not in asked

    def test_a_password_may_stand_in_the_address(self, tmp_path: Path) -> None:
        _, asked = self.ask(tmp_path, RAY_REDIS_ADDRESS="redis://u:p@redis:6379", REDIS_USERNAME="")
        assert (asked["username"], asked["password"]) == ("u", "p")

    def test_a_user_is_named_only_if_there_is_one(self, tmp_path: Path) -> None:
        _, asked = self.ask(tmp_path, RAY_REDIS_ADDRESS="redis:6379", REDIS_USERNAME="ray")
        assert asked["username"] == "ray"

    def test_a_refusal_of_redis_fails_the_job(self, tmp_path: Path) -> None:
        code, _ = self.ask(tmp_path, answer=False, RAY_REDIS_ADDRESS="redis:6379")
        assert code == 1

    @pytest.mark.parametrize("sign", ["'", "$("])
    def test_stands_in_single_quotes_and_has_no_variables(self, sign: str) -> None:
        assert sign not in cleanup.PROGRAM
