"""Time, randomness and spawning come in: a simulator that owns the event loop and a seed owns all that happens."""

from __future__ import annotations

import ast
import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kuberay import kube
from kuberay.kube.client import Client, Retry
from kuberay.kube.controller import Controller, Result, itself
from kuberay.kube.errors import TransportError
from kuberay.kube.informer import Informer
from kuberay.kube.manager import Manager
from kuberay.kube.queue import Queue
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scene import Pod
from tests.kube.test_informer_model import FAULTS, ModelServer
from tests.kube.virtual_time import VirtualLoop, clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.kube.identity import Key

MODULES = sorted(Path(str(kube.__file__)).parent.glob("*.py"))
SOURCES = ("time", "random", "secrets", "uuid", "threading")
SPAWNING = ("create_task", "ensure_future", "run_coroutine_threadsafe", "to_thread", "Thread")
TAKES = {
    "exec_plugin": {"asyncio.create_task"},  # a program that is being started is waited for, to be stopped
    "leadership": {"threading.Thread", "threading.Event", "asyncio.to_thread"},  # a thread is what it is for
    "metrics": {"asyncio.to_thread"},  # text is made off the loop
    "probes": {"asyncio.create_task"},  # conversations, cancelled and waited for at the end
    "webhook": {"asyncio.create_task"},  # and cancelled and waited for by who made it
}
"""What modules take from the world, and why; everything else comes in as an argument."""


def taken(module: Path) -> Iterator[str]:
    """Clocks, randomness and tasks that a module helps itself to, other than as the default of an argument."""
    tree = ast.parse(module.read_text())
    offered: set[int] = set()
    for node in ast.walk(tree):
        defaults: list[Any] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
        elif isinstance(node, ast.ClassDef):
            defaults = [each.value for each in node.body if isinstance(each, ast.AnnAssign)]
        offered |= {id(part) for default in defaults if default is not None for part in ast.walk(default)}
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or id(node) in offered:
            continue
        name = f"{node.value.id}.{node.attr}"
        is_turn = id(node) in calls and [ast.unparse(each) for each in calls[id(node)].args] == ["0"]
        if (
            node.value.id in SOURCES
            or name in ("datetime.now", "datetime.utcnow", "os.urandom")
            or (node.value.id == "asyncio" and node.attr in SPAWNING)
            or (name == "asyncio.sleep" and not is_turn)
        ):
            yield name


@pytest.mark.parametrize("module", MODULES, ids=lambda each: each.stem)
def test_no_module_hides_a_clock_a_random_source_or_a_task(module: Path) -> None:
    assert set(taken(module)) == TAKES.get(module.stem, set())


async def lived(seed: int) -> list[tuple[float, str]]:
    """What an operator asked of a troubled server and what it reconciled, and when."""
    rng = random.Random(seed)
    server = ModelServer(streams=True)
    trace: list[tuple[float, str]] = []
    send, stream = server.send, server.stream

    async def note_send(request: Any, *, timeout: float | None = None) -> Any:
        trace.append((clock(), f"list {request.query}"))
        return await send(request, timeout=timeout)

    def note_stream(request: Any) -> Any:
        trace.append((clock(), f"watch {request.query}"))
        return stream(request)

    server.send, server.stream = note_send, note_stream  # type: ignore[method-assign]

    async def reconcile(key: Key) -> Result:
        trace.append((clock(), f"reconcile {key}"))
        await asyncio.sleep(rng.random())
        if rng.random() < 0.3:
            raise TransportError("no")
        return Result(requeue_after=10 * rng.random())

    store: Store[Pod] = Store()
    client = Client(server, retry=Retry(rng=rng.random))
    informer = Informer(client, PODS, store, type=Pod, clock=clock, rng=rng.random)
    controller: Controller[Key] = Controller("c", Queue(clock=clock), reconcile, workers=3, clock=clock, rng=rng.random)
    controller.watches(store, itself)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(Manager([informer], [controller]).run(stop))
        for number in range(50):
            await asyncio.sleep(3 * rng.random())
            server.put(rng.choice("abc"), number)
            server.faults += rng.choices(FAULTS, k=rng.randint(0, 2))
            if rng.random() < 0.2:
                server.forget()
                server.restart()
        stop.set()
    return trace


def life(seed: int) -> list[tuple[float, str]]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(lived(seed))


def test_the_same_seed_lives_the_same_life() -> None:
    once = life(7)
    assert life(7) == once
    assert len([what for _, what in once if what.startswith("reconcile")]) > 20
    assert life(8) != once
