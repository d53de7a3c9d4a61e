"""Carrying out a plan: the only place where controllers write.

Stages in order, the actions of a stage at once. What was to be true and already is counts as done: an object of ours
under that name, or of anybody where that will do; an object that is gone. Every answer goes into the store, so that
the next decision knows of it. A refusal is an answer too: it is handed back as data. What was decided on an object
that somebody has changed meanwhile is not done, and has to be decided again. Only when there is no telling (the server
cannot be reached, or does not want to be bothered now) is the whole attempt given up, to be made again later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

import orjson
import structlog

from kuberay.controllers.failures import Refusal
from kuberay.controllers.plan import WORKER_POD, Create, Delete, Patch, PatchStatus, Require
from kuberay.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from kuberay.kube.identity import identity
from kuberay.kube.lanes import Lanes
from kuberay.kube.patches import merge_patch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from kuberay.controllers.plan import Action, Plan
    from kuberay.kube.client import Client
    from kuberay.kube.resources import Resource
    from kuberay.kube.store import Store

log = structlog.get_logger(__name__)

# Nothing about the object: the same write may succeed in a moment.
_PASSING = (TransportError, ServiceUnavailable, Timeout, TooManyRequests, Unauthorized)
_NAMES_IN_A_LINE = 100
"""Longer lines are cut by what collects them."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Where the objects of a kind are kept, and as what."""

    store: Store[Any]
    type: Any


