"""Thousands of cached objects are mostly equal to each other: they can share what is equal instead of each holding it.

An object that replaces another takes over all parts of it that did not change; what is new takes labels, owners,
conditions, names of nodes and the like from a table of what was seen lately. Only frozen Structs are touched, and what
is in them, and only before anybody else has seen them: who reads them cannot tell the difference.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import msgspec
from msgspec.structs import astuple, force_setattr

_UNIQUE = frozenset(("uid", "resource_version"))
"""What no two objects have in common."""
_CAPACITY = 4096
"""How much a table holds before it starts anew: what is common comes back at once, what is not should not stay."""


class Interner:
    """Makes new objects share equal parts with those that came before them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._parts: dict[tuple[type, str, int], Any] = {}

    def intern(self, new: Any, old: Any = None) -> None:
        """Let an object take what it has in common with others from them.

        :param old: the object that it replaces, which it has the most in common with.
        """
        if _is_frozen(new):
            self._intern(new, old if type(old) is type(new) else None)

    def _intern(self, new: Any, old: Any) -> None:
        earlier = astuple(old) if old is not None else repeat(None)
        for name, value, before in zip(new.__struct_fields__, astuple(new), earlier, strict=False):
            if not value or value is before:
                continue  # nothing is small enough
            if value == before:
                force_setattr(new, name, before)
                continue
            kind = type(value)
            if kind is str:
                if name not in _UNIQUE and (known := self._text(value)) is not value:
                    force_setattr(new, name, known)
            elif kind is dict and before:
                continue  # labels and annotations change to what nobody else has
            elif kind is dict or kind is list:
                part = self._part(type(new), name, value)
                if part is not value:
                    force_setattr(new, name, part)
            elif _is_frozen(value):
                self._intern(value, before if type(before) is kind else None)

    def _text(self, value: str) -> str:
        known = self._texts.get(value)
        if known is None:
            if len(self._texts) >= _CAPACITY:
                self._texts.clear()
            self._texts[value] = known = value
        return known

    def _part(self, owner: type, name: str, value: Any) -> Any:
        """A list or map that is equal to this one, or else this one with the texts that others have."""
        key = (owner, name, hash(msgspec.json.encode(value)))
        known = self._parts.get(key)
        if known is not None and known == value:
            return known
        if len(self._parts) >= _CAPACITY:
            self._parts.clear()
        self._parts[key] = value
        if type(value) is dict:
            for key_, member in value.items():
                if type(member) is str:
                    value[key_] = self._text(member)
        else:
            for element in value:
                self.intern(element)
        return value


def _is_frozen(obj: Any) -> bool:
    return isinstance(obj, msgspec.Struct) and obj.__struct_config__.frozen
