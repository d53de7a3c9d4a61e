"""Watches: what a client is told, and when."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from kuberay.engine.apiserver import MemoryStorage, watch
from kuberay.kube.transport import Request
from tests.engine.apiserver.api import CONFIG_MAPS, PODS, TABLE, Api, Clock, binding, config_map, pod
from tests.kube.virtual_time import virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Watcher:
    """Reads the events of a watch one at a time."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = []

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(1000):
            while not self._lines:
                self._lines = (await anext(self._chunks)).splitlines()
        found: dict[str, Any] = orjson.loads(self._lines.pop(0))
        return found

    async def told(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def ends(self) -> bool:
        async with asyncio.timeout(1000):
            return not self._lines and await anext(self._chunks, None) is None


@contextlib.asynccontextmanager
async def watching(api: Api, path: str, accept: str = "", **query: Any) -> AsyncIterator[Watcher]:
    parameters = (("watch", "true"), *((name, str(value)) for name, value in query.items()))
    request = Request("GET", path, parameters, {"accept": accept} if accept else {})
    async with api.transport.stream(request) as stream:
        assert stream.status == 200
        yield Watcher(stream.chunks())


class TestAWatch:
    async def test_tells_every_change_after_its_version_in_order(self, api: Api) -> None:
        first = await api.create(CONFIG_MAPS, config_map("a"))
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
        async with watching(api, CONFIG_MAPS, resourceVersion=first.meta["resourceVersion"]) as watcher:
            await api.create(CONFIG_MAPS, config_map("b"))
            await api.delete(f"{CONFIG_MAPS}/a")
            assert await watcher.told(3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]

    async def test_without_a_version_begins_with_what_exists(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        for version in ("", "0"):
            async with watching(api, CONFIG_MAPS, resourceVersion=version) as watcher:
                assert await watcher.told(1) == [("ADDED", "a")]

    async def test_tells_of_one_namespace_only(self, api: Api) -> None:
        async with watching(api, CONFIG_MAPS) as watcher:
            await api.create("/api/v1/namespaces/kube-system/configmaps", config_map("other"))
            await api.create(CONFIG_MAPS, config_map("ours"))
            assert await watcher.told(1) == [("ADDED", "ours")]

    async def test_of_one_object_tells_of_it_alone(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        async with watching(api, f"{CONFIG_MAPS}/a") as watcher:
            await api.create(CONFIG_MAPS, config_map("b"))
            await api.delete(f"{CONFIG_MAPS}/a")
            assert await watcher.told(2) == [("ADDED", "a"), ("DELETED", "a")]

    async def test_a_deleted_object_carries_the_version_of_its_deletion(self, api: Api) -> None:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        async with watching(api, CONFIG_MAPS, resourceVersion=created.meta["resourceVersion"]) as watcher:
            await api.delete(f"{CONFIG_MAPS}/a")
            event = await watcher.next()
        assert int(event["object"]["metadata"]["resourceVersion"]) == int(created.meta["resourceVersion"]) + 1


class TestSelectors:
    async def test_an_object_that_enters_the_selection_is_added_and_one_that_leaves_is_deleted(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        async with watching(api, CONFIG_MAPS, labelSelector="on=yes") as watcher:
            await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "yes"}}})
            await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
            left = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "no"}}})
            assert await watcher.told(2) == [("ADDED", "a"), ("MODIFIED", "a")]
            event = await watcher.next()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["labels"] == {"on": "yes"}
        assert event["object"]["metadata"]["resourceVersion"] == left.meta["resourceVersion"]

    async def test_fields_select_too(self, api: Api) -> None:
        async with watching(api, PODS, fieldSelector="spec.nodeName=") as watcher:
            await api.create(PODS, pod("a"))
            await api.create(f"{PODS}/a/binding", binding("a"))
            assert await watcher.told(2) == [("ADDED", "a"), ("DELETED", "a")]


