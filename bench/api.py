"""Figures of `kuberay.api` and of the commands that stand on it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from bench import Figures
from kuberay.api.crd import DEFINITIONS, crd
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.shapes import shape_problems
from kuberay.api.v1 import RayCluster
from kuberay.api.validate import raycluster

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 7


def cluster(groups: int) -> dict[str, Any]:
    """A RayCluster as users write them: requests, limits, ports, environment and a volume in every template."""
    container = {
        "name": "ray",
        "image": "rayproject/ray:2.52.0",
        "env": [{"name": f"VARIABLE_{index}", "value": "x"} for index in range(5)],
        "ports": [{"name": "metrics", "containerPort": 8080}],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
        "volumeMounts": [{"name": "logs", "mountPath": "/tmp/ray"}],
    }
    template = {"spec": {"containers": [container], "volumes": [{"name": "logs", "emptyDir": {}}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "bench", "namespace": "default", "uid": "u", "labels": {"team": "a"}},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": template},
            "workerGroupSpecs": [
                {
                    "groupName": f"group-{index}",
                    "replicas": 1,
                    "minReplicas": 0,
                    "maxReplicas": 10,
                    "numOfHosts": 1,
                    "rayStartParams": {"num-gpus": "1"},
                    "template": template,
                }
                for index in range(groups)
            ],
        },
    }


def best(action: Callable[[], Any], number: int = 1) -> float:
    """Seconds of the fastest of a few runs."""
    return min(timeit.repeat(action, number=number, repeat=RUNS)) / number


def command(*arguments: str) -> float:
    """Seconds of wall time of a program, the fastest of a few runs, with its bytecode cached as after an install."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds = []
    for _ in range(RUNS):
        started = perf_counter()
        subprocess.run(arguments, check=True, capture_output=True, env=environment)
        seconds.append(perf_counter() - started)
    return min(seconds)


def main() -> int:
    """Measure and print."""
    figures = Figures("kuberay.api")
    body = msgspec.json.encode(cluster(20))

    def judge() -> None:
        read = RayCluster.from_json(body)
        assert not raycluster.metadata_problems(read)
        assert not raycluster.spec_problems(read, DEFAULT_GATES)

    figures.add(
        "decode + validate, 20 groups",
        best(judge, 50) * 1000,
        "ms",
        limit=1,
        compared=f"{best(lambda: msgspec.json.decode(body), 50) * 1000:.2g} ms to parse the JSON alone",
    )
    native = best(lambda: msgspec.json.decode(body, type=RayCluster), 50) * 1000
    figures.add("native decode, 20 groups", native, "ms", compared="what the operator's caches do")
    read = RayCluster.from_json(body)
    figures.add("check its 21 Pod templates", best(lambda: shape_problems(read.spec), 20) * 1000, "ms")
    figures.add("generate the four CRDs", best(lambda: [crd(kind) for kind in DEFINITIONS]), "s", limit=1)

    python = sys.executable
    bare = command(python, "-c", "pass")
    imported = command(python, "-c", "import kuberay.api.v1, kuberay.api.validate.raycluster")
    figures.add(
        "import kuberay.api", (imported - bare) * 1000, "ms", limit=60, compared=f"python alone: {bare * 1000:.0f} ms"
    )
    kuberay = str(Path(python).with_name("kuberay"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        file.write_bytes(msgspec.json.encode(cluster(2)))
        figures.add("kuberay validate FILE", command(kuberay, "validate", str(file)), "s", limit=0.3)
    figures.add("kuberay crds", command(kuberay, "crds"), "s", limit=1)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
