"""A local engine as its user sees it: the commands `kuberay` and `kubectl`, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests import control_plane

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "raycluster.yaml"
AUTOSCALER = ROOT / "examples" / "autoscaler.yaml"
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Laptop:
    """One data folder and the commands on it."""

    folder: Path

    def kuberay(self, *arguments: str, check: bool = True, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run `kuberay local ...` on this folder."""
        return _run(
            [str(BIN / "kuberay"), "local", *arguments, f"--folder={self.folder}"], check=check, timeout=timeout
        )

    def up(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Start the engine in the background, on any free port."""
        return self.kuberay("up", "--detach", "--port=0", *arguments, check=check)

    def kubectl(self, *arguments: str, check: bool = True, timeout: float = 150) -> str:
        """What the real kubectl prints."""
        return _run(self.kubectl_command(*arguments), check=check, timeout=timeout).stdout

    def kubectl_command(self, *arguments: str) -> list[str]:
        return [str(control_plane.kubectl()), f"--kubeconfig={self.folder / 'kubeconfig'}", *arguments]

    def get(self, *arguments: str) -> Any:
        """An object, or a list of them, as kubectl reads it."""
        return orjson.loads(self.kubectl("get", *arguments, "-o", "json"))

    def pods(self, group: str = "", cluster: str = "example") -> list[dict[str, Any]]:
        """The Pods of a cluster that are not on their way out."""
        selector = f"ray.io/cluster={cluster}{f',ray.io/group={group}' if group else ''}"
        items = self.get("pods", "-l", selector)["items"]
        return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]

    def wait_ready(self, workers: int) -> None:
        """Wait until the example has so many ready workers, and no more."""
        wait = "wait", "raycluster/example", "--timeout=120s"
        self.kubectl(*wait, f"--for=jsonpath={{.status.readyWorkerReplicas}}={workers}")
        self.kubectl(*wait, f"--for=jsonpath={{.status.availableWorkerReplicas}}={workers}")
        self.kubectl(*wait, "--for=jsonpath={.status.state}=ready")
        until(lambda: len(self.pods("workers")) == workers, f"{workers} workers")

    @property
    def engine(self) -> int:
        """The process id of the engine."""
        found = re.search(r"pid (\d+)", self.kuberay("status").stdout)
        assert found
        return int(found[1])

    @property
    def dashboard(self) -> str:
        """Where the dashboard of the one cluster is reached."""
        [address] = orjson.loads((self.folder / "addresses.json").read_bytes()).values()
        return str(address)


def run_on_every_node(dashboard: str) -> set[str]:
    """Submit a Ray job that runs one task on each node; the addresses the tasks saw."""
    script = (
        "import ray; from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On; ray.init(); "
        "where = ray.remote(lambda: ray.util.get_node_ip_address()); "
        "alive = [n for n in ray.nodes() if n['Alive']]; "
        "tasks = [where.options(scheduling_strategy=On(n['NodeID'], soft=False)).remote() for n in alive]; "
        "print('ran on', *sorted(ray.get(tasks, timeout=90)))"
    )
    found = re.search(r"ran on (.+)", submit(dashboard, script))
    assert found
    return set(found[1].split())


def submit(dashboard: str, script: str) -> str:
    """What a Ray job of this Python code prints, with what `ray job submit` says around it."""
    command = [str(BIN / "ray"), "job", "submit", f"--address={dashboard}", "--", "python", "-c", script]
    return _run(command, timeout=180).stdout


def processes_below(pid: int) -> set[int]:
    """Every process that descends from one, itself included, as the host sees them."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    below, found = {pid}, {pid}
    while found:
        found = {child for child, parent in parents.items() if parent in found} - below
        below |= found
    return below


def process_of(pod: str, name: str) -> int:
    """The process of this name within a Pod, by the variable that tells Ray its Pod."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() == name:
                environment = (folder / "environ").read_bytes()
                if f"RAY_CLOUD_INSTANCE_ID={pod}".encode() in environment.split(b"\0"):
                    return int(folder.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    raise AssertionError(f"no process {name} in Pod {pod}")


def until(condition: Callable[[], object], what: str, seconds: float = 90) -> None:
    """Wait for something observed."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s"
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    """Whether a process exists, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _run(command: list[str], *, check: bool = True, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, stdin=subprocess.DEVNULL, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done
