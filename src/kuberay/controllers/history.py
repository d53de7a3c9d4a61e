"""What was done for each object lately, and why: the memory behind "why is this Pod gone?".

It is bounded and may be lost; nothing is ever decided by it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.controllers.outcome import Outcome
    from kuberay.controllers.plan import Subject
    from kuberay.kube.identity import Key

_NAMES = 12
_LONGEST_TEXT = 500


class _Action(Protocol):
    @property
    def subject(self) -> Subject: ...
    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Deed:
    """Things of one kind that were done, or refused, in one pass and for one reason."""

    at: float
    """Seconds since 1970."""
    verb: str
    """`create`, `delete`."""
    noun: str
    names: tuple[str, ...]
    """The first few."""
    count: int
    why: str
    refusal: str = ""
    """What the server said, when it would not have it."""


class History:
    """The last deeds of each object.

    :param each: how many deeds of one object are kept.
    :param most: how many in all; objects that nothing was done for longest are forgotten first.
    """

    def __init__(self, *, each: int = 50, most: int = 5000) -> None:
        self._each = each
        self._most = most
        self._deeds: OrderedDict[Key, list[Deed]] = OrderedDict()
        self._count = 0

    def note(self, key: Key, outcome: Outcome, at: float) -> None:
        """Remember what came of a plan."""
        deeds = [
            *_grouped(((action, "") for action in outcome.done), at),
            *_grouped(outcome.refused, at),
        ]
        if not deeds:
            return
        kept = self._deeds.setdefault(key, [])
        self._count -= len(kept)
        kept += deeds
        del kept[: -self._each]
        self._count += len(kept)
        self._deeds.move_to_end(key)
        while self._count > self._most:
            _, forgotten = self._deeds.popitem(last=False)
            self._count -= len(forgotten)

    def of(self, key: Key) -> list[Deed]:
        """The deeds of an object, the oldest first. They outlive it, so that its end can be explained."""
        return list(self._deeds.get(key, ()))


def _grouped(actions: Iterable[tuple[_Action, str]], at: float) -> Iterable[Deed]:
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for action, refusal in actions:
        verb = type(action).__name__.lower()
        groups.setdefault((verb, action.subject.noun, action.why, refusal), []).append(action.name)
    for (verb, noun, why, refusal), names in groups.items():
        yield Deed(at, verb, noun, tuple(names[:_NAMES]), len(names), why[:_LONGEST_TEXT], refusal[:_LONGEST_TEXT])
