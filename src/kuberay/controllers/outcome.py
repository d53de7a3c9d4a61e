"""What became of a plan: data, for the next decision and for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from kuberay.controllers.failures import Refusal
from kuberay.controllers.plan import Create, Delete, Patch, Require

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.controllers.plan import Action, Plan
    from kuberay.kube.errors import KubeError


@dataclass(slots=True)
class Outcome:
    """What became of a plan's stages."""

    done: list[Action] = field(default_factory=list)
    found: list[Create | Require] = field(default_factory=list)
    """Objects that somebody else made, and that serve. No cache tells of them."""
    refused: list[tuple[Action, str]] = field(default_factory=list)
    """Actions that the server would not have, with what it said."""
    failed: list[tuple[Action, KubeError]] = field(default_factory=list)
    """Actions that came to nothing through no fault of theirs: they may succeed in a moment."""
    occupied: list[str] = field(default_factory=list)
    """Names that are taken by what no cache tells of; another of the series has to be found."""
    stopped: set[str] = field(default_factory=set)
    """Scopes in which no more is tried: what was refused to one would be refused to the next."""
    is_outdated: bool = False
    """Whether an object is another than the one that was decided on; the store knows it as it is now."""
    is_behind: bool = False
    """Whether an object is gone that was to be changed. What follows from that is decided when it is known."""
    is_namespace_closing: bool = False
    """Whether something was refused because the namespace is being deleted: nothing can be made in it any more."""

    @property
    def is_whole(self) -> bool:
        """Whether all went as planned, so that the next stage may begin."""
        return not (self.refused or self.failed or self.is_outdated or self.is_behind)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all came of it."""
        return not (self.done or self.found or self.refused or self.is_outdated)

    @property
    def interruption(self) -> KubeError | None:
        """Why nothing at all came of it, when that is nobody's fault."""
        return self.failed[0][1] if self.failed and self.is_empty else None

    @property
    def advanced(self) -> set[str]:
        """The scopes in which something was done."""
        return _scopes((*self.done, *self.found))

    def unresolved(self, plan: Plan) -> frozenset[str]:
        """The scopes of a plan of which nothing was tried."""
        tried = self.advanced | _scopes(action for action, _ in (*self.refused, *self.failed))
        return plan.held | (_scopes(plan.actions) - tried)

    @property
    def refusals(self) -> list[Refusal]:
        """What could not be done, in the words of conditions."""
        return [
            *(_refusal(action, said, is_passing=False) for action, said in self.refused),
            *(_refusal(action, str(error), is_passing=True) for action, error in self.failed),
        ]


def refusal_message(action: Action, said: str) -> str:
    """What could not be done, and what the server said to it."""
    return f"Failed to {verb(action).lower()} {action.subject.noun} {action.namespace}/{action.name}: {said}"


def verb(action: Action) -> str:
    """What an action does, as events name it."""
    match action:
        case Create():
            return "Create"
        case Patch():
            return "Update"
        case Delete():
            return "Delete"
        case Require():
            return "Find"
        case _:
            assert_never(action)


def _refusal(action: Action, said: str, *, is_passing: bool) -> Refusal:
    return Refusal(
        scope=action.scope,
        reason=_reason(action),
        message=refusal_message(action, said),
        is_passing=is_passing,
    )


def _reason(action: Action) -> str:
    """The reason of the condition `ReplicaFailure`: `FailedCreateWorkerPod`."""
    what = action.subject.trouble or action.subject.topic
    return f"{what}NotFound" if isinstance(action, Require) else f"Failed{verb(action)}{what}"


def _scopes(actions: Iterable[Action]) -> set[str]:
    return {action.scope for action in actions}
