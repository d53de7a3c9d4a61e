from __future__ import annotations

import asyncio

import pytest

from kuberay.kube.informer import Informer
from kuberay.kube.resources import PODS
from kuberay.kube.store import Store
from tests.kube.scene import AHEAD, EXPIRED, Pod, Scene, bookmark, end_of_list, event, forever, listed, pod
from tests.kube.scripted import BROKEN, Answer, refused
from tests.kube.virtual_time import clock, virtual_time


class TestStreamedLists:
    @virtual_time
    async def test_one_watch_brings_the_list_and_what_comes_after(self) -> None:
        parts: list[bytes | Exception | asyncio.Event] = [
            event("ADDED", pod("a", 1)),
            end_of_list(10) + event("ADDED", pod("b", 11)),
            forever(),
        ]
        scene = Scene(Answer(body=parts), streamed=True)
        await scene.run(1)
        assert scene.asked == ["stream"]
        assert scene.names == ["a", "b"]
        assert scene.store.resource_version == "11"

    @virtual_time
    async def test_nothing_is_shown_before_the_list_is_whole(self) -> None:
        go_on = asyncio.Event()
        parts: list[bytes | Exception | asyncio.Event] = [
            event("ADDED", pod("a", 1)),
            event("ADDED", pod("b", 2)),
            go_on,
            end_of_list(10),
            forever(),
        ]
        scene = Scene(Answer(body=parts), streamed=True)
        async with scene.running():
            await asyncio.sleep(1)
            assert (scene.names, scene.store.is_synced) == ([], False)
            go_on.set()
            await scene.informer.synced()
            assert scene.names == ["a", "b"]

    @virtual_time
    async def test_changes_within_the_list_count(self) -> None:
        parts = event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + bookmark(3)
        parts += event("MODIFIED", pod("a", 4)) + event("DELETED", pod("b", 5)) + end_of_list(10)
        scene = Scene(Answer(body=[parts, forever()]), streamed=True)
        await scene.run(1)
        assert scene.changes == [(None, "4")]

    @virtual_time
    async def test_after_a_forgotten_version_the_list_is_streamed_again_and_departures_are_told(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("a", 1)) + event("ADDED", pod("b", 2)) + end_of_list(10), EXPIRED]),
            Answer(body=[event("ADDED", pod("a", 25)) + end_of_list(30), forever()]),
            streamed=True,
        )
        await scene.run(1)
        assert scene.asked == ["stream", "stream 10"]
        assert scene.changes == [(None, "1"), (None, "2"), ("2", None), ("1", "25")]

    @pytest.mark.parametrize("no", [refused(410, "Expired"), AHEAD])
    def test_a_stream_at_what_is_known_that_cannot_be_had_is_a_list_of_what_is_newest(self, no: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(Answer(body=[end_of_list(10), EXPIRED]), no, listed(30), streamed=True)
            await scene.run(5)
            assert scene.asked == ["stream", "stream 10", "list", "watch 30"]

        scenario()

    @virtual_time
    async def test_a_broken_watch_after_it_is_taken_up_without_a_list(self) -> None:
        scene = Scene(Answer(body=[end_of_list(10), bookmark(12), BROKEN]), streamed=True)
        await scene.run(2)
        assert scene.asked == ["stream", "watch 12"]

    @pytest.mark.parametrize(
        "no", [refused(422, "Invalid"), refused(400, "BadRequest"), refused(405, "MethodNotAllowed")]
    )
    def test_a_server_that_has_none_is_asked_for_pages_at_once_and_ever_after(self, no: Answer) -> None:
        @virtual_time
        async def scenario() -> None:
            scene = Scene(no, listed(10, pod("a", 1)), Answer(body=[EXPIRED]), listed(20), streamed=True)
            await scene.run(1)
            assert scene.asked == ["stream", "list", "watch 10", "list 10", "watch 20"]
            assert scene.times[1] == 0

        scenario()

    @virtual_time
    async def test_what_one_informer_learns_of_the_server_all_of_its_client_know(self) -> None:
        scene = Scene(refused(422, "Invalid"), listed(10), streamed=True)
        await scene.run(1)
        other = Informer(scene.informer._client, PODS, Store[Pod](), type=Pod, clock=clock, rng=lambda: 1.0)
        task = asyncio.create_task(other.run())
        await asyncio.sleep(1)
        task.cancel()
        assert scene.asked[3:] == ["list"]

    @virtual_time
    async def test_a_server_that_never_ends_the_list_is_not_waited_for(self) -> None:
        scene = Scene(Answer(body=[event("ADDED", pod("a", 1)), forever()]), listed(10, pod("a", 1)), streamed=True)
        await scene.run(30)
        assert scene.asked == ["stream", "list", "watch 10"]
        assert scene.times[1] == pytest.approx(10)

    @virtual_time
    async def test_silence_after_the_list_is_ordinary(self) -> None:
        scene = Scene(Answer(body=[end_of_list(10), forever()]), streamed=True)
        await scene.run(75)
        assert scene.asked == ["stream", "watch 10"]
        assert scene.times[1] == pytest.approx(70)

    @virtual_time
    async def test_a_stream_that_breaks_before_its_end_shows_nothing_and_pages_come_next(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("gone", 1)), BROKEN]),
            listed(10, pod("a", 1)),
            Answer(body=[EXPIRED]),
            Answer(body=[end_of_list(20), forever()]),
            streamed=True,
        )
        await scene.run(5)
        assert scene.asked == ["stream", "list", "watch 10", "stream 10"]
        assert scene.changes == [(None, "1"), ("1", None)]

    @virtual_time
    async def test_a_server_that_is_not_there_yet_is_asked_for_a_stream_again(self) -> None:
        scene = Scene(BROKEN, BROKEN, Answer(body=[end_of_list(10), forever()]), streamed=True)
        await scene.run(5)
        assert scene.asked == ["stream", "stream", "stream"]

    @virtual_time
    async def test_a_stream_that_ends_before_its_end_is_a_failure(self) -> None:
        scene = Scene(Answer(body=[event("ADDED", pod("a", 1))]), listed(10), streamed=True)
        async with scene.running():
            await asyncio.sleep(0.1)
            assert "before the end of the list" in (scene.informer.problem or "")
            await scene.informer.synced()

    @virtual_time
    async def test_a_missing_right_is_named_as_it_is(self) -> None:
        scene = Scene(refused(403, "Forbidden"), refused(403, "Forbidden"), streamed=True)
        async with scene.running():
            await asyncio.sleep(0.1)
            assert scene.asked == ["stream", "list"]
            assert "the account needs the verb 'list'" in (scene.informer.problem or "")

    @virtual_time
    async def test_an_unreadable_object_stays_as_it_was_last_seen(self) -> None:
        scene = Scene(
            Answer(body=[event("ADDED", pod("a", 1)) + end_of_list(10), EXPIRED]),
            Answer(body=[event("ADDED", pod("a", 15, phase=7)) + end_of_list(20), forever()]),
            streamed=True,
        )
        await scene.run(1)
        assert scene.changes == [(None, "1")]

    @virtual_time
    async def test_a_server_that_asks_for_time_gets_it(self) -> None:
        scene = Scene(refused(429, "TooManyRequests", retry_after="7"), listed(10), streamed=True)
        await scene.run(10)
        assert scene.times[1] == pytest.approx(7)
