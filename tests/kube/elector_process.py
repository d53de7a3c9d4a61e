"""A process that takes part in an election and says, fifty times a second, whether it may act as the leader.

python -m tests.kube.elector_process KUBECONFIG NAMESPACE IDENTITY

Prints the monotonic time, which all processes of a machine share, whenever it does. Ends when it has lost the lease.
"""

from __future__ import annotations

import asyncio
import sys
import time

from kuberay.kube.client import Client, Retry
from kuberay.kube.election import Elector, LeaseLost, LeaseTiming
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load

TIMING = LeaseTiming(duration=3.0, renew_deadline=2.0, retry=0.3)


async def main() -> None:
    kubeconfig, namespace, identity = sys.argv[1:]
    client = Client(HttpTransport(load(kubeconfig)), retry=Retry(attempts=0))
    elector = Elector(client, namespace=namespace, name="leader", identity=identity, timing=TIMING)
    async with asyncio.TaskGroup() as group:
        telling = group.create_task(tell(elector))
        await elector.acquire()
        try:
            await elector.keep()
        except LeaseLost as lost:
            print(f"lost: {lost}", flush=True)
        telling.cancel()
    await client.close()


async def tell(elector: Elector) -> None:
    while True:
        if elector.holds:
            print(f"holds {time.monotonic()}", flush=True)
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main())
