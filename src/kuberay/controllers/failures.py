"""What could not be done lately, and when it is worth another try.

A refused write (quota, a bad template, a name that is taken) is refused again a moment later. So a failure holds up
its own scope for a while, longer each time, and nothing else: other groups of the same cluster go on. A new generation
of the spec may be the cure, so it is tried at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last refusal of a scope. `reason` is for conditions, `message` for people."""

    scope: str
    reason: str
    message: str
    generation: int
    attempts: int
    retry_at: float
    """In seconds of the same clock that decides."""

    def holds(self, generation: int, now: float) -> bool:
        """Whether it is too early to try again."""
        return generation == self.generation and now < self.retry_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One attempt that failed."""

    scope: str
    reason: str
    message: str


def after(
    failures: Mapping[str, Failure],
    unresolved: Container[str],
    refused: Iterable[Refusal],
    *,
    generation: int,
    now: float,
) -> dict[str, Failure]:
    """The failures after another pass.

    :param unresolved: scopes that were not tried although something is to be done there. A failure of any other scope
        is settled: it succeeded, or nobody wants it any more.
    """
    result = {scope: failure for scope, failure in failures.items() if scope in unresolved}
    for refusal in refused:
        if refusal.scope in result:
            continue  # the first refusal of a pass speaks for its scope
        earlier = failures.get(refusal.scope)
        attempts = earlier.attempts + 1 if earlier is not None and earlier.generation == generation else 1
        result[refusal.scope] = Failure(
            scope=refusal.scope,
            reason=refusal.reason,
            message=refusal.message,
            generation=generation,
            attempts=attempts,
            retry_at=now + min(FIRST_WAIT * 2 ** min(attempts - 1, 16), LONGEST_WAIT),
        )
    return result
