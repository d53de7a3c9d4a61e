"""The whole of laptop mode, on real Ray, through the commands a user types. The tests build on each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import control_plane
from tests.ray.laptop import EXAMPLE, Laptop, is_alive, process_of, processes_below, run_on_every_node, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    try:
        control_plane.kubectl()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kubectl: {missing}")
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    yield laptop
    laptop.kuberay("down", "--purge")


def test_up_runs_the_example_and_says_how_to_use_it(laptop: Laptop) -> None:
    printed = laptop.up("--file", str(EXAMPLE)).stdout
    assert "raycluster/example created" in printed
    assert "waiting in wait-gcs-ready" in printed
    assert "example: ready, 2 of 2 workers ready" in printed
    assert f"Dashboard   {laptop.dashboard}   (default/example, Ray" in printed
    assert f"export KUBECONFIG={laptop.folder}/kubeconfig" in printed
    assert "kuberay local down" in printed


def test_kubectl_shows_the_cluster_its_pods_and_its_service(laptop: Laptop) -> None:
    table = laptop.kubectl("get", "raycluster,pods,svc")
    assert [line.split()[:3] for line in table.splitlines() if "raycluster.ray.io/example" in line] == [
        ["raycluster.ray.io/example", "2", "2"]
    ]
    assert table.count("1/1     Running") == 3
    assert "service/example-head-svc   ClusterIP   None" in table


def test_kubectl_describes_what_happened(laptop: Laptop) -> None:
    described = laptop.kubectl("describe", "raycluster", "example")
    assert "CreatedHeadPod" in described
    assert "HeadPodReady" in described
    head = laptop.kubectl("describe", "pod", "example-head")
    assert "is not pulled: runs on Ray" in head
    assert "Started container ray-head" in head


def test_kubectl_reads_the_logs(laptop: Laptop) -> None:
    assert "Ray runtime started" in laptop.kubectl("logs", "example-head")
    worker = laptop.pods("workers")[0]["metadata"]["name"]
    assert "GCS is ready." in laptop.kubectl("logs", worker, "-c", "wait-gcs-ready")


def test_a_kubernetes_job_runs_to_its_end(laptop: Laptop, tmp_path: Path) -> None:
    container = {"name": "main", "image": "any", "command": ["python", "-c", "print('done')"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hello"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(job))
    laptop.kubectl("create", "-f", str(manifest))
    laptop.kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")
    assert laptop.kubectl("logs", "job/hello") == "done\n"
    laptop.kubectl("delete", "job", "hello")


def test_a_job_submitted_at_the_printed_address_runs_a_task_on_every_node(laptop: Laptop) -> None:
    addresses = {pod["status"]["podIP"] for pod in laptop.pods()}
    assert len(addresses) == 3
    assert run_on_every_node(laptop.dashboard) == addresses


def test_a_patch_of_replicas_scales_out_and_in_while_kubectl_watches(laptop: Laptop) -> None:
    watch = subprocess.Popen(
        laptop.kubectl_command("get", "raycluster", "example", "-w", "--no-headers"), stdout=subprocess.PIPE, text=True
    )
    try:
        for replicas in (3, 1):
            patch = f'[{{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": {replicas}}}]'
            assert "patched" in laptop.kubectl("patch", "raycluster", "example", "--type=json", "-p", patch)
            laptop.wait_ready(replicas)
            assert len(laptop.pods("workers")) == replicas
    finally:
        watch.terminate()
        seen, _ = watch.communicate(timeout=10)
    desired = [line.split()[1] for line in seen.splitlines()]
    assert desired[0] == "2"
    assert "3" in desired
    assert desired[-1] == "1"


def test_a_worker_whose_ray_was_killed_comes_back(laptop: Laptop) -> None:
    [worker] = laptop.pods("workers")
    os.kill(process_of(worker["metadata"]["name"], "raylet"), signal.SIGKILL)

    def is_back() -> bool:
        pods = laptop.pods("workers")
        return len(pods) == 1 and any(
            pod["metadata"]["uid"] != worker["metadata"]["uid"]
            or (container["restartCount"] > 0 and container["ready"])
            for pod in pods
            for container in pod["status"]["containerStatuses"]
        )

    until(is_back, "a new life of the worker")
    laptop.wait_ready(1)


def test_nothing_is_left_of_a_killed_engine(laptop: Laptop) -> None:
    engine = laptop.engine
    processes = processes_below(engine)
    assert len(processes) > 20
    os.kill(engine, signal.SIGKILL)
    until(lambda: not any(map(is_alive, processes)), "the end of every process", seconds=15)
    assert str(laptop.folder) not in Path("/proc/mounts").read_text()
    assert laptop.kuberay("status", check=False).returncode == 3


def test_up_brings_the_cluster_back(laptop: Laptop) -> None:
    printed = laptop.up().stdout
    assert "example: ready, 1 of 1 workers ready" in printed
    assert len(run_on_every_node(laptop.dashboard)) == 2


def test_delete_takes_everything_of_the_cluster_along(laptop: Laptop) -> None:
    assert "deleted" in laptop.kubectl("delete", "raycluster", "example")
    until(lambda: not laptop.get("pods,services", "-l", "ray.io/cluster=example")["items"], "the end of the Pods")


def test_down_leaves_nothing_behind(laptop: Laptop) -> None:
    processes = processes_below(laptop.engine)
    assert "Stopped." in laptop.kuberay("down", "--purge").stdout
    assert not any(map(is_alive, processes))
    assert not laptop.folder.exists()
    assert "No engine runs." in laptop.kuberay("down").stdout
