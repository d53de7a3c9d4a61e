from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from kuberay.kube.identity import Key, version_order
from kuberay.kube.store import Store


class Meta(msgspec.Struct, frozen=True):
    name: str
    uid: str
    resource_version: str
    namespace: str | None = "n"
    deletion_timestamp: str | None = None
    labels: tuple[str, ...] = ()


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta


def thing(name: str, version: int, uid: str = "", *, leaving: bool = False, labels: tuple[str, ...] = ()) -> Thing:
    return Thing(
        Meta(name, uid or f"uid-{name}", str(version), deletion_timestamp="now" if leaving else None, labels=labels)
    )


def labels_of(obj: Thing) -> tuple[str, ...]:
    return obj.metadata.labels


def store_of(*things: Thing, version: int = 10) -> Store[Thing]:
    store: Store[Thing] = Store({"label": labels_of})
    store.replaced(things, str(version))
    return store


def names(store: Store[Thing]) -> set[str]:
    return {obj.metadata.name for obj in store}


class Changes:
    """Remembers what handlers are told."""

    def __init__(self, store: Store[Thing]) -> None:
        self.seen: list[tuple[str | None, str | None]] = []
        store.on_change(self)

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        self.seen.append((version_of(old), version_of(new)))


def version_of(obj: Thing | None) -> str | None:
    return None if obj is None else obj.metadata.resource_version


class TestReading:
    def test_objects_are_found_by_namespace_and_name(self) -> None:
        store = store_of(thing("a", 1))
        assert store.get("n", "a") == thing("a", 1)
        assert store.get("other", "a") is None
        assert (("n", "a") in store, len(store), list(store.keys())) == (True, 1, [Key("n", "a")])

    def test_dicts_are_kept_as_well_as_typed_objects(self) -> None:
        store: Store[dict[str, Any]] = Store()
        node = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "3"}}
        store.replaced([node], "3")
        assert store.get("", "x") is node

    def test_an_index_follows_every_change(self) -> None:
        store = store_of(thing("a", 1, labels=("x", "y")), thing("b", 2, labels=("y",)))
        store.applied(thing("a", 11, labels=("z",)))
        assert [store.by("label", value) for value in "xyz"] == [
            [],
            [thing("b", 2, labels=("y",))],
            [thing("a", 11, labels=("z",))],
        ]
        store.removed(thing("b", 12))
        assert store.by("label", "y") == []

    def test_an_index_that_does_not_exist_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            store_of().by("owner", "x")


class TestWhatTheWatchShows:
    def test_it_is_synced_with_the_first_list(self) -> None:
        store: Store[Thing] = Store()
        assert not store.is_synced
        assert not store.has_passed("1")
        store.replaced([], "5")
        assert store.is_synced

    @pytest.mark.parametrize(("version", "passed"), [("9", True), ("10", True), ("11", False), ("100", False)])
    def test_versions_compare_by_length_and_then_by_text(self, version: str, passed: bool) -> None:
        assert store_of(version=10).has_passed(version) is passed

    def test_a_bookmark_moves_the_version_without_an_object(self) -> None:
        store = store_of(version=10)
        store.passed("20")
        assert store.has_passed("20")

    def test_a_repeated_event_is_no_change(self) -> None:
        store = store_of()
        changes = Changes(store)
        store.applied(thing("a", 11))
        store.applied(thing("a", 11))
        assert changes.seen == [(None, "11")]

    def test_a_late_event_does_not_bring_back_what_is_gone(self) -> None:
        store = store_of(thing("a", 1))
        store.removed(thing("a", 12))
        store.applied(thing("a", 11))
        assert names(store) == set()

    def test_a_late_departure_does_not_remove_the_next_of_that_name(self) -> None:
        store = store_of(thing("a", 11, "new"), version=12)
        store.removed(thing("a", 5, "old"))
        assert names(store) == {"a"}

    def test_a_late_departure_does_not_remove_what_has_come_back(self) -> None:
        store = store_of(thing("a", 11), version=12)
        store.removed(thing("a", 5))
        store.applied(thing("a", 11))
        assert names(store) == {"a"}

    def test_what_could_not_be_read_departs_when_its_event_says(self) -> None:
        store = store_of(thing("a", 1), version=12)
        store.removed(thing("a", 1), "13")
        assert (names(store), store.resource_version) == (set(), "13")

    def test_a_list_tells_handlers_of_arrivals_changes_and_departures(self) -> None:
        store = store_of(thing("same", 1), thing("changed", 2), thing("gone", 3))
        changes = Changes(store)
        store.replaced([thing("same", 1), thing("changed", 12), thing("new", 13)], "15")
        assert sorted(changes.seen, key=str) == [("2", "12"), ("3", None), (None, "13")]

    def test_what_could_not_be_read_in_a_list_is_not_taken_for_gone(self) -> None:
        store = store_of(thing("a", 1), thing("b", 2))
        store.replaced([thing("a", 1)], "15", keep=[Key("n", "b")])
        assert names(store) == {"a", "b"}

    def test_a_failing_handler_does_not_keep_others_from_hearing(self) -> None:
        def fail(old: Thing | None, new: Thing | None) -> None:
            raise RuntimeError("bug")

        store = store_of()
        store.on_change(fail)
        changes = Changes(store)
        store.applied(thing("a", 11))
        assert changes.seen == [(None, "11")]


