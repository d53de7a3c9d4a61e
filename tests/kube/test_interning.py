from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kuberay.kube import interning
from kuberay.kube.interning import Interner


class Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    node: str = ""
    labels: dict[str, str] = {}
    owners: list[str] = []


class Thing(msgspec.Struct, frozen=True, gc=False):
    meta: Meta = Meta()
    size: int = 0


class Open(msgspec.Struct):
    """One that may be changed, and so must not share."""

    labels: dict[str, str] = {}


def read(name: str, node: str = "node-1", **labels: str) -> Thing:
    """An object as it comes from a server: no part of it is that of another."""
    return msgspec.json.decode(msgspec.json.encode(Thing(Meta(name, node, labels, ["owner"]))), type=Thing)


def test_what_is_new_shares_what_others_have() -> None:
    interner = Interner()
    a, b = read("a", app="x"), read("b", app="x")
    assert a.meta.labels is not b.meta.labels
    for each in (a, b):
        interner.intern(each)
    assert a.meta.labels is b.meta.labels
    assert a.meta.owners is b.meta.owners
    assert a.meta.node is b.meta.node
    assert (a, b) == (read("a", app="x"), read("b", app="x"))


def test_what_replaces_another_takes_over_what_did_not_change() -> None:
    interner = Interner()
    old, new = read("a", app="x"), read("a", "node-2", app="x")
    interner.intern(new, old)
    assert new.meta.labels is old.meta.labels
    assert new == read("a", "node-2", app="x")
    same = read("a", app="x")
    interner.intern(same, old)
    assert same.meta is old.meta


def test_what_a_change_brings_is_shared_with_others_that_it_came_to() -> None:
    interner = Interner()
    changed = [read(name, "node-2", zone="x", rack=name) for name in ("a", "b")]
    for each in changed:
        interner.intern(each, read(each.meta.name))
    first, second = (each.meta for each in changed)
    assert first.node is second.node
    assert first.labels is not second.labels
    assert first.labels["zone"] is second.labels["zone"]


def test_elements_that_differ_share_what_is_equal_in_them() -> None:
    class Many(msgspec.Struct, frozen=True):
        things: list[Thing] = []

    interner = Interner()
    many = [msgspec.json.decode(msgspec.json.encode(Many([read(name)])), type=Many) for name in ("a", "b")]
    for each in many:
        interner.intern(each)
    assert many[0].things[0].meta.node is many[1].things[0].meta.node


def test_what_may_be_changed_is_left_alone() -> None:
    interner = Interner()
    a, b = Open({"a": "b"}), Open({"a": "b"})
    interner.intern(a)
    interner.intern(b, a)
    assert a.labels is not b.labels
    interner.intern({"a": "b"})
    interner.intern(read("a"), {"another": "kind"})


def test_what_nobody_shares_is_not_kept_for_ever() -> None:
    interner = Interner()
    for number in range(3 * interning._CAPACITY):
        interner.intern(read(f"unique-{number}", number=str(number)))
    assert len(interner._texts) <= interning._CAPACITY
    assert len(interner._parts) <= interning._CAPACITY


_texts = st.text(max_size=3)
_metas = st.builds(Meta, _texts, _texts, st.dictionaries(_texts, _texts, max_size=3), st.lists(_texts, max_size=3))


@given(st.lists(st.tuples(st.builds(Thing, _metas, st.integers()), st.booleans()), max_size=20))
def test_sharing_never_changes_what_is_read(things: list[tuple[Thing, bool]]) -> None:
    interner = Interner()
    kept: list[tuple[Thing, Any]] = []
    old: Thing | None = None
    for thing, replaces in things:
        text = msgspec.json.encode(thing)
        new = msgspec.json.decode(text, type=Thing)
        interner.intern(new, old if replaces else None)
        kept.append((new, text))
        old = new
    assert all(msgspec.json.encode(new) == text for new, text in kept)
