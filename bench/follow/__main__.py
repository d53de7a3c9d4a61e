"""A process that does nothing but follow Pods, so that its memory and time are those of the runtime alone.

python -m bench.follow WHERE

WHERE is a kubeconfig, an address, or `nowhere`. Prints its figures as JSON when a Pod called `end` has come.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import uvloop

from kuberay.api.core import Pod
from kuberay.kube.access import Access
from kuberay.kube.client import Client
from kuberay.kube.controller import Controller, itself
from kuberay.kube.http import HttpTransport
from kuberay.kube.informer import Informer
from kuberay.kube.kubeconfig import load
from kuberay.kube.queue import Queue
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store


def main() -> None:
    (where,) = sys.argv[1:]
    access = Access("https://127.0.0.1:1", insecure=True)
    if where != "nowhere":
        access = Access(where) if where.startswith("http") else load(where)
    print(orjson.dumps(uvloop.run(follow(access, is_idle=where == "nowhere"))).decode())


async def follow(access: Access, *, is_idle: bool) -> dict[str, float]:
    """Fill a cache with Pods, index them by owner, queue each change; what that cost, and how much memory it holds."""
    gc.set_threshold(50_000, 20, 50)
    store: Store[Pod] = Store({"owner": lambda pod: (owner.uid for owner in pod.metadata.owner_references)})
    queue: Queue[Any] = Queue()
    controller: Controller[Any] = Controller("bench", queue, _nothing)
    controller.watches(store, itself)
    events = 0
    done = asyncio.Event()

    def count(old: Pod | None, new: Pod | None) -> None:
        nonlocal events
        if old is not None:
            events += 1
        elif new is not None and new.name == "end":
            done.set()

    store.on_change(count)
    client = Client(HttpTransport(access))
    informer = Informer(client, PODS, store, type=Pod)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        working = group.create_task(controller.run())
        if is_idle:
            await asyncio.sleep(0.2)
            controller.stop()
            following.cancel()
            return {"rss": rss()}
        began = time.process_time()
        await informer.synced()
        listed = time.process_time() - began
        gc.freeze()
        synced = rss()
        print("synced", file=sys.stderr, flush=True)
        began = time.process_time()
        async with asyncio.timeout(500):
            await done.wait()
        cpu = time.process_time() - began
        controller.stop()
        await working
        following.cancel()
    await client.close()
    return {
        "pods": len(store) - 1,
        "list": listed,
        "synced": synced,
        "rss": rss(),
        "events": events,
        "us": cpu / max(events, 1) * 1e6,
    }


async def _nothing(_: Any) -> None:
    return None


def rss() -> float:
    """Memory of this process in MB."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