class TestReadingOurWrites:
    def test_what_we_wrote_shares_with_the_others_what_it_has_in_common_with_them(self) -> None:
        store: Store[Thing] = Store()
        store.replaced([], "1")
        for number in (2, 3):
            written = thing(f"t-{number}", number).metadata
            store.wrote(Thing(msgspec.structs.replace(written, namespace="".join(("sp", "ace")))))
        first, second = (each.metadata for each in store)
        assert first.namespace is second.namespace

    def test_a_created_object_is_there_at_once(self) -> None:
        store = store_of()
        changes = Changes(store)
        store.wrote(thing("a", 11, labels=("x",)))
        assert names(store) == {"a"}
        assert store.unconfirmed == 1
        store.applied(thing("a", 11, labels=("x",)))
        assert store.unconfirmed == 0
        assert changes.seen == [(None, "11")]

    def test_it_knows_what_we_wrote_by_its_version_until_the_watch_confirms_it(self) -> None:
        store = store_of(thing("a", 1))
        first, second = thing("a", 11), thing("b", 13)
        store.wrote(first)
        store.wrote(second)
        assert store.written(Key("n", "a"), "11") is first
        assert store.written(Key("n", "b"), "11") is None
        assert store.written(Key("n", "a"), "12") is None
        store.applied(thing("c", 12))
        assert store.written(Key("n", "a"), "11") is None
        assert store.written(Key("n", "b"), "13") is second

    def test_it_knows_an_earlier_write_no_more_than_one_that_was_deleted(self) -> None:
        store = store_of()
        store.wrote(thing("a", 11))
        store.wrote(thing("a", 12))
        store.wrote(thing("b", 13))
        store.deleted(thing("b", 13))
        assert store.written(Key("n", "a"), "11") is None
        assert store.written(Key("n", "a"), "12") is not None
        assert store.written(Key("n", "b"), "13") is None

    def test_an_event_from_before_the_write_does_not_undo_it(self) -> None:
        store = store_of(thing("a", 1))
        store.wrote(thing("a", 13))
        store.applied(thing("a", 12))
        assert store.get("n", "a") == thing("a", 13)
        store.applied(thing("a", 13))
        assert (store.get("n", "a"), store.unconfirmed) == (thing("a", 13), 0)

    def test_a_departure_from_before_the_write_does_not_undo_it(self) -> None:
        store = store_of(thing("a", 1))
        store.wrote(thing("a", 13))
        store.removed(thing("a", 12))
        assert names(store) == {"a"}
        store.deleted(thing("a", 13))
        store.applied(thing("a", 13))
        assert names(store) == set()
        store.removed(thing("a", 14))
        assert store.unconfirmed == 0

    def test_an_answer_slower_than_the_watch_is_old_news(self) -> None:
        store = store_of()
        store.applied(thing("a", 11))
        store.removed(thing("a", 12))
        store.wrote(thing("a", 11))
        assert names(store) == set()

    def test_answers_may_arrive_out_of_order(self) -> None:
        store = store_of(thing("a", 1))
        store.wrote(thing("a", 13))
        store.wrote(thing("a", 12))
        assert store.get("n", "a") == thing("a", 13)

    def test_a_write_that_the_watch_does_not_select_goes_when_it_is_passed(self) -> None:
        store = store_of()
        store.wrote(thing("a", 11))
        store.passed("10")
        assert names(store) == {"a"}
        store.applied(thing("b", 12))
        assert names(store) == {"b"}

    def test_a_deleted_object_is_hidden_until_its_event(self) -> None:
        store = store_of(thing("a", 1, labels=("x",)))
        store.deleted(thing("a", 1))
        assert (names(store), store.unconfirmed) == (set(), 1)
        store.applied(thing("a", 11, labels=("x",)))
        assert names(store) == set()
        store.removed(thing("a", 12))
        assert (names(store), store.unconfirmed) == (set(), 0)

    def test_a_deleted_object_that_takes_its_time_is_shown_again_as_leaving(self) -> None:
        store = store_of(thing("a", 1))
        store.deleted(thing("a", 1))
        store.applied(thing("a", 11, leaving=True))
        assert store.get("n", "a") == thing("a", 11, leaving=True)
        assert store.unconfirmed == 0

    def test_an_object_that_is_already_leaving_stays_visible(self) -> None:
        store = store_of(thing("a", 1, leaving=True))
        store.deleted(thing("a", 1, leaving=True))
        assert (names(store), store.unconfirmed) == ({"a"}, 0)

    def test_an_object_known_to_be_leaving_is_hidden_while_the_watch_does_not_know(self) -> None:
        store = store_of(thing("a", 1))
        store.deleted(thing("a", 11, leaving=True))
        assert names(store) == set()
        store.removed(thing("a", 12))
        assert store.unconfirmed == 0

    def test_a_deletion_confirmed_before_its_answer_leaves_nothing_behind(self) -> None:
        store = store_of(thing("a", 1))
        store.removed(thing("a", 11))
        store.deleted(thing("a", 1))
        assert store.unconfirmed == 0

    def test_an_object_made_and_deleted_before_the_watch_saw_it_never_shows(self) -> None:
        store = store_of()
        store.wrote(thing("a", 11))
        store.deleted(thing("a", 11))
        changes = Changes(store)
        store.applied(thing("a", 11))
        store.removed(thing("a", 12))
        assert (changes.seen, store.unconfirmed) == ([], 0)

    def test_a_new_object_of_the_same_name_is_not_hidden_by_the_old_one(self) -> None:
        store = store_of(thing("head", 1, "old"))
        store.deleted(thing("head", 1, "old"))
        store.wrote(thing("head", 13, "new"))
        store.applied(thing("head", 11, "old"))
        store.removed(thing("head", 12, "old"))
        assert store.get("n", "head") == thing("head", 13, "new")
        store.applied(thing("head", 13, "new"))
        assert (names(store), store.unconfirmed) == ({"head"}, 0)

    def test_one_that_was_there_before_a_deleted_one_is_not_shown_either(self) -> None:
        store = store_of()
        for version, uid in ((11, "first"), (13, "second")):
            made = thing("a", version, uid)
            store.wrote(made)
            store.deleted(made)
        store.applied(thing("a", 11, "first"))
        assert names(store) == set()
        store.removed(thing("a", 12, "first"))
        store.applied(thing("a", 13, "second"))
        assert names(store) == set()
        store.removed(thing("a", 14, "second"))
        assert store.unconfirmed == 0

    def test_a_list_older_than_a_deletion_says_nothing_about_it(self) -> None:
        store = store_of()
        made = thing("a", 13)
        store.wrote(made)
        store.deleted(made)
        store.replaced([], "12")
        store.applied(made)
        assert names(store) == set()
        store.removed(thing("a", 14))
        assert (names(store), store.unconfirmed) == (set(), 0)

    def test_a_departure_from_before_a_deletion_does_not_bring_it_back(self) -> None:
        store = store_of(thing("a", 11))
        store.deleted(thing("a", 15))
        store.removed(thing("a", 14))  # it left the selection, and came back, before we deleted it
        store.applied(thing("a", 15))
        assert names(store) == set()
        store.removed(thing("a", 16))
        assert (names(store), store.unconfirmed) == (set(), 0)

    def test_a_list_newer_than_a_write_confirms_it(self) -> None:
        store = store_of(thing("a", 1), thing("b", 2))
        store.wrote(thing("a", 12))
        store.deleted(thing("b", 2))
        store.replaced([thing("a", 12)], "14")
        assert (names(store), store.unconfirmed) == ({"a"}, 0)

    def test_a_server_put_back_in_time_ends_all_waiting(self) -> None:
        store = store_of(thing("a", 1), version=1000)
        store.wrote(thing("a", 1001))
        store.deleted(thing("a", 1001))
        store.replaced([thing("a", 7)], "500")
        assert (store.get("n", "a"), store.unconfirmed) == (thing("a", 7), 0)


