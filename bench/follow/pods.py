"""What is measured with: Pods as an operator makes them and as a kubelet reports them."""

from __future__ import annotations

from typing import Any

import orjson

NAMESPACE = "bench"


def pod_to_create(name: str, settings: int = 27) -> dict[str, Any]:
    """A worker Pod of 5 kB, or one with fewer settings."""
    environment = [{"name": f"RAY_SETTING_{n}", "value": f"value-of-setting-{n}-" + "x" * 62} for n in range(settings)]
    resources = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "ray-worker",
        "image": "registry.example.com/team/ray:2.60.0-py311-gpu",
        "command": ["/bin/bash", "-c", "--"],
        "args": ["ulimit -n 65536; ray start --address=head-svc.bench.svc:6379 --block --num-cpus=4 " + "y" * 200],
        "env": environment,
        "resources": {"requests": resources, "limits": resources},
        "livenessProbe": {"exec": {"command": ["bash", "-c", "wget -T 2 -q -O- http://localhost:52365/api/healthz"]}},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/volume-{n}"} for n in range(6)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "ray.io/cluster": "training",
                "ray.io/group": "gpu-workers",
                "ray.io/node-type": "worker",
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": "kuberay-operator",
            },
            "annotations": {"ray.io/ft-enabled": "false"},
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": "training",
                    "uid": "8c4a6c34-6a5b-4b0e-9d2e-1f6a3f0c1d2e",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": f"volume-{n}", "emptyDir": {"medium": "Memory"}} for n in range(6)],
            "restartPolicy": "Always",
            "nodeSelector": {"node.kubernetes.io/instance-type": "g5.12xlarge"},
        },
    }


def pod(number: int, *, version: int, restarts: int = 0) -> dict[str, Any]:
    """The same as it is stored and reported: 6 kB."""
    name = f"training-gpu-workers-worker-{number:05d}"
    obj = pod_to_create(name)
    when = "2026-01-01T00:00:00Z"
    obj["metadata"] |= {
        "uid": f"00000000-0000-4000-8000-{number:012d}",
        "resourceVersion": str(version),
        "creationTimestamp": when,
        "managedFields": [{"manager": "kuberay-operator", "operation": "Update", "fieldsV1": {"f:spec": {"f:x": {}}}}],
    }
    obj["spec"]["nodeName"] = f"ip-10-0-{number % 250}-{number % 200}.ec2.internal"
    running = {"running": {"startedAt": when}}
    obj["status"] = {
        "phase": "Running",
        "podIP": f"10.1.{number // 250}.{number % 250}",
        "startTime": when,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": when}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {"name": "ray-worker", "ready": True, "restartCount": restarts, "state": running, "lastState": {}}
        ],
    }
    return obj


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"
