"""What could not be done lately, and when it is worth another try.

A refused write (quota, a bad template, a name that is taken) is refused again a moment later. So a failure holds up
its own scope for a while, longer each time, and nothing else: other groups of the same cluster go on. A new generation
of the spec may be the cure, so it is tried at once; and a scope that gets on, if only by parts, has no need to wait
longer.

Other writes fail for no fault of theirs: no answer came in time, or the server was in trouble. These are tried sooner,
and nobody is told until it has gone on for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from kuberay.controllers.plan import Plan

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
FIRST_WAIT_IF_PASSING = 0.05
LONGEST_WAIT_IF_PASSING = 15.0
TOLD_AFTER = 3.0
TOLD_AFTER_ATTEMPTS = 3
"""For how many seconds, and how often in a row, something has to fail in passing before users are told."""


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
    since: float = 0.0
    """When the first of these attempts was."""
    is_worth_telling: bool = True
    """Whether users should know; what may well be over in a moment is no news."""

    def holds(self, generation: int, now: float) -> bool:
        """Whether it is too early to try again. A clock that was put back makes nobody wait longer than the longest."""
        return generation == self.generation and now < self.retry_at <= now + LONGEST_WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One attempt that failed."""

    scope: str
    reason: str
    message: str
    is_passing: bool = False
    """Whether it says nothing about what was to be done."""


def after(
    failures: Mapping[str, Failure],
    unresolved: Container[str],
    refused: Iterable[Refusal],
    *,
    advanced: Container[str] = (),
    generation: int,
    now: float,
) -> dict[str, Failure]:
    """The failures after another pass.

    :param unresolved: scopes that were not tried although something is to be done there. A failure of any other scope
        is settled: it succeeded, or nobody wants it any more.
    :param advanced: scopes in which something else was done.
    """
    result = {scope: failure for scope, failure in failures.items() if scope in unresolved}
    for refusal in refused:
        scope = refusal.scope
        if scope in result:
            continue  # the first refusal of a pass speaks for its scope
        earlier = failures.get(scope)
        attempts, since = 1, now
        if earlier is not None and earlier.generation == generation and scope not in advanced:
            attempts, since = earlier.attempts + 1, earlier.since
        has_lasted = attempts >= TOLD_AFTER_ATTEMPTS and now - since >= TOLD_AFTER
        result[scope] = Failure(
            scope=scope,
            reason=refusal.reason,
            message=refusal.message,
            generation=generation,
            attempts=attempts,
            retry_at=now + _wait(attempts, refusal.is_passing),
            since=since,
            is_worth_telling=has_lasted or not refusal.is_passing,
        )
    return result


def hold_back(plan: Plan, failures: Mapping[str, Failure], *, generation: int, now: float) -> Plan:
    """The plan without what was refused a moment ago. For plans of which no part has to wait for another."""
    if not failures:
        return plan
    waits = {
        action.scope: failure.retry_at - now
        for action in plan.actions
        if (failure := failures.get(action.scope)) and failure.holds(generation, now)
    }
    if not waits:
        return plan
    kept = [tuple(action for action in stage if action.scope not in waits) for stage in plan.stages]
    return replace(
        plan,
        stages=tuple(stage for stage in kept if stage),
        held=plan.held | waits.keys(),
        look_again=min(wait for wait in (*waits.values(), plan.look_again) if wait is not None),
    )


def _wait(attempts: int, is_passing: bool) -> float:
    first, longest = (FIRST_WAIT_IF_PASSING, LONGEST_WAIT_IF_PASSING) if is_passing else (FIRST_WAIT, LONGEST_WAIT)
    return min(first * 2.0 ** min(attempts - 1, 16), longest)
