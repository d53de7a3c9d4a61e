"""Whole Pods, as the spec of Pods writes them down: every field that we add, and no other."""

from __future__ import annotations

from typing import Any

from tests.build.clusters import cluster, group, template
from tests.build.test_pod import ADDRESS, env, head, ray, worker

Json = dict[str, Any]

LABELS = {
    "ray.io/is-ray-node": "yes",
    "ray.io/cluster": "rc",
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}
START = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "
HEAD_LINE = (
    "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0"
    "  --memory=2147483648  --metrics-export-port=8080  --num-cpus=1 "
)
WORKER_LINE = (
    f"ray start  --address={ADDRESS}:6379  --block  --dashboard-agent-listen-port=52365"
    "  --memory=1073741824  --metrics-export-port=8080  --num-cpus=1  --num-gpus=1 "
)
RAYLET = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
GCS = "wget --tries 1 -T 10 -q -O- http://localhost:8265/api/gcs_healthz | grep success"
SERVE = "wget --tries 1 -T 10 -q -O- http://localhost:8000/-/healthz | grep success"


def spec(**fields: Any) -> Any:
    """The cluster of the example."""
    room = {"cpu": "1", "memory": "2Gi"}
    work = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    return cluster(
        head={"template": template("ray-head", resources={"limits": room, "requests": room})},
        groups=[group(template=template("ray-worker", resources={"limits": work}, env=[{"name": "A", "value": "1"}]))],
        **fields,
    )


def probe(command: str, delay: int, timeout: int, failures: int) -> Json:
    return {
        "exec": {"command": ["bash", "-c", command]},
        "initialDelaySeconds": delay,
        "timeoutSeconds": timeout,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def handlers(container: Json) -> list[str]:
    """How liveness and readiness are asked for."""
    probes = [container["livenessProbe"], container["readinessProbe"]]
    return ["httpGet" if "httpGet" in each else each["exec"]["command"][2] for each in probes]


def test_of_a_head() -> None:
    """pod-template 27.1."""
    made = head(spec(), version="nightly", deterministic_head_name=False)
    metadata = made["metadata"]
    assert metadata["generateName"] == "rc-head-"
    assert metadata["namespace"] == "default"
    assert metadata["labels"] == LABELS | {
        "ray.io/node-type": "head",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "rc-head",
    }
    assert metadata["annotations"].items() >= {
        ("ray.io/ft-enabled", "false"),
        ("ray.io/kuberay-version", "nightly"),
    }
    room = {"cpu": "1", "memory": "2Gi"}
    container = ray(made)
    assert env({"env": container.pop("env")}) == [
        "FQ_RAY_IP=127.0.0.1",
        "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']",
        "RAY_CLUSTER_NAMESPACE<-metadata.namespace",
        "RAY_CLOUD_INSTANCE_ID<-metadata.name",
        "RAY_NODE_TYPE_NAME<-metadata.labels['ray.io/group']",
        f"KUBERAY_GEN_RAY_START_CMD={HEAD_LINE}",
        "RAY_PORT=6379",
        "RAY_ADDRESS=127.0.0.1:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE=1",
        "RAY_USAGE_STATS_EXTRA_TAGS=kuberay_version=nightly;kuberay_crd=RayCluster",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE=1",
    ]
    assert made["spec"] == {
        "volumes": [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}],
        "containers": [
            {
                "name": "ray-head",
                "image": "rayproject/ray:2.52.0",
                "resources": {"limits": room, "requests": room},
                "command": ["/bin/bash", "-c", "--"],
                "args": [START + HEAD_LINE],
                "ports": [{"name": "metrics", "containerPort": 8080}],
                "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}],
                "livenessProbe": probe(f"{RAYLET} && {GCS}", 30, 5, 120),
                "readinessProbe": probe(f"{RAYLET} && {GCS}", 10, 5, 10),
            }
        ],
    }


def test_of_a_worker() -> None:
    """pod-template 27.2."""
    made = worker(spec())
    assert made["metadata"]["generateName"] == "rc-wg-worker-"
    assert made["metadata"]["labels"] == LABELS | {
        "ray.io/node-type": "worker",
        "ray.io/group": "wg",
        "ray.io/identifier": "rc-worker",
        "ray.io/worker-group-replica-index": "0",
    }
    small = {"cpu": "200m", "memory": "256Mi"}
    (waiting,) = made["spec"].pop("initContainers")
    assert waiting.pop("args")
    assert env({"env": waiting.pop("env")}) == ["A=1", f"FQ_RAY_IP={ADDRESS}", "RAY_IP=rc-head-svc"]
    assert waiting == {
        "name": "wait-gcs-ready",
        "image": "rayproject/ray:2.52.0",
        "command": ["/bin/bash", "-c", "--"],
        "resources": {"limits": small, "requests": small},
    }
    container = ray(made)
    assert env({"env": container.pop("env")}) == [
        "A=1",
        f"FQ_RAY_IP={ADDRESS}",
        "RAY_IP=rc-head-svc",
        "RAY_CLUSTER_NAME<-metadata.labels['ray.io/cluster']",
        "RAY_CLUSTER_NAMESPACE<-metadata.namespace",
        "RAY_CLOUD_INSTANCE_ID<-metadata.name",
        "RAY_NODE_TYPE_NAME<-metadata.labels['ray.io/group']",
        f"KUBERAY_GEN_RAY_START_CMD={WORKER_LINE}",
        "RAY_PORT=6379",
        f"RAY_ADDRESS={ADDRESS}:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE=1",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE=1",
    ]
    assert made["spec"] == {
        "volumes": [{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "containers": [
            {
                "name": "ray-worker",
                "image": "rayproject/ray:2.52.0",
                "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
                "command": ["/bin/bash", "-c", "--"],
                "args": [START + WORKER_LINE],
                "ports": [{"name": "metrics", "containerPort": 8080}],
                "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}],
                "livenessProbe": probe(RAYLET, 30, 2, 120),
                "readinessProbe": probe(RAYLET, 10, 2, 10),
            }
        ],
    }


class TestVariants:
    def test_a_later_ray_is_asked_by_one_request_but_for_workers_that_serve(self) -> None:
        """pod-template 27.3."""
        later = spec(rayVersion="2.53.0")
        assert handlers(ray(head(later))) == handlers(ray(worker(later))) == ["httpGet", "httpGet"]
        of_service = spec(rayVersion="2.53.0", metadata={"labels": {"ray.io/originated-from-crd": "RayService"}})
        serving = ray(worker(of_service))
        assert handlers(serving) == ["httpGet", f"{RAYLET} && {SERVE}"]
        assert serving["readinessProbe"]["failureThreshold"] == 1

    def test_a_head_that_scales_its_cluster_has_the_autoscaler_beside_it(self) -> None:
        """pod-template 27.4."""
        made = head(spec(enableInTreeAutoscaling=True))["spec"]
        assert [each["name"] for each in made["containers"]] == ["ray-head", "autoscaler"]
        assert [each["name"] for each in made["volumes"]] == ["shared-mem", "ray-logs"]
        for container in made["containers"]:
            assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in container["volumeMounts"]
        assert "  --no-monitor  " in made["containers"][0]["args"][0]
        assert made["serviceAccountName"] == "rc"

    def test_what_is_injected_can_be_left_out(self) -> None:
        """pod-template 27.5."""
        assert "initContainers" not in worker(spec(), init_container_injection=False)["spec"]
        for made in (head(spec(), probes_injection=False), worker(spec(), probes_injection=False)):
            assert not {"livenessProbe", "readinessProbe"} & ray(made).keys()
