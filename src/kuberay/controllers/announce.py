"""What was done, as events for users: one for each kind of thing in a pass, however many there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.controllers.outcome import verb
from kuberay.controllers.plan import Create, EmitEvent, Patch, Require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kuberay.controllers.failures import Failure
    from kuberay.controllers.outcome import Outcome
    from kuberay.controllers.plan import Action

_MOST_NAMES = 12


def announcements(outcome: Outcome, failures: Mapping[str, Failure]) -> Iterator[EmitEvent]:
    """Events for what a plan did, for what it was refused, and for what keeps failing.

    :param failures: what could not be done, this time included.
    """
    yield from _grouped(((action, "") for action in outcome.done if action.subject.is_announced), "Normal")
    lasting = [(action, str(error)) for action, error in outcome.failed if failures[action.scope].is_worth_telling]
    yield from _grouped((*outcome.refused, *lasting), "Warning")
    for action in outcome.found:
        if isinstance(action, Create) and action.tells_of_others:
            name = f"{action.resource.kind} {action.namespace}/{action.name}"
            note = f"{name} already exists and does not belong to this cluster by owner and label; it is left as it is"
            yield EmitEvent(type="Warning", reason=_reason(action, "Warning"), action=_action(action), note=note)


def _grouped(actions: Iterable[tuple[Action, str]], kind: str) -> Iterator[EmitEvent]:
    """One event per reason; in it, one sentence for all things with the same explanation."""
    reasons: dict[tuple[str, str], dict[str, list[Action]]] = {}
    for action, said in actions:
        explanation = said or ("" if isinstance(action, Create | Patch) else action.why)
        reasons.setdefault((_reason(action, kind), _action(action)), {}).setdefault(explanation, []).append(action)
    for (reason, what), sentences in reasons.items():
        note = ". ".join(_sentence(kind, group, explanation) for explanation, group in sentences.items())
        yield EmitEvent(type="Normal" if kind == "Normal" else "Warning", reason=reason, action=what, note=note)


def _reason(action: Action, kind: str) -> str:
    if isinstance(action, Require):
        return f"{action.subject.topic}NotFound"
    return (
        f"{verb(action)}d{action.subject.topic}"
        if kind == "Normal"
        else f"FailedTo{verb(action)}{action.subject.topic}"
    )


def _action(action: Action) -> str:
    return "Validate" if isinstance(action, Require) else verb(action)


def _sentence(kind: str, group: list[Action], explanation: str) -> str:
    start = f"{verb(group[0])}d" if kind == "Normal" else f"Failed to {verb(group[0]).lower()}"
    noun = group[0].subject.noun
    names = [f"{action.namespace}/{action.name}" for action in group]
    if len(names) == 1:
        text = f"{start} {noun} {names[0]}"
    else:
        listed = ", ".join(names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        text = f"{start} {len(names)} {_plural(noun)}: {listed}{more}"
    return f"{text}; {explanation}" if explanation else text


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("cy") else f"{noun}s"
