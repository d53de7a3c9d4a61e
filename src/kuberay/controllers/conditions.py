"""Conditions of a status: a list by type, in the order of their first appearance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kuberay.api.meta import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_MESSAGE = 32768
"""Of a condition, in characters."""


class Conditions:
    """The conditions of an object while its new status is made. Those nobody touches stay as they are."""

    def __init__(self, conditions: Iterable[Condition], now: str) -> None:
        self._by_type = {condition.type: condition for condition in conditions}
        self._now = now

    def set(self, kind: str, holds: bool, reason: str, message: str = "") -> None:
        """State that a condition holds, or does not. Its transition time moves only when that changes."""
        status = "True" if holds else "False"
        message = message[:LONGEST_MESSAGE]
        old = self._by_type.get(kind)
        if old is not None and old.status == status:
            self._by_type[kind] = msgspec.structs.replace(old, reason=reason, message=message)
        else:
            self._by_type[kind] = Condition(
                type=kind, status=status, reason=reason, message=message, last_transition_time=self._now
            )

    def remove(self, kind: str) -> None:
        """Say nothing about it."""
        self._by_type.pop(kind, None)

    def is_true(self, kind: str) -> bool:
        """Whether it is there and holds."""
        condition = self._by_type.get(kind)
        return condition is not None and condition.status == "True"

    def list(self) -> list[Condition]:
        """All of them."""
        return list(self._by_type.values())