@dataclass(frozen=True)
class Answered:
    """A write that the server has done and whose answer has not arrived yet."""

    obj: Thing
    deleted: bool = False


class AgainstAServer(RuleBasedStateMachine):
    """A server with history, a watch that lags and selects, answers that arrive when they like, and lists that skip
    events."""

    answers: Bundle[Answered] = Bundle("answers")

    def __init__(self) -> None:
        super().__init__()
        self.version = 10
        self.uids = 0
        self.objects: dict[str, Thing] = {}
        self.unselected: dict[str, Thing] = {}
        self.events: list[tuple[str, Thing]] = []
        self.delivered = 0
        self.store = store_of()
        self.mirror: dict[str, Thing] = {}
        self.hidden: set[str] = set()
        self.wrong: list[str] = []
        self.store.on_change(self.follow)

    def follow(self, old: Thing | None, new: Thing | None) -> None:
        """Not by assertions: what a handler raises is logged and no more."""
        name = (old or new).metadata.name  # type: ignore[union-attr]
        if self.mirror.get(name) != old:
            self.wrong.append(f"{name}: {old} was never told of")
        if new is None:
            self.mirror.pop(name, None)
            return
        if old is not None and old.metadata.uid == new.metadata.uid and not newer_or_same(new, old):
            self.wrong.append(f"{old} goes back to {new}")
        if new.metadata.uid in self.hidden and not new.metadata.deletion_timestamp:
            self.wrong.append(f"{new} was deleted")
        self.mirror[name] = new

    def change(self, kind: str, obj: Thing) -> Thing:
        self.version += 1
        obj = replace_version(obj, self.version)
        self.events.append((kind, obj))
        if kind == "removed":
            del self.objects[obj.metadata.name]
        else:
            self.objects[obj.metadata.name] = obj
        return obj

    @rule(target=answers, name=st.sampled_from("abc"), label=st.sampled_from("xy"))
    def create(self, name: str, label: str) -> Answered:
        return self.created(name, label)

    def created(self, name: str, label: str) -> Answered:
        if name in self.objects:
            return Answered(self.objects[name])
        if name in self.unselected:
            return Answered(self.change("applied", self.unselected.pop(name)))
        self.uids += 1
        return Answered(self.change("applied", thing(name, 0, f"u{self.uids}", labels=(label,))))

    @rule(target=answers, name=st.sampled_from("abc"), label=st.sampled_from("xy"))
    def patch(self, name: str, label: str) -> Answered:
        old = self.objects.get(name)
        if old is None:
            return self.created(name, label)
        return Answered(self.change("applied", Thing(msgspec.structs.replace(old.metadata, labels=(label,)))))

    @rule(target=answers, name=st.sampled_from("abc"), graceful=st.booleans(), shown=st.booleans())
    def delete(self, name: str, graceful: bool, shown: bool) -> Answered:
        return self.left(name, graceful, shown)

    def left(self, name: str, graceful: bool, shown: bool) -> Answered:
        old = self.objects.get(name)
        if old is None:
            return self.created(name, "x")
        if graceful and not old.metadata.deletion_timestamp:
            leaving = self.change("applied", Thing(msgspec.structs.replace(old.metadata, deletion_timestamp="now")))
            return Answered(leaving) if shown else Answered(old, deleted=True)
        return Answered(replace_version(self.change("removed", old), int(old.metadata.resource_version)), deleted=True)

    @rule(name=st.sampled_from("abc"))
    def somebody_takes_it_out_of_the_selection(self, name: str) -> None:
        old = self.objects.get(name)
        if old is not None:
            self.unselected[name] = self.change("removed", old)

    @rule(answer=consumes(answers))
    def the_answer_arrives(self, answer: Answered) -> None:
        self.arrived(answer)

    @rule(name=st.sampled_from("abc"), graceful=st.booleans(), shown=st.booleans())
    def a_delete_is_answered_at_once(self, name: str, graceful: bool, shown: bool) -> None:
        self.arrived(self.left(name, graceful, shown))

    def arrived(self, answer: Answered) -> None:
        if answer.deleted:
            before = self.store.get("n", answer.obj.metadata.name)
            self.store.deleted(answer.obj)
            found = self.store.get("n", answer.obj.metadata.name)
            if found is not None and found.metadata.uid == answer.obj.metadata.uid:
                assert found.metadata.deletion_timestamp
            if before is not None and found is None:
                self.hidden.add(before.metadata.uid)
            return
        self.store.wrote(answer.obj)
        if not self.store.has_passed(answer.obj.metadata.resource_version):
            found = self.store.get("n", answer.obj.metadata.name)
            hidden = self.store.unconfirmed > 0
            assert hidden if found is None else newer_or_same(found, answer.obj)

    @rule(count=st.integers(1, 4))
    def the_watch_delivers(self, count: int) -> None:
        for kind, obj in self.events[self.delivered : self.delivered + count]:
            getattr(self.store, kind)(obj)
            self.delivered += 1

    @rule(back=st.integers(1, 4), count=st.integers(1, 4))
    def late_events_arrive(self, back: int, count: int) -> None:
        start = max(0, self.delivered - back)
        for kind, obj in self.events[start : min(self.delivered, start + count)]:
            getattr(self.store, kind)(obj)

    @rule(behind=st.integers(0, 3))
    def a_list_arrives(self, behind: int) -> None:
        """No older than what was known, but maybe older than what was written."""
        self.delivered = max(self.delivered, len(self.events) - behind)
        found: dict[str, Thing] = {}
        version = "10"
        for kind, obj in self.events[: self.delivered]:
            version = obj.metadata.resource_version
            if kind == "removed":
                found.pop(obj.metadata.name)
            else:
                found[obj.metadata.name] = obj
        self.store.replaced(list(found.values()), version)

    @rule()
    def a_bookmark_arrives(self) -> None:
        if self.delivered == len(self.events):
            self.store.passed(str(self.version))

    @invariant()
    def handlers_heard_all_there_is(self) -> None:
        assert not self.wrong
        assert {obj.metadata.name: obj for obj in self.store} == self.mirror

    @invariant()
    def indexes_tell_what_objects_say(self) -> None:
        for value in "xy":
            wanted = {obj.metadata.name for obj in self.store if value in obj.metadata.labels}
            assert {obj.metadata.name for obj in self.store.by("label", value)} == wanted

    @invariant()
    def a_watch_that_has_caught_up_leaves_the_truth(self) -> None:
        if self.delivered == len(self.events):
            assert {obj.metadata.name: obj for obj in self.store} == self.objects
            assert self.store.unconfirmed == 0


def replace_version(obj: Thing, version: int) -> Thing:
    return Thing(msgspec.structs.replace(obj.metadata, resource_version=str(version)))


def newer_or_same(a: Thing, b: Thing) -> bool:
    return version_order(a.metadata.resource_version) >= version_order(b.metadata.resource_version)


TestAgainstAServer = pytest.mark.slow(AgainstAServer.TestCase)
TestAgainstAServer.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
