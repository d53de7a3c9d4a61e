"""The fake kubelet as a process of its own: `python -m bench.rig.kubelet KUBECONFIG`."""

from __future__ import annotations

import sys

import uvloop

from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.sim.kubelet import FakeKubelet


async def main(kubeconfig: str) -> None:
    """Serve until killed."""
    await FakeKubelet(Client(HttpTransport(load(kubeconfig))), workers=32).run()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
