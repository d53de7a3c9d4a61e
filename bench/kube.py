"""The Kubernetes client and controller runtime, beside client-go on the same server.

python -m bench.kube [--pods N] [--updates N] [--creates N] [--only canned,server,creates,queue,idle]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import uvloop
from aiohttp import web
from tests import control_plane

from bench import Figures
from bench.follow.pods import NAMESPACE, event, pod, pod_to_create
from kuberay.api.core import Pod
from kuberay.kube import request
from kuberay.kube.client import Client
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import load
from kuberay.kube.metrics import Metrics, QueueMetrics
from kuberay.kube.queue import Queue
from kuberay.kube.resources import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

GO = Path(__file__).parent / "go"
IN_FLIGHT = 16
PARTS = ("queue", "idle", "canned", "server", "creates")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--updates", type=int, default=20000)
    parser.add_argument("--creates", type=int, default=1001)
    parser.add_argument("--rounds", type=int, default=5, help="how often creates are measured")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    figures = Figures("Kubernetes client and controller runtime")
    if "queue" in parts:
        measure_queue(figures)
    if "idle" in parts:
        idle = orjson.loads(child("nowhere"))
        figures.add("idle process, caches empty", idle["rss"], "MB", limit=50)
    if "canned" in parts:
        uvloop.run(measure_canned(figures, arguments.pods, arguments.updates))
    if "server" in parts or "creates" in parts:
        measure_on_server(figures, parts, arguments)
    return figures.finish()


# The queue.


def measure_queue(figures: Figures) -> None:
    async def run(queue: Queue[int], count: int = 20_000) -> float:
        began = time.process_time()
        for key in range(count):
            queue.add(key)
            queue.add(key)
        for _ in range(count):
            queue.done(await queue.get())
        return (time.process_time() - began) / count * 1e6

    plain = min(uvloop.run(run(Queue())) for _ in range(5))
    measured = min(uvloop.run(run(Queue(metrics=QueueMetrics(Metrics(), "bench")))) for _ in range(3))
    figures.add("queue: two adds, get, done", plain, "us", limit=5, compared=f"with metrics {measured:.1f} us")


# The informer, in a process of its own.


def child(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.follow", *arguments]
    return last_line(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)


def last_line(output: str) -> str:
    """The figures: what comes before is the log."""
    return output.splitlines()[-1]


async def measure_canned(figures: Figures, pods: int, updates: int) -> None:
    """From a server that has all its text ready: nothing but the client is measured."""
    initial = [event("ADDED", pod(number, version=number + 1)) for number in range(pods)]
    end = {"metadata": {"resourceVersion": str(pods), "annotations": {"k8s.io/initial-events-end": "true"}}}
    changes = [
        event("MODIFIED", pod(number % pods, version=pods + number + 1, restarts=1)) for number in range(updates)
    ]

    last = pod(pods, version=pods + updates + 1)
    last["metadata"]["name"] = "end"

    async def watch(asked: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(asked)
        await send(answer, [*initial, event("BOOKMARK", end)])
        await asyncio.sleep(0.5)
        await send(answer, [*changes, event("ADDED", last)])
        await asyncio.sleep(600)
        return answer

    async with serving(watch) as url:
        runs = [orjson.loads(await asyncio.to_thread(child, url)) for _ in range(3)]
    measured = min(runs, key=lambda each: each["us"])  # what the program itself needs
    note(figures, "canned stream", measured, "")


async def send(answer: web.StreamResponse, lines: list[bytes]) -> None:
    for start in range(0, len(lines), 20):
        await answer.write(b"".join(lines[start : start + 20]))


@contextlib.asynccontextmanager
async def serving(handler: Any) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def note(figures: Figures, source: str, measured: dict[str, float], rival: str) -> None:
    compared = (
        f"{measured['pods']} Pods, {measured['synced']:.0f} MB after the list ({measured['list']:.2f} s CPU), "
        f"{measured['events']} changes"
    )
    figures.add(f"informer, {source}: memory", measured["rss"], "MB", limit=80, compared=compared)
    figures.add(f"informer, {source}: CPU an event", measured["us"], "us", limit=40, compared=rival)


# On a real kube-apiserver.


def measure_on_server(figures: Figures, parts: list[str], arguments: argparse.Namespace) -> None:
    try:
        control_plane.programs()
    except control_plane.ProgramsMissing as missing:
        print(f"  left out, real kube-apiserver: {missing}")
        return
    go = build_go()
    # A server of its own for each: one that has just made thousands of changes is slower for who comes next.
    if "creates" in parts:
        with serving_kubernetes() as kubeconfig:
            measure_creates(figures, kubeconfig, go, arguments.creates, arguments.rounds)
    if "server" in parts:
        with serving_kubernetes() as kubeconfig:
            measure_informers(figures, kubeconfig, go, arguments.pods, arguments.updates)


@contextlib.contextmanager
def serving_kubernetes() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="kuberay-bench-") as folder,
        control_plane.control_plane(Path(folder)) as plane,
    ):
        uvloop.run(prepare(str(plane.kubeconfig)))
        yield str(plane.kubeconfig)


async def prepare(kubeconfig: str) -> None:
    async with connected(kubeconfig) as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


@contextlib.asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load(kubeconfig)))
    try:
        yield client
    finally:
        await client.close()


def measure_creates(figures: Figures, kubeconfig: str, go: Path | None, count: int, rounds: int) -> None:
    ours, theirs = [], []
    uvloop.run(create(kubeconfig, "warm", count // 2))
    for number in range(rounds):  # alternating, so that a busy machine slows both
        ours.append(uvloop.run(create(kubeconfig, f"ours-{number}", count)))
        if go is not None:
            arguments = ("creates", kubeconfig, f"theirs-{number}", str(count), str(IN_FLIGHT))
            theirs.append(orjson.loads(run_go(go, *arguments)))
    rate = statistics.median(each["rate"] for each in ours)
    figures.add(f"creates, {IN_FLIGHT} in flight", rate, "/s", compared=f"median of {rounds} rounds of {count} Pods")
    other_cost = f"client-go {min(each['us'] for each in theirs):.0f} us" if theirs else ""
    figures.add("CPU a create", min(each["us"] for each in ours), "us", compared=other_cost)
    if theirs:
        other = statistics.median(each["rate"] for each in theirs)
        compared = f"client-go {other:.0f}/s, median of {rounds} alternating rounds"
        figures.add("client-go's rate over ours", other / rate, "x", limit=1 / 0.9, compared=compared)


async def create(kubeconfig: str, prefix: str, count: int, *, settings: int = 27) -> dict[str, float]:
    async with connected(kubeconfig) as client:
        names = iter(range(count))

        async def work() -> None:
            for number in names:
                await client.create(
                    PODS, orjson.dumps(pod_to_create(f"{prefix}-{number}", settings)), namespace=NAMESPACE, type=Pod
                )

        began, used = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
        return {
            "rate": count / (time.perf_counter() - began),
            "us": (time.process_time() - used) / count * 1e6,
        }


def measure_informers(figures: Figures, kubeconfig: str, go: Path | None, pods: int, updates: int) -> None:
    """Twice: with changes as they happen, and with all of them waiting, as after a pause or for a busy cluster.

    In the first case most of the time goes into waking up for one event, in any language.
    """
    # Small ones: what the server adds makes them 6 kB.
    uvloop.run(create(kubeconfig, "p", pods, settings=9))
    print(f"  a Pod as the server shows it: {uvloop.run(size(kubeconfig)) / 1000:.1f} kB")
    followers = {"ours": [sys.executable, "-m", "bench.follow", kubeconfig]}
    if go is not None:
        followers |= {f"client-go, {form}": [str(go), "informer", kubeconfig, form] for form in ("protobuf", "json")}
    live = followed(followers, kubeconfig, pods, updates // 10, is_paused=False)
    burst = followed(followers, kubeconfig, pods, updates, is_paused=True)
    note(figures, "kube-apiserver", burst.pop("ours"), "; ".join(map(told, burst.items())))
    alone = live.pop("ours")["us"]
    figures.add("the same, one by one", alone, "us", compared="; ".join(map(told, live.items())))
    if live:
        best = min(each["us"] for each in live.values())
        figures.add("one by one, over client-go at its best", alone / best, "x", limit=1.0)


def told(rival: tuple[str, dict[str, float]]) -> str:
    name, figures = rival
    return f"{name}: {figures['us']:.0f} us, {figures['rss']:.0f} MB"


def followed(
    followers: dict[str, list[str]], kubeconfig: str, pods: int, updates: int, *, is_paused: bool
) -> dict[str, dict[str, float]]:
    """What each follower measured while so many updates were made."""
    found = {}
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(subprocess_of(command)) for name, command in followers.items()}
        for process in running.values():
            wait_until_synced(process)
            if is_paused:
                process.send_signal(signal.SIGSTOP)
        uvloop.run(update(kubeconfig, pods, updates))
        for name, process in running.items():  # one after the other, so that they do not disturb each other
            process.send_signal(signal.SIGCONT)
            found[name] = orjson.loads(last_line(process.communicate(timeout=300)[0]))
    uvloop.run(remove_end(kubeconfig))
    return found


def wait_until_synced(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if "synced" in line:
            return
    raise RuntimeError(f"{process.args!r} ended before it was synced")


@contextlib.contextmanager
def subprocess_of(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def update(kubeconfig: str, pods: int, updates: int) -> None:
    async with connected(kubeconfig) as client:
        numbers = iter(range(updates))

        async def work() -> None:
            for number in numbers:
                patch = b'{"metadata":{"annotations":{"changed":"%d-of-%d"}}}' % (number, updates)
                await client.patch(PODS, f"p-{number % pods}", patch, namespace=NAMESPACE, type=Pod)

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
        await client.create(PODS, pod_to_create("end"), namespace=NAMESPACE)


async def size(kubeconfig: str) -> int:
    async with connected(kubeconfig) as client:
        return len(await client.send(request.get(PODS, "p-0", namespace=NAMESPACE)))


async def remove_end(kubeconfig: str) -> None:
    async with connected(kubeconfig) as client:
        await client.delete(PODS, "end", namespace=NAMESPACE, grace_period_seconds=0)


def build_go() -> Path | None:
    """The program to compare with; `None` when there is no Go here."""
    if shutil.which("go") is None:
        print("  left out, comparison with client-go: there is no Go here")
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kuberay" / "bench-client-go"
    subprocess.run(["go", "build", "-o", str(cache), "."], cwd=GO, check=True, timeout=600)
    return cache


def run_go(go: Path, *arguments: str) -> str:
    return subprocess.run([str(go), *arguments], check=True, capture_output=True, text=True, timeout=300).stdout


if __name__ == "__main__":
    raise SystemExit(main())