@dataclass(slots=True)
class Outcome:
    """What became of a plan's stages."""

    done: list[Action] = field(default_factory=list)
    found: list[Create | Require] = field(default_factory=list)
    """Objects that somebody else made, and that serve. No cache tells of them."""
    refused: list[tuple[Action, str]] = field(default_factory=list)
    """Actions that the server would not have, with what it said."""
    interruption: KubeError | None = None
    """Why the rest was not tried, when that is nobody's fault."""
    is_outdated: bool = False
    """Whether an object is another than the one that was decided on; the store knows it as it is now."""
    is_namespace_closing: bool = False
    """Whether something was refused because the namespace is being deleted: nothing can be made in it any more."""

    @property
    def tried(self) -> set[str]:
        """The scopes of which something was tried."""
        return {action.scope for action in (*self.done, *self.found)} | self.refused_scopes

    def unresolved(self, plan: Plan) -> frozenset[str]:
        """The scopes of a plan of which nothing was tried."""
        return plan.held | ({action.scope for action in plan.actions} - self.tried)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all came of it."""
        return not (self.done or self.found or self.refused or self.is_outdated)

    @property
    def refused_scopes(self) -> set[str]:
        """The scopes in which something was refused."""
        return {action.scope for action, _ in self.refused}

    @property
    def refusals(self) -> list[Refusal]:
        """What was refused, in the words of conditions."""
        return [
            Refusal(scope=action.scope, reason=refusal_reason(action), message=refusal_message(action, said))
            for action, said in self.refused
        ]


def refusal_reason(action: Action) -> str:
    """The reason of the condition `ReplicaFailure`: `FailedCreateWorkerPod`."""
    what = action.subject.trouble or action.subject.topic
    match action:
        case Create():
            return f"FailedCreate{what}"
        case Patch():
            return f"FailedUpdate{what}"
        case Delete():
            return f"FailedDelete{what}"
        case Require():
            return f"{what}NotFound"
        case _:
            assert_never(action)


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


def lane(action: Action) -> int:
    """How much others have to wait for it: removals free what others need, and without a head workers are of no use."""
    if isinstance(action, Delete):
        return 0
    return 2 if action.subject is WORKER_POD else 1


class Actor:
    """Writes to the Kubernetes API, a bounded number of things at a time.

    Those for whom it writes take turns: one cluster that wants thousands of Pods does not hold up another that wants
    one.

    :param caches: for each kind that is written, where it is cached.
    """

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], *, concurrency: int) -> None:
        self._client = client
        self._caches = caches
        self._lanes: Lanes[str] = Lanes(concurrency)

    async def run(self, stages: Sequence[Sequence[Action]], owner_uid: str) -> Outcome:
        """Carry out stages until one of them does not wholly succeed.

        :param owner_uid: of the object on whose behalf this is done; a name that somebody else has is a refusal.
        """
        outcome = Outcome()
        for stage in stages:
            before = len(outcome.done)
            try:
                await _at_once([self._attempt(action, owner_uid, outcome) for action in stage])
            finally:
                # As they were planned, in whatever order the answers came: so is what users are told of them.
                done = {id(action) for action in outcome.done[before:]}
                outcome.done[before:] = [action for action in stage if id(action) in done]
                _log(outcome.done[before:])
            if outcome.refused or outcome.is_outdated or outcome.interruption is not None:
                break
        return outcome

    async def patch_status(self, action: PatchStatus) -> bool:
        """Write a status; tells whether it was. An object that is gone, or another one by now, has no need of it.

        :raises KubeError: it was refused, or there was no answer.
        """
        cache = self._caches[action.resource]
        patch = {"metadata": {"uid": action.uid}, "status": dict(action.patch)}
        try:
            written = await self._client.patch(
                action.resource,
                action.name,
                patch,
                namespace=action.namespace,
                subresource="status",
                type=cache.type,
            )
        except (NotFound, Conflict):
            return False  # the next look tells whether it still has to be written
        log.info("wrote status", why=action.why)
        cache.store.wrote(written)
        return True

    async def _attempt(self, action: Action, owner_uid: str, outcome: Outcome) -> None:
        async with self._lanes.turn(owner_uid, lane(action)):
            if outcome.interruption is not None or action.scope in outcome.refused_scopes:
                return  # what was refused to one would be refused to the next
            try:
                match action:
                    case Create():
                        is_ours = await self._create(action, owner_uid)
                        (outcome.done if is_ours else outcome.found).append(action)
                    case Require():
                        await self._client.get(action.resource, action.name, namespace=action.namespace)
                        outcome.found.append(action)
                    case Patch():
                        await self._patch(action)
                        outcome.done.append(action)
                    case Delete():
                        await self._delete(action)
                        outcome.done.append(action)
                    case _:
                        assert_never(action)
            except _PASSING as error:
                outcome.interruption = error
            except Outdated:
                log.info("changed meanwhile, and is decided anew", what=action.subject.noun, name=action.name)
                outcome.is_outdated = True
            except ApiError as error:
                outcome.is_namespace_closing |= _tells_of_closing_namespace(error)
                self._refused(action, str(error), outcome)
            except NameTaken as error:
                self._refused(action, str(error), outcome)

    def _refused(self, action: Action, said: str, outcome: Outcome) -> None:
        log.warning("refused", what=refusal_message(action, said), why=action.why)
        outcome.refused.append((action, said))

    async def _create(self, action: Create, owner_uid: str) -> bool:
        """Make an object, or find that it is there; tells whether it is ours, and known to be."""
        cache = self._caches[action.resource]
        try:
            made = await self._client.create(action.resource, action.body, namespace=action.namespace, type=cache.type)
        except AlreadyExists:
            made = await self._existing(action)
            if made is None:
                return True
            owner = made.metadata.controller
            if owner is None or owner.uid != owner_uid:
                if action.takes_any and not _is_left_over(action, owner):
                    return False
                belongs = f"belongs to {owner.kind} {owner.name}" if owner is not None else "has no owner"
                raise NameTaken(
                    f"the name is taken: {action.resource.kind} {action.name} exists already and {belongs}"
                ) from None
            cache.store.wrote(made)
            if cache.store.get(action.namespace, action.name) is None and not identity(made).leaving:
                # Nobody would ever see it, and it would be made again for ever.
                if action.takes_any:
                    return False
                raise NameTaken(
                    f"{action.resource.kind} {action.name} exists already, but lacks the labels by which it is found; "
                    "delete it, or give it back its labels"
                ) from None
            return True
        cache.store.wrote(made)
        return True

    async def _existing(self, action: Create) -> Any:
        """The object that has the name already; `None` when it is gone again."""
        try:
            return await self._client.get(
                action.resource, action.name, namespace=action.namespace, type=self._caches[action.resource].type
            )
        except NotFound:
            return None

    async def _patch(self, action: Patch) -> None:
        """Change an object. One that is gone, or another one by now, has no need of it."""
        cache = self._caches[action.resource]
        metadata = {**action.patch.get("metadata", {}), "uid": action.uid}
        patch = {**action.patch, "metadata": metadata}
        name, namespace = action.name, action.namespace
        try:
            if action.is_update:
                whole = merge_patch(await self._client.get(action.resource, name, namespace=namespace), patch)
                written = await self._client.replace(action.resource, name, whole, namespace=namespace, type=cache.type)
            else:
                written = await self._client.patch(action.resource, name, patch, namespace=namespace, type=cache.type)
        except NotFound:
            return
        except Conflict:
            await self._check_is_another(action)
            return
        cache.store.wrote(written)

    async def _delete(self, action: Delete) -> None:
        cache = self._caches[action.resource]
        try:
            answer = await self._client.delete(
                action.resource,
                action.name,
                namespace=action.namespace,
                uid=action.uid,
                grace_period_seconds=0 if action.is_forced else None,
                type=cache.type,
            )
        except NotFound:
            answer = None
        except Conflict:
            await self._check_is_another(action)
            answer = None
        if answer is not None and identity(answer).leaving:
            cache.store.wrote(answer)
            return
        known = cache.store.get(action.namespace, action.name)
        if known is not None and identity(known).uid == action.uid:
            cache.store.deleted(known)

    async def _check_is_another(self, action: Patch | Delete) -> None:
        """Find out why a precondition did not hold: servers say it in words only.

        :raises Outdated: it is the object that was meant, and somebody has changed it.
        """
        cache = self._caches[action.resource]
        try:
            found = await self._client.get(action.resource, action.name, namespace=action.namespace, type=cache.type)
        except NotFound:
            return
        if identity(found).uid == action.uid:
            cache.store.wrote(found)
            raise Outdated


async def _at_once(attempts: Sequence[Coroutine[Any, Any, None]]) -> None:
    if len(attempts) == 1:
        await attempts[0]  # as in most stages: a task of its own would cost more than it does
        return
    async with asyncio.TaskGroup() as group:
        for attempt in attempts:
            group.create_task(attempt)


def _log(done: Sequence[Action]) -> None:
    """Tell of everything that was done, in one line for what was done for one reason: thousands would cost too much."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for action in done:
        reasons.setdefault((f"{verb(action).lower()}d", action.subject.noun, action.why), []).append(action.name)
    for (what, noun, why), names in reasons.items():
        for start in range(0, len(names), _NAMES_IN_A_LINE):
            log.info(what, what=noun, name=", ".join(names[start : start + _NAMES_IN_A_LINE]), why=why)


def _is_left_over(action: Create, owner: Any) -> bool:
    """Whether an object belonged to an earlier object of our owner's name: it is about to go, and serves nobody."""
    ours = orjson.loads(action.body)["metadata"].get("ownerReferences", ())
    return owner is not None and (owner.kind, owner.name) in [(each["kind"], each["name"]) for each in ours]


def _tells_of_closing_namespace(error: ApiError) -> bool:
    details = error.status.details
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes)


class Outdated(Exception):
    """Somebody has changed an object since it was decided what to do about it."""


class NameTaken(Exception):
    """Somebody else's object has the name that ours must have."""