class TestStreamedLists:
    ASKED: ClassVar[dict[str, Any]] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }

    async def test_end_with_a_bookmark_that_says_so(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        async with watching(api, CONFIG_MAPS, **self.ASKED) as watcher:
            assert await watcher.told(1) == [("ADDED", "a")]
            bookmark = await watcher.next()
            assert bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert bookmark["object"]["metadata"]["resourceVersion"] == str(api.storage.version)
            await api.create(CONFIG_MAPS, config_map("b"))
            assert await watcher.told(1) == [("ADDED", "b")]

    async def test_of_nothing_end_at_once(self, api: Api) -> None:
        async with watching(api, CONFIG_MAPS, **self.ASKED) as watcher:
            assert (await watcher.next())["type"] == "BOOKMARK"

    async def test_need_a_rule_for_the_version(self, api: Api) -> None:
        refused = await api.get(CONFIG_MAPS, watch="true", sendInitialEvents="true")
        assert (refused.status, refused.reason) == (422, "Invalid")

    async def test_can_be_declined(self, api: Api) -> None:
        await api.create(CONFIG_MAPS, config_map("a"))
        asked = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
        async with watching(api, CONFIG_MAPS, **asked) as watcher:
            await api.create(CONFIG_MAPS, config_map("b"))
            assert await watcher.told(1) == [("ADDED", "b")]


class TestTime:
    @virtual_time
    async def test_a_bookmark_comes_every_minute(self) -> None:
        api = Api()
        async with watching(api, CONFIG_MAPS, allowWatchBookmarks="true") as watcher:
            loop = asyncio.get_running_loop()
            began = loop.time()
            first = await watcher.next()
            await api.create(PODS, pod("elsewhere"))
            second = await watcher.next()
            assert loop.time() - began == 2 * watch.BOOKMARK_SECONDS
        assert [event["type"] for event in (first, second)] == ["BOOKMARK", "BOOKMARK"]
        assert second["object"]["metadata"]["resourceVersion"] == str(api.storage.version)

    @virtual_time
    async def test_a_watch_ends_when_it_was_asked_to(self) -> None:
        async with watching(Api(), CONFIG_MAPS, timeoutSeconds=300) as watcher:
            began = asyncio.get_running_loop().time()
            assert await watcher.ends()
            assert asyncio.get_running_loop().time() - began == 300


class TestHistory:
    async def test_a_version_that_is_too_old_is_an_error_event(self) -> None:
        api = Api(storage=MemoryStorage(history=2))
        for number in range(10):
            await api.create(CONFIG_MAPS, config_map(f"a{number}"))
        async with watching(api, CONFIG_MAPS, resourceVersion=3) as watcher:
            event = await watcher.next()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert await watcher.ends()

    async def test_a_slow_reader_is_told_to_list_again_and_blocks_nobody(self) -> None:
        api = Api(storage=MemoryStorage(history=2))
        async with watching(api, CONFIG_MAPS) as watcher:
            await api.create(CONFIG_MAPS, config_map("a"))
            assert await watcher.told(1) == [("ADDED", "a")]
            for number in range(10):
                await api.create(CONFIG_MAPS, config_map(f"b{number}"))
            assert (await watcher.next())["type"] == "ERROR"

    async def test_no_event_is_lost_under_many_changes(self, api: Api) -> None:
        count = 3000
        async with watching(api, CONFIG_MAPS) as watcher:

            async def change() -> None:
                await api.create(CONFIG_MAPS, config_map("a"))
                for number in range(count - 1):
                    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"n": str(number)}})
                    if number % 100 == 0:
                        await asyncio.sleep(0)

            changing = asyncio.create_task(change())
            versions = [int((await watcher.next())["object"]["metadata"]["resourceVersion"]) for _ in range(count)]
            await changing
        assert versions == list(range(versions[0], versions[0] + count))


class TestForms:
    async def test_a_table_names_its_columns_once(self, api: Api) -> None:
        async with watching(api, CONFIG_MAPS, accept=TABLE) as watcher:
            await api.create(CONFIG_MAPS, config_map("a"))
            await api.create(CONFIG_MAPS, config_map("b"))
            first, second = [(await watcher.next())["object"] for _ in range(2)]
        assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["columnDefinitions"] is None
        assert [table["rows"][0]["cells"] for table in (first, second)] == [["a", "0", "0s"], ["b", "0", "0s"]]

    async def test_events_are_told_in_the_shape_that_is_watched(self) -> None:
        api = Api(clock=Clock())
        async with watching(api, "/apis/events.k8s.io/v1/events") as watcher:
            about = {"kind": "Pod", "name": "p", "namespace": "default"}
            await api.create(
                "/api/v1/namespaces/default/events",
                {"metadata": {"name": "e"}, "involvedObject": about, "message": "hi"},
            )
            told = (await watcher.next())["object"]
        assert (told["apiVersion"], told["note"], told["regarding"]) == ("events.k8s.io/v1", "hi", about)
