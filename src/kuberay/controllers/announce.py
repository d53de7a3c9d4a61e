"""What was done, as events for users: one for each kind of thing in a pass, however many there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.controllers.plan import Create, EmitEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kuberay.controllers.act import Outcome
    from kuberay.controllers.plan import Delete

_MOST_NAMES = 12


def announcements(outcome: Outcome) -> Iterator[EmitEvent]:
    """Events for what a plan did and for what it was refused."""
    yield from _grouped(((action, "") for action in outcome.done), "Normal")
    yield from _grouped(outcome.refused, "Warning")


def _grouped(actions: Iterable[tuple[Create | Delete, str]], kind: str) -> Iterator[EmitEvent]:
    """One event per reason; in it, one sentence for all things with the same explanation."""
    reasons: dict[tuple[str, str], dict[str, list[Create | Delete]]] = {}
    for action, said in actions:
        explanation = said or ("" if isinstance(action, Create) else action.why)
        verb = "Create" if isinstance(action, Create) else "Delete"
        reason = f"{verb}d{action.subject.topic}" if kind == "Normal" else f"FailedTo{verb}{action.subject.topic}"
        reasons.setdefault((reason, verb), {}).setdefault(explanation, []).append(action)
    for (reason, verb), sentences in reasons.items():
        start = f"{verb}d" if kind == "Normal" else f"Failed to {verb.lower()}"
        note = ". ".join(_sentence(start, group, explanation) for explanation, group in sentences.items())
        yield EmitEvent(type="Normal" if kind == "Normal" else "Warning", reason=reason, action=verb, note=note)


def _sentence(start: str, group: list[Create | Delete], explanation: str) -> str:
    noun = group[0].subject.noun
    names = [f"{action.namespace}/{action.name}" for action in group]
    if len(names) == 1:
        text = f"{start} {noun} {names[0]}"
    else:
        listed = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        text = f"{start} {len(names)} {noun}s: {listed}{more}"
    return f"{text}; {explanation}" if explanation else text
