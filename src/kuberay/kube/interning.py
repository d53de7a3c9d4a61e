"""Thousands of cached objects are mostly equal to each other: they can share what is equal instead of each holding it.

An object that replaces another takes over all parts of it that did not change; one that is new takes labels, owners,
names of nodes and the like from a table of what was seen lately. Only frozen Structs are touched, and only before
anybody else has seen them: who reads them cannot tell the difference.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import force_setattr

_WITHOUT_PARTS = frozenset((str, int, bool, float, list, dict))
_CAPACITY = 4096
"""How much a table holds before it starts anew: what is common comes back at once, what is not should not stay."""


class Interner:
    """Makes new objects share equal parts with those that came before them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._parts: dict[tuple[type, str, bytes], Any] = {}

    def intern(self, obj: object) -> None:
        """Let an object take what it has in common with others from them."""
        if _is_frozen(obj):
            self._intern(obj)

    def _intern(self, obj: Any) -> None:
        for name in obj.__struct_fields__:
            value = getattr(obj, name)
            if not value:
                continue
            kind = type(value)
            if kind is str:
                known = self._texts.get(value)
                if known is None:
                    if len(self._texts) >= _CAPACITY:
                        self._texts.clear()
                    self._texts[value] = value
                elif known is not value:
                    force_setattr(obj, name, known)
            elif kind is dict or kind is list:
                key = (type(obj), name, msgspec.json.encode(value))
                part = self._parts.get(key)
                if part is None:
                    if len(self._parts) >= _CAPACITY:
                        self._parts.clear()
                    self._parts[key] = value
                else:
                    force_setattr(obj, name, part)
            elif _is_frozen(value):
                self._intern(value)


def share(new: Any, old: Any) -> None:
    """Let an object take over what has not changed from the one that it replaces."""
    if type(new) is type(old) and _is_frozen(new):
        _share(new, old)


def _share(new: Any, old: Any) -> None:
    for name in new.__struct_fields__:
        value = getattr(new, name)
        if not value:
            continue  # nothing is small enough
        before = getattr(old, name)
        if value is before:
            continue
        if value == before:
            force_setattr(new, name, before)
        elif type(value) not in _WITHOUT_PARTS:
            share(value, before)


def _is_frozen(obj: object) -> bool:
    return isinstance(obj, msgspec.Struct) and obj.__struct_config__.frozen
