"""Operators that die at a certain write, heirs that go on, and a witness of all that happens meanwhile.

The write may still reach the server, as when a process is killed while it waits for the answer, or never leave the
process. From then on the dead one is heard no more; the heir starts with empty caches.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kuberay.api.core import Pod
from kuberay.api.partial import PartialObject
from kuberay.api.v1 import RayCluster
from kuberay.controllers.kinds import RAY_CLUSTERS
from kuberay.kube.client import Client
from kuberay.kube.errors import TransportError
from kuberay.kube.informer import Informer
from kuberay.kube.resources import (
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kuberay.kube.store import Store
from kuberay.operator.main import run
from kuberay.operator.settings import Settings
from kuberay.sim.kubelet import Fate
from tests.controllers.embedded import Meddler
from tests.operator.world import OPTIONS, World, living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from kuberay.controllers.options import ControllerOptions
    from kuberay.kube.transport import Request, Transport

    Claim = Callable[[World, frozenset[str]], Awaitable[bool]]

AT_ONCE = 40
"""As many as keep one core busy; a real server needs the other one for itself, and then half of them do."""
PACE = 0.1
QUIET = 4
"""Looks, one every `PACE` seconds, in which nothing was written."""

_MADE = (
    *(PODS, SERVICES, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, SECRETS, JOBS),
    *(INGRESSES, NETWORK_POLICIES, PERSISTENT_VOLUME_CLAIMS),
)
_REPLICA = "ray.io/worker-group-replica-name"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that happens to a cluster, and how it ends.

    :param spec: the cluster that is there before; none if its coming is what happens.
    :param start: whether it is as it shall be before.
    :param end: whether it has ended; gets the uids of the Pods that were there before.
    :param hosts: of a replica. Its Pods start when all of them are there.
    """

    name: str
    change: Callable[[World], Awaitable[object]]
    end: Claim
    spec: dict[str, Any] | None = None
    start: Claim | None = None
    hosts: int = 1
    cleanup: Fate = Fate.SUCCEEDED
    options: ControllerOptions = OPTIONS


@dataclass(frozen=True, slots=True)
class Death:
    """At which write of a change an operator dies, and whether that write reaches the server."""

    write: int
    reaches: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a change went, in numbers that must not depend on who carried it out."""

    most_heads: int
    """At a time, those that were leaving included."""
    lost: int
    """Healthy Pods of before that went."""
    lost_new: int
    """Healthy Pods that came with the change, and went."""
    jobs: int
    """All that there ever were."""
    left: dict[str, int]
    """How many objects of each kind there are in the end."""
    finalizers: tuple[str, ...]
    state: str
    conditions: tuple[tuple[str, str], ...]
    writes: int = field(compare=False)
    """By the operator that was there first."""


class Mortal(Meddler):
    """A transport whose operator dies at a write. Events are not counted."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.count = 0
        self.died = asyncio.Event()
        self._death: Death | None = None
        self.before = self._goes
        self.after = self._arrives

    def doom(self, death: Death | None) -> None:
        """Count from here on; without a death it lives."""
        self.count = 0
        self._death = death

    def _goes(self, request: Request) -> Exception | None:
        if not self.died.is_set() and request.method != "GET" and "/events" not in request.path:
            self.count += 1
            if self._death == Death(self.count, reaches=False):
                self.died.set()
        return self._silence()

    def _arrives(self, _: Request) -> Exception | None:
        if self._death is not None and self._death.reaches and self.count >= self._death.write:
            self.died.set()
        return self._silence()

    def _silence(self) -> Exception | None:
        return TransportError("the operator is dead") if self.died.is_set() else None


class Witness:
    """Sees every Pod and Job of a namespace come and go."""

    def __init__(self, world: World, hosts: int) -> None:
        self._world = world
        self._hosts = hosts
        self._pods: Store[Pod] = Store()
        self._jobs: Store[PartialObject] = Store()
        self._heads: set[str] = set()
        self.most_heads = 0
        self.lost: set[str] = set()
        self.jobs: set[str] = set()
        self._pods.on_change(self._see_pod)
        self._jobs.on_change(self._see_job)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        client, namespace = self._world.client, self._world.namespace
        informers: tuple[Informer[Any], ...] = (
            Informer(client, PODS, self._pods, type=Pod, namespace=namespace),
            Informer(client, JOBS, self._jobs, type=PartialObject, namespace=namespace),
        )
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        for informer in informers:
            await informer.synced()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def is_whole(self, pod: Pod) -> bool:
        """Whether all hosts of a worker's replica are there."""
        name = pod.metadata.labels.get(_REPLICA, "")
        return not name or sum(each.metadata.labels.get(_REPLICA) == name for each in self._pods) >= self._hosts

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod, is_there in ((old, False), (new, True)):
            if pod is not None and pod.metadata.labels.get("ray.io/node-type") == "head":
                (self._heads.add if is_there else self._heads.discard)(pod.metadata.uid)
        self.most_heads = max(self.most_heads, len(self._heads))
        was_healthy = old is not None and old.is_ready and not old.is_leaving
        if old is not None and was_healthy and (new is None or new.is_leaving or new.metadata.uid != old.metadata.uid):
            self.lost.add(old.metadata.uid)
        if self._hosts > 1 and old is None:
            self._world.kubelet.look_again()

    def _see_job(self, _: PartialObject | None, new: PartialObject | None) -> None:
        if new is not None:
            self.jobs.add(new.metadata.uid)


