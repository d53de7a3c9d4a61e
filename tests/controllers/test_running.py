"""The life that all controllers share: caches that fill, workers that several namespaces have in common."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kuberay.controllers.running import Crew, RayController
from kuberay.kube.controller import itself
from kuberay.kube.errors import TransportError
from kuberay.kube.informer import Informer, Timing
from kuberay.kube.recorder import Recorder
from kuberay.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICES
from kuberay.kube.store import Store
from tests.controllers.embedded import embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.controllers.running import Turn
    from kuberay.kube.client import Client
    from kuberay.kube.controller import Controller
    from kuberay.kube.identity import Key
    from kuberay.kube.transport import Request

SOON = Timing(first_wait=0.001, longest_wait=0.001)


class Journal:
    """Who worked on what, and how many at a time."""

    def __init__(self) -> None:
        self.entries: list[tuple[str | None, str]] = []
        self.most = 0
        self._now = 0
        self._grown = asyncio.Condition()

    async def work(self, who: str | None, key: Key) -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        async with self._grown:
            self.entries.append((who, str(key)))
            self._grown.notify_all()

    async def holds(self, count: int) -> None:
        """Wait until there are so many entries."""
        async with asyncio.timeout(20), self._grown:
            await self._grown.wait_for(lambda: len(self.entries) >= count)


class Caretaker(RayController):
    """Looks at ConfigMaps; knows of Services and Secrets, if it can."""

    def __init__(self, client: Client, journal: Journal, namespace: str | None = None) -> None:
        self._journal = journal
        self._maps: Store[Any] = Store()
        self.secrets: Store[Any] = Store()
        self.knew_secrets: list[bool] = []
        """Whether it knew of them, pass by pass."""
        super().__init__(
            Recorder(client, "test"),
            [Informer(client, CONFIG_MAPS, self._maps, namespace=namespace, timing=SOON)],
            extras=[
                Informer(client, SERVICES, Store(), namespace=namespace, timing=SOON),
                Informer(client, SECRETS, self.secrets, namespace=namespace, timing=SOON),
            ],
            namespace=namespace,
        )

    async def reconcile(self, key: Key) -> None:
        self.knew_secrets.append(self.secrets.is_synced)
        await self._journal.work(self.namespace, key)

    def watch(self, loop: Controller[Key]) -> None:
        loop.watches(self._maps, itself)


class Faulty:
    """Lets lists fail by the end of their path."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def __call__(self, request: Request) -> Exception | None:
        return TransportError("refused") if request.path.endswith(self.paths) else None


async def world(*names: str, faulty: Faulty | None = None) -> Client:
    """A client of a server that has these ConfigMaps."""
    client, meddler = await embedded()
    client.streamed_lists = False
    for namespace in {each.partition("/")[0] for each in names} - {"default"}:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for each in names:
        namespace, _, name = each.partition("/")
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace=namespace)
    if faulty is not None:
        meddler.before = faulty
    return client


@asynccontextmanager
async def at_work(crew: Crew, turn: Turn | None = None) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(crew.run(stop, turn=turn))
    yield
    stop.set()
    await running


class TestSeveralNamespaces:
    async def test_they_share_the_workers_and_each_key_goes_to_its_own(self) -> None:
        client, journal = await world("a/x", "a/y", "b/x", "b/y", "c/x"), Journal()
        crew = Crew("test", [Caretaker(client, journal, each) for each in ("a", "b")], workers=1)
        async with at_work(crew):
            await journal.holds(4)
        assert sorted(journal.entries) == [("a", "a/x"), ("a", "a/y"), ("b", "b/x"), ("b", "b/y")]
        assert journal.most == 1

    async def test_one_for_all_gets_every_key(self) -> None:
        client, journal = await world("a/x", "b/x"), Journal()
        async with at_work(Crew("test", [Caretaker(client, journal)], workers=2)):
            await journal.holds(2)
        assert sorted(journal.entries) == [(None, "a/x"), (None, "b/x")]

    async def test_one_whose_caches_cannot_be_filled_holds_up_no_other(self) -> None:
        client, journal = await world("a/x", "b/x", faulty=Faulty("/namespaces/a/configmaps")), Journal()
        crew = Crew("test", [Caretaker(client, journal, each) for each in ("a", "b")], workers=1)
        async with at_work(crew):
            await journal.holds(1)
            assert not crew.is_synced
            assert [problem for problem in crew.problems if "in namespace a: refused" in problem] == crew.problems != []
        assert journal.entries == [("b", "b/x")]


class TestWhatCanBeDoneWithout:
    async def test_it_holds_nothing_up_and_when_it_is_there_everything_is_looked_at_again(self) -> None:
        faulty = Faulty("/secrets")
        client, journal = await world("default/x", faulty=faulty), Journal()
        caretaker = Caretaker(client, journal)
        crew = Crew("test", [caretaker], workers=1)
        async with at_work(crew):
            await journal.holds(1)
            assert crew.is_synced
            assert crew.problems == []
            faulty.paths = ()
            await journal.holds(2)
        assert caretaker.knew_secrets == [False, True]

    async def test_it_does_not_wait_for_another_that_stays_away(self) -> None:
        faulty = Faulty("/secrets", "/services")
        client, journal = await world("default/x", faulty=faulty), Journal()
        caretaker = Caretaker(client, journal)
        async with at_work(Crew("test", [caretaker], workers=1)):
            await journal.holds(1)
            faulty.paths = ("/services",)
            await journal.holds(2)
        assert caretaker.knew_secrets == [False, True]

    async def test_it_holds_nothing_up_either_when_it_is_lost_before_the_turn_has_come(self) -> None:
        faulty = Faulty()
        client, journal = await world("default/x", faulty=faulty), Journal()
        caretaker = Caretaker(client, journal)
        crew = Crew("test", [caretaker], workers=1)

        async def turn() -> str:
            faulty.paths = ("/secrets",)
            made = await client.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, namespace="default")
            return str(made["metadata"]["resourceVersion"])

        async with at_work(crew, turn):
            await journal.holds(2)
        assert sorted(journal.entries) == [(None, "default/later"), (None, "default/x")]

    async def test_what_is_there_at_once_is_waited_for(self) -> None:
        client, journal = await world("default/x"), Journal()
        caretaker = Caretaker(client, journal)
        async with at_work(Crew("test", [caretaker], workers=1)):
            await journal.holds(1)
        assert caretaker.knew_secrets == [True]
