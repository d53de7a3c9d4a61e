"""Where a head keeps Ray's cluster state, and what its workers know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from kuberay.build import fault_tolerance, pod
from kuberay.build.options import BuildOptions
from tests.build.clusters import cluster, group, template

if TYPE_CHECKING:
    from kuberay.api.v1 import RayCluster

OPTIONS = BuildOptions()
Json = dict[str, Any]
NAMES = ("RAY_external_storage_namespace", "RAY_REDIS_ADDRESS", "REDIS_USERNAME", "REDIS_PASSWORD")
SECRET = {"secretKeyRef": {"name": "redis-password-secret", "key": "password"}}


def head(rc: RayCluster) -> Json:
    built: Json = orjson.loads(pod.head(rc, OPTIONS).pod())
    return built


def worker(rc: RayCluster) -> Json:
    built: Json = orjson.loads(pod.worker(rc, rc.spec.worker_group_specs[0], OPTIONS).pod("w"))
    return built


def environment(built: Json) -> dict[str, Any]:
    ray = built["spec"]["containers"][0]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in ray["env"]}


def redis(built: Json) -> dict[str, Any]:
    return {name: value for name, value in environment(built).items() if name in NAMES}


def with_redis(**options: Any) -> RayCluster:
    return cluster(gcsFaultToleranceOptions={"redisAddress": "redis:6379", **options})


def legacy(head: Json | None = None, **annotations: str) -> RayCluster:
    names = {"namespace": "ray.io/external-storage-namespace", "enabled": "ray.io/ft-enabled"}
    given = {names[key]: value for key, value in {"enabled": "true", **annotations}.items()}
    return cluster(head=head, metadata={"annotations": given})


class TestRedisByOptions:
    """pod-template section 14.1."""

    def test_the_head_is_told_where_and_under_which_prefix(self) -> None:
        built = head(with_redis())
        assert redis(built) == {"RAY_external_storage_namespace": "u-1", "RAY_REDIS_ADDRESS": "redis:6379"}
        assert built["metadata"]["annotations"]["ray.io/ft-enabled"] == "true"
        assert built["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "u-1"

    def test_credentials_go_through_the_environment(self) -> None:
        built = head(with_redis(redisUsername={"value": "ray"}, redisPassword={"valueFrom": SECRET}))
        assert list(redis(built)) == list(NAMES)
        assert redis(built)["REDIS_USERNAME"] == "ray"
        assert redis(built)["REDIS_PASSWORD"] == SECRET
        command = environment(built)["KUBERAY_GEN_RAY_START_CMD"]
        assert "--redis-username=$REDIS_USERNAME" in command
        assert "--redis-password=$REDIS_PASSWORD" in command

    def test_an_address_that_is_missing_is_an_empty_one(self) -> None:
        assert redis(head(cluster(gcsFaultToleranceOptions={})))["RAY_REDIS_ADDRESS"] == ""

    def test_the_spec_is_left_as_it_is(self) -> None:
        rc = with_redis(redisPassword={"value": "pw"})
        head(rc)
        assert rc.spec.head_group_spec.ray_start_params == {}


class TestStorageNamespace:
    """raycluster EX-20."""

    def test_is_the_uid_of_the_cluster(self) -> None:
        assert fault_tolerance.storage_namespace(legacy()) == "u-1"

    def test_or_what_the_annotation_says(self) -> None:
        built = head(legacy(namespace="a"))
        assert redis(built)["RAY_external_storage_namespace"] == "a"
        assert built["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "a"

    def test_or_what_the_options_say(self) -> None:
        rc = cluster(
            gcsFaultToleranceOptions={"externalStorageNamespace": "o"},
            metadata={"annotations": {"ray.io/external-storage-namespace": "a"}},
        )
        assert fault_tolerance.storage_namespace(rc) == "o"

    def test_a_variable_of_the_user_is_kept(self) -> None:
        own = [{"name": "RAY_external_storage_namespace", "value": "mine"}]
        built = head(legacy(head={"template": template("ray-head", env=own)}))
        assert redis(built)["RAY_external_storage_namespace"] == "mine"
        assert built["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "u-1"


class TestRedisByAnnotation:
    """raycluster EX-21."""

    def test_any_case_will_do(self) -> None:
        assert head(legacy(enabled="TRUE"))["metadata"]["annotations"]["ray.io/ft-enabled"] == "true"

    def test_a_password_parameter_becomes_a_variable_for_the_cleanup(self) -> None:
        params = {"rayStartParams": {"redis-password": "abc"}, "template": template("ray-head")}
        assert redis(head(legacy(head=params)))["REDIS_PASSWORD"] == "abc"

    def test_what_was_asked_for_by_annotations_is_told_in_order(self) -> None:
        """pod-template section 14.1."""
        params = {"rayStartParams": {"redis-password": "pw"}, "template": template("ray-head")}
        built = head(legacy(head=params, enabled="TRUE", namespace="ns1"))
        assert list(redis(built).items()) == [("RAY_external_storage_namespace", "ns1"), ("REDIS_PASSWORD", "pw")]

    def test_a_password_variable_is_kept(self) -> None:
        own = template("ray-head", env=[{"name": "REDIS_PASSWORD", "value": "own"}])
        built = head(legacy(head={"rayStartParams": {"redis-password": "abc"}, "template": own}))
        assert [
            each["value"] for each in built["spec"]["containers"][0]["env"] if each["name"] == "REDIS_PASSWORD"
        ] == ["own"]


class TestWithoutFaultTolerance:
    """raycluster EX-22, pod-template 28.6."""

    def test_the_head_says_so_and_knows_nothing_of_redis(self) -> None:
        built = head(cluster())
        assert built["metadata"]["annotations"]["ray.io/ft-enabled"] == "false"
        assert "ray.io/external-storage-namespace" not in built["metadata"]["annotations"]
        assert redis(built) == {}

    def test_workers_keep_rays_own_patience(self) -> None:
        assert "RAY_gcs_rpc_server_reconnect_timeout_s" not in environment(worker(cluster()))


class TestWorkers:
    @pytest.mark.parametrize("rc", [with_redis(), cluster(gcsFaultToleranceOptions={"backend": "rocksdb"})])
    def test_wait_ten_minutes_for_a_new_head(self, rc: RayCluster) -> None:
        assert environment(worker(rc))["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"
        assert redis(worker(rc)) == {}

    def test_or_as_long_as_their_user_says(self) -> None:
        """pod-template section 14.1."""
        own = [{"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "120"}]
        rc = cluster(gcsFaultToleranceOptions={}, groups=[group(template=template("ray-worker", env=own))])
        assert environment(worker(rc))["RAY_gcs_rpc_server_reconnect_timeout_s"] == "120"


class TestRocksDb:
    def embedded(self, **storage: Any) -> RayCluster:
        return cluster(gcsFaultToleranceOptions={"backend": "rocksdb", "storage": storage})

    def test_the_head_keeps_its_state_on_a_volume(self) -> None:
        built = head(cluster(gcsFaultToleranceOptions={"backend": "rocksdb"}))
        assert environment(built)["RAY_gcs_storage"] == "rocksdb"
        assert environment(built)["RAY_gcs_storage_path"] == "/data/gcs"
        assert {"name": "gcs-storage", "mountPath": "/data/gcs"} in built["spec"]["containers"][0]["volumeMounts"]
        volume = {"name": "gcs-storage", "persistentVolumeClaim": {"claimName": "rc-gcs-pvc"}}
        assert volume in built["spec"]["volumes"]
        assert redis(built) == {}
        assert "ray.io/external-storage-namespace" not in built["metadata"]["annotations"]

    def test_beside_the_volumes_of_the_user(self) -> None:
        given = template(
            "ray-head", pod={"volumes": [{"name": "mine"}]}, volumeMounts=[{"name": "mine", "mountPath": "/mine"}]
        )
        built = head(cluster(gcsFaultToleranceOptions={"backend": "rocksdb"}, head={"template": given}))
        names = ["mine", "gcs-storage", "shared-mem"]
        assert [each["name"] for each in built["spec"]["volumes"]] == names
        assert [each["name"] for each in built["spec"]["containers"][0]["volumeMounts"]] == names

    def test_on_a_claim_of_the_user_if_there_is_one(self) -> None:
        built = head(self.embedded(claimName="mine", subPath="ray"))
        mount = {"name": "gcs-storage", "mountPath": "/data/gcs", "subPath": "ray"}
        assert mount in built["spec"]["containers"][0]["volumeMounts"]
        assert {"name": "gcs-storage", "persistentVolumeClaim": {"claimName": "mine"}} in built["spec"]["volumes"]

    def test_a_claim_is_small_and_for_one_node_by_default(self) -> None:
        """raycluster EX-30."""
        claim = fault_tolerance.claim(self.embedded())
        assert claim["metadata"] == {
            "name": "rc-gcs-pvc",
            "namespace": "default",
            "labels": {"ray.io/cluster": "rc"},
        }
        assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    def test_or_as_the_user_says(self) -> None:
        claim = fault_tolerance.claim(self.embedded(size="5Gi", storageClassName="fast", accessModes=["ReadWriteMany"]))
        assert claim["spec"] == {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "5Gi"}},
            "storageClassName": "fast",
        }
