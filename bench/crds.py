"""What the full CRDs cost an API server beside the slim ones: memory, and CPU of every status that is written.

    python -m bench.crds [--writes N]

Two real kube-apiservers, one after the other, with nothing but the CRD of RayClusters in them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop
from tests.control_plane import ProgramsMissing, control_plane, programs

from bench import Figures
from bench.rig import manifests
from bench.rig.process import cpu_of, memory_of
from bench.rig.rig import at_once
from kuberay.api.crd import crd
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFound
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

_CLUSTERS = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one kind of CRD."""

    memory: float
    """Megabytes that the server has grown by."""
    write: float
    """Milliseconds of CPU for one status."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=600, help="how many statuses are written")
    writes = parser.parse_args().writes
    try:
        programs()
    except ProgramsMissing as missing:
        print(f"\nFull and slim CRDs: not measured. {missing}")
        return 0
    full, slim = (uvloop.run(measure(writes, slim=is_slim)) for is_slim in (False, True))
    figures = Figures("What CRDs cost a kube-apiserver")
    figures.add("memory, full", full.memory, "MB", compared=f"slim {slim.memory:.0f} MB")
    figures.add("CPU of a status write, full", full.write, "ms", compared=f"slim {slim.write:.1f} ms")
    figures.add("CPU of a status write, full over slim", full.write / slim.write, "x")
    return figures.finish()


async def measure(writes: int, *, slim: bool) -> Cost:
    """Take a fresh server, give it one CRD, and write statuses."""
    with tempfile.TemporaryDirectory(prefix="kuberay-bench-") as folder, control_plane(Path(folder)) as plane:
        client = Client(HttpTransport(load(plane.kubeconfig)))
        try:
            await asyncio.sleep(5)  # what a server does by itself after its start
            before = memory_of(plane.server_pid)
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd("RayCluster", slim=slim))
            await is_served(client)
            names = [f"rc-{number}" for number in range(_CLUSTERS)]
            for name in names:
                await client.create(RAY_CLUSTERS, manifests.raycluster(name, "default", 3), namespace="default")

            async def write(number: int) -> None:
                patch = {"status": {"readyWorkerReplicas": number + 1}}
                name = names[number % _CLUSTERS]
                await client.patch(RAY_CLUSTERS, name, patch, namespace="default", subresource="status")

            await at_once(write, range(_CLUSTERS))
            used = cpu_of(plane.server_pid)
            await at_once(write, range(_CLUSTERS, _CLUSTERS + writes), in_flight=8)
            spent = cpu_of(plane.server_pid) - used
            return Cost(memory_of(plane.server_pid) - before, spent / writes * 1000)
        finally:
            await client.close()


async def is_served(client: Client) -> None:
    """Wait until the server knows the kind."""
    while True:
        try:
            await client.list(RAY_CLUSTERS, namespace="default")
            return
        except NotFound:
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