@dataclass(frozen=True, slots=True)
class Played:
    """How a scenario went: when nobody died, and with every death that was tried. A text tells of trouble."""

    undisturbed: Outcome | str
    disturbed: dict[Death, Outcome | str]


async def played(client: Client, scenarios: Sequence[Scenario], *, few: bool) -> dict[str, Played]:
    """Play scenarios side by side, each as often as there are writes to die at; what came of them, by name.

    :param few: only at the first write, the last and one between them.
    """
    room = asyncio.Semaphore(AT_ONCE // 2 if few else AT_ONCE)

    async def attempt(scenario: Scenario, death: Death | None) -> Outcome | str:
        async with room:
            try:
                return await _outcome(client, scenario, death)
            except Exception as error:
                while isinstance(error, ExceptionGroup):
                    error = error.exceptions[0]
                return f"{type(error).__name__}: {error}"

    async def play(scenario: Scenario) -> Played:
        first = await attempt(scenario, None)
        if isinstance(first, str):
            return Played(first, {})
        points = _deaths(first.writes, few=few)
        found = await asyncio.gather(*(attempt(scenario, point) for point in points))
        return Played(first, dict(zip(points, found, strict=True)))

    names = [each.name for each in scenarios]
    return dict(zip(names, await asyncio.gather(*map(play, scenarios)), strict=True))


def _deaths(writes: int, *, few: bool) -> list[Death]:
    at = {1, (writes + 1) // 2, writes} if few else range(1, writes + 1)
    return [Death(each, reaches) for each in sorted(at) for reaches in ((True,) if few else (True, False))]


async def _outcome(client: Client, scenario: Scenario, death: Death | None) -> Outcome:
    """Play a scenario with an operator that dies, and an heir; without a death the first one finishes it."""
    async with living(client, pace=PACE) as world:
        witness = Witness(world, scenario.hosts)
        world.kubelet.fate = lambda pod: _fate(pod, scenario, witness)
        async with witness.watching():
            return await _played(world, witness, scenario, death)


async def _played(world: World, witness: Witness, scenario: Scenario, death: Death | None) -> Outcome:
    mortal = Mortal(world.client.transport)
    async with _operating(world, mortal, scenario.options):
        start = scenario.start
        if scenario.spec is not None and start is not None:
            await world.apply(**scenario.spec)
            await world.becomes(lambda: start(world, frozenset()))
            await _quiet(mortal)
        before = frozenset(pod.metadata.uid for pod in await world.pods())
        mortal.doom(death)
        await scenario.change(world)
        ending = asyncio.create_task(world.becomes(lambda: scenario.end(world, before)))
        dying = asyncio.create_task(mortal.died.wait())
        await asyncio.wait((ending, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if not mortal.died.is_set():
            await _quiet(mortal)
    if mortal.died.is_set():
        heir = Meddler(world.client.transport)
        async with _operating(world, heir, scenario.options):
            await ending
            await _quiet(heir)
    await ending
    return await _taken(world, witness, before, mortal.count)


@asynccontextmanager
async def _operating(world: World, transport: Meddler, options: ControllerOptions) -> AsyncIterator[None]:
    """An operator that is cut off in the end, wherever it is."""
    settings = Settings(health_address=None, watch_namespaces=(world.namespace,), controllers=options)
    working = asyncio.create_task(run(Client(transport), settings, stop=asyncio.Event()))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _quiet(transport: Meddler) -> None:
    """Wait until nothing is written any more."""
    count, looks = -1, 0
    async with asyncio.timeout(30):
        while looks < QUIET:
            await asyncio.sleep(PACE)
            looks = looks + 1 if count == len(transport.writes) else 0
            count = len(transport.writes)


async def _taken(world: World, witness: Witness, before: frozenset[str], writes: int) -> Outcome:
    left: Counter[str] = Counter()
    for kind in _MADE:
        found = await world.client.list(kind, namespace=world.namespace)
        left[kind.kind] = len([each for each in found.items if each["metadata"]["name"] != "default"])
    page = await world.client.list(RAY_CLUSTERS, namespace=world.namespace, type=RayCluster)
    rc = next(iter(page.items), RayCluster())
    left[RAY_CLUSTERS.kind] = len(page.items)
    return Outcome(
        most_heads=witness.most_heads,
        lost=len(witness.lost & before),
        lost_new=len(witness.lost - before),
        jobs=len(witness.jobs),
        left=dict(+left),
        finalizers=tuple(rc.metadata.finalizers),
        state=rc.status.state or "",
        conditions=tuple((each.type, each.status) for each in rc.status.conditions),
        writes=writes,
    )


def _fate(pod: Pod, scenario: Scenario, witness: Witness) -> Fate:
    if pod.metadata.labels.get("ray.io/node-type") == "redis-cleanup":
        return scenario.cleanup
    return Fate.RUNNING if scenario.hosts == 1 or witness.is_whole(pod) else Fate.PENDING
