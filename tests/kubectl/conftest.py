"""A cluster for every test, and manifests to put into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from kuberay.api.crd import crd
from tests.kubectl.cluster import Cluster, cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "v1.36.3"

RAYCLUSTER = """
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: demo
  labels: {team: blue}
spec:
  rayVersion: "2.60.0"
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers: [{name: ray-head, image: "rayproject/ray:2.60.0"}]
  workerGroupSpecs:
  - groupName: small
    replicas: 2
    minReplicas: 0
    maxReplicas: 5
    numOfHosts: 1
    priority: 0
    rayStartParams: {}
    template:
      spec:
        containers: [{name: ray-worker, image: "rayproject/ray:2.60.0"}]
"""

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  nodeName: laptop
  containers:
  - name: main
    image: nginx:1
    ports: [{containerPort: 80, name: http}]
"""

SERVICE = """
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  clusterIP: 10.96.0.20
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
"""


def _kubectl() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or cache / "kuberay" / f"kubernetes-{VERSION}")
    found = shutil.which(folder / "kubectl") or shutil.which("kubectl")
    return Path(found) if found else None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Cluster]:
    """An empty cluster."""
    program = _kubectl()
    if program is None:
        pytest.skip("real kubectl: no kubectl on this machine: run `make kubernetes` (needs Go)")
    with cluster(program, tmp_path) as running:
        yield running


@pytest.fixture
def demo(served: Cluster) -> Cluster:
    """A cluster with the RayCluster kind, a RayCluster, a Pod and a Service."""
    served.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("RayCluster"))
    for manifest, path in (
        (RAYCLUSTER, "/apis/ray.io/v1/namespaces/default/rayclusters"),
        (POD, "/api/v1/namespaces/default/pods"),
        (SERVICE, "/api/v1/namespaces/default/services"),
    ):
        served.send("POST", path, yaml.safe_load(manifest))
    served.status(
        "/apis/ray.io/v1/namespaces/default/rayclusters/demo",
        {
            "state": "ready",
            "desiredWorkerReplicas": 2,
            "availableWorkerReplicas": 1,
            "desiredCPU": "3",
            "desiredMemory": "5G",
            "desiredGPU": "0",
            "head": {"podIP": "10.244.0.5"},
        },
    )
    served.status(
        "/api/v1/namespaces/default/pods/web",
        {
            "phase": "Running",
            "podIP": "10.244.0.7",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "nginx:1",
                    "imageID": "",
                    "state": {"running": {"startedAt": "2026-05-01T12:00:00Z"}},
                }
            ],
        },
    )
    return served
