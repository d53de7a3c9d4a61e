"""Laptop mode: how long a user waits, beside doing the same by hand.

python -m bench.local [--rounds N]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests import control_plane

from bench import Figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
EXAMPLE = ROOT / "examples" / "raycluster.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often the start of a cluster is measured")
    rounds = parser.parse_args().rounds
    figures = Figures("Laptop mode")

    python = best(lambda: run([sys.executable, "-c", "pass"]), 10)
    ray = best(lambda: run([str(BIN / "ray"), "--help"]), 2)
    figures.add(
        "kuberay --help",
        best(lambda: run([str(BIN / "kuberay"), "--help"]), 10),
        "s",
        limit=0.15,
        compared=f"python alone {python:.3f} s, ray --help {ray:.2f} s",
    )

    engine_ready()  # the first start compiles
    engine = statistics.median(engine_ready() for _ in range(3))
    figures.add("engine ready for kubectl", engine, "s", limit=2.0, compared=real_api_server())

    by_hand, ours = [], []
    for _ in range(rounds):  # alternating, so that a busy machine slows both
        by_hand.append(start_by_hand())
        ours.append(apply_to_ready())
    hand, applied = statistics.median(by_hand), statistics.median(ours)
    figures.add("start the example's Ray by hand", hand, "s")
    figures.add("the same manifest, apply to ready", applied, "s")
    figures.add("ready over by hand", applied / hand, "x", limit=1.5, compared=f"median of {rounds} alternating rounds")
    return figures.finish()


def best(action: Callable[[], object], times: int) -> float:
    """The shortest of several runs: what the program itself needs."""
    durations = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        durations.append(time.perf_counter() - started)
    return min(durations)


def run(command: list[str], **environment: str) -> str:
    # As on a user's machine: Python keeps what it compiled.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=variables | environment, timeout=400
    ).stdout


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kuberay-bench-") as folder:
        try:
            yield Path(folder)
        finally:
            run([str(BIN / "kuberay"), "local", "down", f"--folder={folder}"])


def engine_ready() -> float:
    """From the command to kubectl's first answer."""
    with data_folder() as folder:
        started = time.perf_counter()
        run([str(BIN / "kuberay"), "local", "up", "--detach", "--port=0", f"--folder={folder}"])
        with contextlib.suppress(control_plane.ProgramsMissing):
            run([str(control_plane.kubectl()), "get", "namespaces"], KUBECONFIG=str(folder / "kubeconfig"))
        return time.perf_counter() - started


def real_api_server() -> str:
    try:
        control_plane.programs()
    except control_plane.ProgramsMissing:
        return "real control plane not built here"
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with control_plane.control_plane(Path(folder)) as plane:
            run([str(plane.kubectl), "get", "namespaces"], KUBECONFIG=str(plane.kubeconfig))
            return f"etcd + kube-apiserver {time.perf_counter() - started:.1f} s"


def apply_to_ready() -> float:
    """From applying the example, on an engine that runs, to the cluster's `ready`; read from the engine's own times."""
    with data_folder() as folder:
        run([str(BIN / "kuberay"), "local", "up", "--detach", "--port=0", f"--folder={folder}"])
        kubeconfig = str(folder / "kubeconfig")
        kubectl = str(control_plane.kubectl())
        started = time.perf_counter()
        run([kubectl, "apply", "-f", str(EXAMPLE)], KUBECONFIG=kubeconfig)
        ready = "--for=jsonpath={.status.state}=ready"
        run([kubectl, "wait", ready, "raycluster/example", "--timeout=300s"], KUBECONFIG=kubeconfig)
        return time.perf_counter() - started


def start_by_hand() -> float:
    """The example's three `ray start` lines, each as soon as it can succeed, until every node is healthy."""
    return float(run([str(ROOT / "bench" / "by_hand.sh"), str(BIN / "ray")]))


if __name__ == "__main__":
    raise SystemExit(main())
