"""RayClusters as users write them: about 3.6 kB, with resources, environment, volumes, affinity and a toleration."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def _template(container: str) -> Json:
    return {
        "metadata": {"labels": {"team": "forecasting", "cost-centre": "4711"}},
        "spec": {
            "containers": [
                {
                    "name": container,
                    "image": "rayproject/ray:2.52.0",
                    "resources": {
                        "limits": {"cpu": "2", "memory": "8Gi"},
                        "requests": {"cpu": "2", "memory": "8Gi"},
                    },
                    "env": [{"name": f"SETTING_{index}", "value": f"value-of-setting-{index}"} for index in range(6)],
                    "volumeMounts": [
                        {"name": "logs", "mountPath": "/tmp/ray"},
                        {"name": "scratch", "mountPath": "/scratch"},
                        {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
                    ],
                }
            ],
            "volumes": [
                {"name": "logs", "emptyDir": {}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}},
                {"name": "settings", "configMap": {"name": "settings", "optional": True}},
            ],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["ray", "spare"]}]}
                        ]
                    }
                }
            },
            "tolerations": [{"key": "ray", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def raycluster(name: str, namespace: str, workers: int) -> Json:
    """A cluster with one group of workers."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "forecasting"}},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": _template("ray-head")},
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": workers,
                    "minReplicas": 0,
                    "maxReplicas": 10_000,
                    "rayStartParams": {},
                    "template": _template("ray-worker"),
                }
            ],
        },
    }
