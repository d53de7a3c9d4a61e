"""Head and worker Pods, field by field."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import orjson
import pytest

from kuberay.api.v1 import RayCluster
from kuberay.build import pod
from kuberay.build.options import BuildOptions
from tests.build.clusters import cluster, group, limits, requests, template

Json = dict[str, Any]
ADDRESS = "rc-head-svc.default.svc.cluster.local"


def head(rc: RayCluster | None = None, **options: Any) -> Json:
    rendered: Json = orjson.loads(pod.head(rc or cluster(), BuildOptions(**options)).pod())
    return rendered


def worker(rc: RayCluster | None = None, *, index: int = 0, **options: Any) -> Json:
    rc = rc or cluster()
    rendered = pod.worker(rc, rc.spec.worker_group_specs[0], BuildOptions(**options))
    decoded: Json = orjson.loads(rendered.pod("w", replica_index=index))
    return decoded


def ray(built: Json) -> Json:
    container: Json = built["spec"]["containers"][0]
    return container


def env(container: Json) -> list[str]:
    """Variables as `NAME=value` or `NAME<-field`, in order."""
    return [
        f"{each['name']}={each['value']}"
        if "value" in each
        else f"{each['name']}<-{each['valueFrom']['fieldRef']['fieldPath']}"
        for each in container["env"]
    ]


class TestMetadata:
    def test_a_head_has_a_fixed_name(self) -> None:
        metadata = head()["metadata"]
        assert metadata["name"] == "rc-head"
        assert "generateName" not in metadata

    def test_a_head_has_a_generated_name_when_told_so(self) -> None:
        metadata = head(deterministic_head_name=False)["metadata"]
        assert metadata["generateName"] == "rc-head-"
        assert "name" not in metadata

    def test_a_name_in_the_heads_template_is_used(self) -> None:
        rc = cluster(head={"template": template("ray-head", metadata={"name": "my-head"})})
        assert head(rc)["metadata"]["name"] == "my-head"
        assert head(rc, deterministic_head_name=False)["metadata"]["name"] == "my-head"

    def test_a_name_in_a_workers_template_is_not(self) -> None:
        rc = cluster(groups=[group(template=template("ray-worker", metadata={"name": "mine"}))])
        metadata = worker(rc)["metadata"]
        assert metadata["generateName"] == "rc-wg-worker-"
        assert metadata["name"] == "w"

    def test_the_namespace_is_the_clusters(self) -> None:
        """raycluster EX-73."""
        rc = cluster(head={"template": template("ray-head", metadata={"namespace": "other"})})
        assert head(rc)["metadata"]["namespace"] == "default"

    def test_both_belong_to_the_cluster(self) -> None:
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": "rc",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert head()["metadata"]["ownerReferences"] == [owner]
        assert worker()["metadata"]["ownerReferences"] == [owner]

    def test_only_a_head_tells_by_whom_and_from_which_revision_it_was_made(self) -> None:
        annotations = head(version="v9")["metadata"]["annotations"]
        assert annotations["ray.io/ft-enabled"] == "false"
        assert annotations["ray.io/kuberay-version"] == "v9"
        assert len(annotations["ray.io/upgrade-strategy-recreate-hash"]) == 32
        assert list(worker()["metadata"]["annotations"]) == ["ray.io/made-from"]

    def test_annotations_and_finalizers_of_the_template_are_kept(self) -> None:
        metadata = {"annotations": {"c": "d"}, "finalizers": ["example.com/hold"]}
        built = worker(cluster(groups=[group(template=template("ray-worker", metadata=metadata))]))
        assert built["metadata"]["annotations"]["c"] == "d"
        assert built["metadata"]["finalizers"] == ["example.com/hold"]


class TestLabels:
    def test_a_head_has_the_labels_that_clients_look_for(self) -> None:
        assert head()["metadata"]["labels"] == {
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": "rc",
            "ray.io/node-type": "head",
            "ray.io/group": "headgroup",
            "ray.io/identifier": "rc-head",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }

    def test_a_worker_has_its_group_and_index(self) -> None:
        labels = worker(index=7)["metadata"]["labels"]
        assert labels["ray.io/group"] == "wg"
        assert labels["ray.io/identifier"] == "rc-worker"
        assert labels["ray.io/worker-group-replica-index"] == "7"

    def test_the_groups_labels_win_over_the_templates(self) -> None:
        """pod-template section 8."""
        metadata = {"labels": {"accelerator-type": "GPU", "market-type": "spot"}}
        one = group(template=template("ray-worker", metadata=metadata), labels={"accelerator-type": "TPU-V6E"})
        labels = worker(cluster(groups=[one]))["metadata"]["labels"]
        assert labels["accelerator-type"] == "TPU-V6E"
        assert labels["market-type"] == "spot"

    def test_a_user_may_rename_the_application_but_not_move_the_pod(self) -> None:
        """raycluster EX-74, pod-template section 8."""
        own = {"ray.io/group": "x", "ray.io/cluster": "x", "ray.io/node-type": "x", "app.kubernetes.io/name": "mine"}
        rc = cluster(head={"template": template("ray-head", metadata={"labels": own})})
        labels = head(rc)["metadata"]["labels"]
        assert labels["ray.io/group"] == "headgroup"
        assert labels["ray.io/cluster"] == "rc"
        assert labels["ray.io/node-type"] == "head"
        assert labels["app.kubernetes.io/name"] == "mine"

    def test_the_clusters_own_labels_are_not_copied(self) -> None:
        assert "team" not in head(cluster(metadata={"labels": {"team": "a"}}))["metadata"]["labels"]

    def test_pods_of_a_ray_service_say_whether_they_serve(self) -> None:
        rc = cluster(metadata={"labels": {"ray.io/originated-from-crd": "RayService"}})
        assert head(rc)["metadata"]["labels"]["ray.io/serve"] == "false"
        assert worker(rc)["metadata"]["labels"]["ray.io/serve"] == "true"


class TestCommand:
    """pod-template section 12."""

    def start(self, **container: Any) -> Json:
        return ray(head(cluster(head={"template": template("ray-head", **container)})))

    def test_without_one_of_the_user_ray_is_all_that_runs(self) -> None:
        built = self.start()
        assert built["command"] == ["/bin/bash", "-c", "--"]
        (args,) = built["args"]
        assert args.startswith("ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head  --block ")

    def test_the_users_command_runs_first(self) -> None:
        (args,) = self.start(command=["echo 123"], args=["456"])["args"]
        assert args.startswith(
            " echo 123  456  && ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start --head  --block "
        )

    def test_a_command_that_starts_ray_is_kept(self) -> None:
        own = {"command": ["/bin/bash", "-c", "--"], "args": ["ulimit -n 65536; ray start --head --block"]}
        built = self.start(**own)
        assert {"command": built["command"], "args": built["args"]} == own

    def test_a_split_ray_start_is_not_recognised(self) -> None:
        """pod-template 28.1."""
        (args,) = self.start(command=["ray", "start", "--head"])["args"]
        assert args.startswith(" ray  start  --head  && ulimit -n ")

    def test_an_annotation_of_the_cluster_keeps_the_command(self) -> None:
        rc = cluster(
            metadata={"annotations": {"ray.io/overwrite-container-cmd": "True"}},
            head={"template": template("ray-head", command=["mine"])},
        )
        built = head(rc)
        assert ray(built)["command"] == ["mine"]
        assert "args" not in ray(built)
        assert built["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
        assert any(line.startswith("KUBERAY_GEN_RAY_START_CMD=ray start --head ") for line in env(ray(built)))

    def test_an_annotation_of_one_template_keeps_its_command_only(self) -> None:
        metadata = {"annotations": {"ray.io/overwrite-container-cmd": "true"}}
        rc = cluster(groups=[group(template=template("ray-worker", metadata=metadata, args=["mine"]))])
        assert ray(worker(rc))["args"] == ["mine"]
        assert ray(head(rc))["command"] == ["/bin/bash", "-c", "--"]

    def test_a_login_shell_when_told_so(self) -> None:
        built = worker(login_shell=True)
        assert ray(built)["command"] == ["/bin/bash", "-cl", "--"]
        assert built["spec"]["initContainers"][0]["command"] == ["/bin/bash", "-cl", "--"]


class TestEnvironment:
    def test_of_a_head(self) -> None:
        lines = env(ray(head(version="v9")))
        (start,) = [line for line in lines if line.startswith("KUBERAY_GEN_RAY_START_CMD=")]
        assert start.endswith(
            "ray start --head  --block  --dashboard-agent-listen-port=52365"
            "  --dashboard-host=0.0.0.0  --metrics-export-port=8080 "
        )
        assert lines == [
            "FQ_RAY_IP=127.0.0.1",
            "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']",
            "RAY_CLUSTER_NAMESPACE<-metadata.namespace",
            "RAY_CLOUD_INSTANCE_ID<-metadata.name",
            "RAY_NODE_TYPE_NAME<-metadata.labels['ray.io/group']",
            start,
            "RAY_PORT=6379",
            "RAY_ADDRESS=127.0.0.1:6379",
            "RAY_USAGE_STATS_KUBERAY_IN_USE=1",
            "RAY_USAGE_STATS_EXTRA_TAGS=kuberay_version=v9;kuberay_crd=RayCluster",
            "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE=1",
        ]  # fmt: skip

    def test_of_a_worker_after_the_users_own(self) -> None:
        rc = cluster(groups=[group(template=template("ray-worker", env=[{"name": "A", "value": "1"}]))])
        lines = env(ray(worker(rc)))
        assert lines[:3] == ["A=1", f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]
        assert f"RAY_ADDRESS={ADDRESS}:6379" in lines
        assert not any(line.startswith("RAY_USAGE_STATS_EXTRA_TAGS") for line in lines)

    def test_a_user_may_set_what_is_only_a_default(self) -> None:
        own = [{"name": "RAY_ADDRESS", "value": "auto"}, {"name": "FQ_RAY_IP", "value": "head.example"}]
        lines = env(ray(head(cluster(head={"template": template("ray-head", env=own)}))))
        assert [line for line in lines if line.startswith(("RAY_ADDRESS", "FQ_RAY_IP"))] == [
            "RAY_ADDRESS=auto",
            "FQ_RAY_IP=head.example",
        ]

    def test_a_users_value_for_the_pods_identity_is_overruled(self) -> None:
        """pod-template 28.9."""
        own = [{"name": "RAY_CLUSTER_NAME", "value": "mine"}]
        lines = env(ray(head(cluster(head={"template": template("ray-head", env=own)}))))
        last = [line for line in lines if line.startswith(("RAY_CLUSTER_NAME=", "RAY_CLUSTER_NAME<"))][-1]
        assert last == "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']"

    def test_the_heads_port_is_everybodys(self) -> None:
        rc = cluster(head={"rayStartParams": {"port": "6380"}, "template": template("ray-head")})
        assert "RAY_PORT=6380" in env(ray(head(rc)))
        assert "RAY_ADDRESS=127.0.0.1:6380" in env(ray(head(rc)))
        assert f"RAY_ADDRESS={ADDRESS}:6380" in env(ray(worker(rc)))

    def test_the_heads_own_address_can_be_left_out(self) -> None:
        assert not any(line.startswith("FQ_RAY_IP") for line in env(ray(head(head_local_address=False))))

    def test_pods_of_a_ray_service_notice_a_lost_head_soon(self) -> None:
        rc = cluster(metadata={"labels": {"ray.io/originated-from-crd": "RayService"}})
        lines = env(ray(worker(rc)))
        assert "RAY_timeout_ms_task_wait_for_death_info=0" in lines
        assert "RAY_gcs_server_request_timeout_seconds=5" in lines
        assert "RAY_SERVE_KV_TIMEOUT_S=5" in lines
        assert "kuberay_crd=RayService" in next(x for x in env(ray(head(rc))) if "EXTRA_TAGS" in x)


class TestInitContainer:
    def test_a_worker_waits_for_the_head_after_the_users_own_init_containers(self) -> None:
        own = {"name": "mine", "image": "busybox", "env": [{"name": "FQ_RAY_IP", "value": "x"}]}
        rc = cluster(groups=[group(template=template("ray-worker", pod={"initContainers": [own]}))])
        first, waiting = worker(rc)["spec"]["initContainers"]
        assert env(first) == ["FQ_RAY_IP=x", f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]
        assert waiting["name"] == "wait-gcs-ready"
        assert env(waiting) == [f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]

    def test_it_runs_as_the_ray_container_does_but_with_resources_of_its_own(self) -> None:
        """pod-template 28.5."""
        one = template(
            "ray-worker",
            imagePullPolicy="Always",
            securityContext={"runAsUser": 7},
            env=[{"name": "A", "value": "1"}],
            envFrom=[{"secretRef": {"name": "s"}}],
            volumeMounts=[{"name": "certificates", "mountPath": "/c"}],
            resources=limits(cpu="4", gpu="1"),
        )
        rc = cluster(groups=[group(template=one)], gcsFaultToleranceOptions={})
        (waiting,) = worker(rc, default_environment=({"name": "B", "value": "2"},))["spec"]["initContainers"]
        small = {"cpu": "200m", "memory": "256Mi"}
        assert waiting["image"] == "rayproject/ray:2.52.0"
        assert waiting["imagePullPolicy"] == "Always"
        assert waiting["securityContext"] == {"runAsUser": 7}
        assert waiting["volumeMounts"] == [{"name": "certificates", "mountPath": "/c"}]
        assert env(waiting) == ["A=1", f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]
        assert "envFrom" not in waiting
        assert waiting["resources"] == {"limits": small, "requests": small}

    def test_it_asks_for_the_heads_port(self) -> None:
        rc = cluster(head={"rayStartParams": {"port": "6380"}, "template": template("ray-head")})
        (script,) = worker(rc)["spec"]["initContainers"][0]["args"]
        assert f"ray health-check --address {ADDRESS}:6380" in script
        assert f'-c "$probe" {ADDRESS} 6380' in script

    def test_the_head_does_not_wait_for_itself(self) -> None:
        assert "initContainers" not in head()["spec"]

    def test_it_can_be_switched_off(self) -> None:
        assert "initContainers" not in worker(init_container_injection=False)["spec"]

    def test_the_heads_init_containers_learn_its_address(self) -> None:
        own = {"name": "mine", "image": "busybox"}
        rc = cluster(head={"template": template("ray-head", pod={"initContainers": [own]})})
        (first,) = head(rc)["spec"]["initContainers"]
        assert env(first) == [f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]


class TestSharedMemory:
    MOUNT: ClassVar[Json] = {"name": "shared-mem", "mountPath": "/dev/shm"}

    def spec(self, *, params: dict[str, str] | None = None, pod: Json | None = None, **container: Any) -> Json:
        one = template("ray-head", pod=pod, **container)
        spec: Json = head(cluster(head={"template": one, "rayStartParams": params or {}}))["spec"]
        return spec

    def test_it_may_fill_the_memory_limit(self) -> None:
        spec = self.spec(resources=limits(memory="2Gi") | requests(memory="1Gi"))
        assert spec["volumes"] == [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}]
        assert spec["containers"][0]["volumeMounts"] == [self.MOUNT]

    def test_or_else_the_memory_request(self) -> None:
        spec = self.spec(resources=requests(memory="1Gi"))
        assert spec["volumes"] == [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]

    def test_or_else_it_has_no_bound(self) -> None:
        assert self.spec()["volumes"] == [{"name": "shared-mem", "emptyDir": {"medium": "Memory"}}]

    def test_an_amount_that_cannot_be_read_is_left_for_the_server_to_refuse(self) -> None:
        spec = self.spec(resources=limits(memory="much"))
        assert spec["volumes"][0]["emptyDir"]["sizeLimit"] == "much"

    def test_something_the_user_mounts_there_is_used_instead(self) -> None:
        """pod-template 27.6."""
        spec = self.spec(volumeMounts=[{"name": "mine", "mountPath": "/dev/shm"}])
        assert "volumes" not in spec
        assert spec["containers"][0]["volumeMounts"] == [{"name": "mine", "mountPath": "/dev/shm"}]

    def test_a_volume_of_that_name_is_mounted(self) -> None:
        """pod-template 27.6."""
        own = {"name": "shared-mem", "emptyDir": {}}
        spec = self.spec(pod={"volumes": [own]})
        assert spec["volumes"] == [own]
        assert spec["containers"][0]["volumeMounts"] == [self.MOUNT]

    def test_a_plasma_directory_makes_it_useless(self) -> None:
        assert "volumes" not in self.spec(params={"plasma-directory": "/dev/shm"})


class TestMetricsPort:
    def test_it_is_declared(self) -> None:
        assert ray(worker())["ports"] == [{"name": "metrics", "containerPort": 8080}]

    def test_a_port_of_that_name_is_kept(self) -> None:
        """pod-template 27.7."""
        own = {"name": "metrics", "containerPort": 9090}
        rc = cluster(head={"template": template("ray-head", ports=[own])})
        assert ray(head(rc))["ports"] == [own]


class TestPurity:
    MANIFEST: ClassVar[Json] = {
        "metadata": {"name": "rc", "namespace": "default", "uid": "u-1"},
        "spec": {
            "headGroupSpec": {
                "template": {
                    "metadata": None,
                    "spec": {
                        "volumes": None,
                        "containers": [{"name": "h", "env": [{"name": "A", "value": "1"}], "ports": None}],
                    },
                }
            },
            "workerGroupSpecs": [group(template=template("w", env=[{"name": "A", "value": "1"}], volumeMounts=[]))],
        },
    }

    def test_building_changes_nothing_of_the_cluster(self) -> None:
        manifest = copy.deepcopy(self.MANIFEST)
        rc = RayCluster.from_dict(manifest)
        head(rc)
        worker(rc)
        assert manifest == self.MANIFEST

    def test_building_twice_gives_the_same_bytes(self) -> None:
        rc = RayCluster.from_dict(copy.deepcopy(self.MANIFEST))
        assert pod.head(rc, BuildOptions()).pod() == pod.head(rc, BuildOptions()).pod()

    def test_nulls_mean_the_same_as_leaving_a_field_away(self) -> None:
        built = head(RayCluster.from_dict(copy.deepcopy(self.MANIFEST)))
        assert built["spec"]["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 8080}]


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
def test_the_creator_is_the_kind_that_a_label_names(kind: str) -> None:
    rc = cluster(metadata={"labels": {"ray.io/originated-from-crd": kind}})
    assert pod.creator(rc) == kind
    assert f"RAY_USAGE_STATS_EXTRA_TAGS=kuberay_version=v9;kuberay_crd={kind}" in env(ray(head(rc, version="v9")))


def test_an_unknown_creator_is_the_cluster_itself() -> None:
    assert pod.creator(cluster(metadata={"labels": {"ray.io/originated-from-crd": "Deployment"}})) == "RayCluster"
