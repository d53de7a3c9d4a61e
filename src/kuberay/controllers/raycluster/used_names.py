"""Names that new Pods of a cluster must not have for a while, because others had them a moment ago, or still have them.

It is bounded and may be lost: a name that comes again too soon costs a worker, and nothing else.
"""

from __future__ import annotations

REST = 600.0
"""Seconds for which a name is not used again: by then Ray has forgotten who had it."""


class UsedNames:
    """The names of one cluster.

    :param most: so many are kept; the oldest are forgotten first.
    """

    __slots__ = ("_most", "_since")

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._since: dict[str, float] = {}

    def note(self, name: str, now: float) -> None:
        """Somebody has the name, or had it until now."""
        self._since.pop(name, None)
        self._since[name] = now
        if len(self._since) > self._most:
            del self._since[next(iter(self._since))]

    def at(self, now: float) -> frozenset[str]:
        """The names that are not to be used at a moment."""
        while self._since:
            oldest, since = next(iter(self._since.items()))
            if now < since + REST:
                break
            del self._since[oldest]
        return frozenset(self._since)
