"""Carrying out a plan: the only place where controllers write.

Stages in order, the actions of a stage at once. What was to be true and already is counts as done: an object of ours
under that name, or of anybody where that will do; an object that is gone. Every answer goes into the store, so that
the next decision knows of it. A refusal is an answer too: it is handed back as data, and so is a write that failed in
passing. What was decided on an object that somebody has changed meanwhile is not done, and has to be decided again; and
a write that changes nothing is no success, or it would be repeated for ever. Nor is a Pod that the server has stored as
another than ours: it is deleted again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import orjson
import structlog

from kuberay.controllers.marks import altered
from kuberay.controllers.outcome import Outcome, refusal_message, verb
from kuberay.controllers.plan import WORKER_POD, Create, Delete, Patch, PatchStatus, Require
from kuberay.kube.errors import AlreadyExists, ApiError, Conflict, KubeError, Missing, is_passing
from kuberay.kube.identity import identity, version_of
from kuberay.kube.patches import merge_patch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from kuberay.controllers.plan import Action
    from kuberay.kube.client import Client
    from kuberay.kube.lanes import Lanes
    from kuberay.kube.resources import Resource
    from kuberay.kube.store import Store

log = structlog.get_logger(__name__)

_MOST_CONFLICTS = 3
"""How often a create is sent again at once. A server counts quotas by writes of its own, and many creates at a time
contend for them."""
_NAMES_IN_A_LINE = 100
"""Longer lines are cut by what collects them."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Where the objects of a kind are kept, and as what."""

    store: Store[Any]
    type: Any


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
    :param lanes: where turns are taken, with all others who write to the same server.
    """

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], lanes: Lanes[str]) -> None:
        self._client = client
        self._caches = caches
        self._lanes = lanes

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
                _put_in_order(outcome, before, stage)
                _log(outcome.done[before:])
                _log_refused(outcome.refused)
            if not outcome.is_whole:
                break
        return outcome

    async def patch_status(self, action: PatchStatus) -> Any:
        """Write a status; returns the object as it is then. One that is gone, or another one by now, has no need of it.

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
        except (Missing, Conflict):
            return None  # the next look tells whether it still has to be written
        log.info("wrote status", why=action.why)
        cache.store.wrote(written)
        return written

    async def _attempt(self, action: Action, owner_uid: str, outcome: Outcome) -> None:
        async with self._lanes.turn(owner_uid, lane(action)):
            if action.scope in outcome.stopped:
                return
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
            except Outdated:
                log.info("changed meanwhile, and is decided anew", what=action.subject.noun, name=action.name)
                outcome.is_outdated = True
            except Gone:
                log.info("gone meanwhile", what=action.subject.noun, name=action.name)
                outcome.is_behind = True
            except (NameTaken, Undone, Altered) as error:
                if isinstance(error, NameTaken) and isinstance(action, Create) and action.takes_another_name:
                    log.info("another name is needed", what=action.subject.noun, name=action.name, why=str(error))
                    outcome.occupied.append(action.name)
                    outcome.is_outdated = True
                else:
                    _refuse(action, str(error), outcome)
            except KubeError as error:
                if is_passing(error):
                    log.warning("failed in passing", what=refusal_message(action, str(error)), why=action.why)
                    outcome.failed.append((action, error))
                    outcome.stopped.add(action.scope)
                else:
                    outcome.is_namespace_closing |= _tells_of_closing_namespace(error)
                    _refuse(action, str(error), outcome)

    async def _create(self, action: Create, owner_uid: str) -> bool:
        """Make an object, or find that it is there; tells whether it is ours, and known to be."""
        cache = self._caches[action.resource]
        try:
            made = await self._made(action, cache)
        except AlreadyExists:
            made = await self._existing(action)
            owner = made.metadata.controller
            if owner is None or owner.uid != owner_uid:
                if action.takes_any and not _is_left_over(action, owner):
                    return False
                belongs = f"belongs to {owner.kind} {owner.name}" if owner is not None else "has no owner"
                raise NameTaken(
                    f"the name is taken: {action.resource.kind} {action.name} exists already and {belongs}"
                ) from None
            cache.store.wrote(made)
            if cache.store.get(action.namespace, action.name) is None or altered(action, made):
                # Nobody would ever see it, or count it, and it would be made again for ever.
                if identity(made).leaving and not action.takes_another_name:
                    raise Conflict(
                        f"{action.resource.kind} {action.name} still has the name, and is on its way out"
                    ) from None
                if action.takes_any:
                    return False
                raise NameTaken(
                    f"{action.resource.kind} {action.name} exists already, but lacks the labels by which it is found; "
                    "delete it, or give it back its labels"
                ) from None
            return True
        changes = altered(action, made)
        if changes:
            why = f"an admission webhook changed what it is known by ({', '.join(changes)})"
            raise Altered(f"{why}; {await self._take_back(action, made, why)}")
        cache.store.wrote(made)
        return True

    async def _take_back(self, action: Create, made: Any, why: str) -> str:
        """Delete what was made, and is not what was asked for; tells what became of it, in the words of a refusal.

        No store hears of it: one whose watch does not show it would have it on its way out for longer than it is.
        """
        key, uid, _, _ = identity(made)
        removal = Delete(
            resource=action.resource,
            namespace=key.namespace,
            name=key.name,
            uid=uid,
            subject=action.subject,
            scope=action.scope,
            why=why,
        )
        try:
            with suppress(Missing):
                await self._client.delete(removal.resource, removal.name, namespace=removal.namespace, uid=uid)
        except KubeError as error:
            log.warning("not taken back", what=refusal_message(removal, str(error)), why=why)
            return f"it could not be deleted again: {error}"
        _log([removal])
        return "it was deleted again"

    async def _made(self, action: Create, cache: Cache) -> Any:
        conflicts = 0
        while True:
            try:
                return await self._client.create(
                    action.resource, action.body, namespace=action.namespace, type=cache.type
                )
            except Conflict:
                conflicts += 1
                if conflicts > _MOST_CONFLICTS:
                    raise

    async def _existing(self, action: Create) -> Any:
        """The object that has the name already.

        :raises Outdated: it is gone again.
        """
        try:
            return await self._client.get(
                action.resource, action.name, namespace=action.namespace, type=self._caches[action.resource].type
            )
        except Missing:
            raise Outdated from None

    async def _patch(self, action: Patch) -> None:
        """Change an object.

        :raises Gone: there is nothing left to be changed.
        :raises Undone: the server has kept it as it was.
        """
        cache = self._caches[action.resource]
        known = cache.store.get(action.namespace, action.name)
        metadata = {**action.patch.get("metadata", {}), "uid": action.uid}
        patch = {**action.patch, "metadata": metadata}
        name, namespace = action.name, action.namespace
        try:
            if action.is_update:
                whole = merge_patch(await self._client.get(action.resource, name, namespace=namespace), patch)
                written = await self._client.replace(action.resource, name, whole, namespace=namespace, type=cache.type)
            else:
                written = await self._client.patch(action.resource, name, patch, namespace=namespace, type=cache.type)
        except Missing:
            self._hide(action)
            raise Gone from None
        except Conflict as conflict:
            await self._check_is_another(action, conflict)
            self._hide(action)
            raise Gone from None
        if known is not None and version_of(known) == version_of(written):
            raise Undone("the server has taken the change and kept the object as it was; a webhook may have undone it")
        cache.store.wrote(written)

    async def _delete(self, action: Delete) -> None:
        """Remove an object, or find that it is gone.

        :raises Gone: it was leaving already, and will be taken to be there until its watch has told.
        """
        cache = self._caches[action.resource]
        known = cache.store.get(action.namespace, action.name)
        try:
            answer = await self._client.delete(
                action.resource,
                action.name,
                namespace=action.namespace,
                uid=action.uid,
                grace_period_seconds=0 if action.is_forced else None,
                type=cache.type,
            )
        except Missing:
            if known is not None and identity(known).leaving:
                raise Gone from None
            answer = None
        except Conflict as conflict:
            await self._check_is_another(action, conflict)
            answer = None
        if answer is not None and identity(answer).leaving:
            cache.store.wrote(answer)
        else:
            self._hide(action)

    def _hide(self, action: Patch | Delete) -> None:
        """Forget an object that is gone: its watch has yet to say so."""
        store = self._caches[action.resource].store
        known = store.get(action.namespace, action.name)
        if known is not None and identity(known).uid == action.uid:
            store.deleted(known)

    async def _check_is_another(self, action: Patch | Delete, conflict: Conflict) -> None:
        """Find out why a precondition did not hold: servers say it in words only.

        :raises Outdated: it is the object that was meant, and somebody has changed it.
        :raises Conflict: nobody has; whatever this is about, it is not what was decided on.
        """
        cache = self._caches[action.resource]
        known = cache.store.get(action.namespace, action.name)
        try:
            found = await self._client.get(action.resource, action.name, namespace=action.namespace, type=cache.type)
        except Missing:
            return
        if identity(found).uid != action.uid:
            return
        if version_of(found) == _decided_on(action, known):
            raise conflict
        cache.store.wrote(found)
        raise Outdated


def _decided_on(action: Patch | Delete, known: Any) -> str:
    """The version of an object that something was decided on: the one that is asked for, or else the one we know."""
    asked_for = action.patch.get("metadata", {}).get("resourceVersion") if isinstance(action, Patch) else None
    return asked_for or (version_of(known) if known is not None else "")


def _refuse(action: Action, said: str, outcome: Outcome) -> None:
    outcome.refused.append((action, said))
    if not isinstance(action, Delete):  # objects are not alike: one that must stay says nothing of the next
        outcome.stopped.add(action.scope)


async def _at_once(attempts: Sequence[Coroutine[Any, Any, None]]) -> None:
    if len(attempts) == 1:
        await attempts[0]  # as in most stages: a task of its own would cost more than it does
        return
    async with asyncio.TaskGroup() as group:
        for attempt in attempts:
            group.create_task(attempt)


def _put_in_order(outcome: Outcome, before: int, stage: Sequence[Action]) -> None:
    """As they were planned, in whatever order the answers came: so is what users are told of them."""
    places = {id(action): place for place, action in enumerate(stage)}
    outcome.done[before:] = sorted(outcome.done[before:], key=lambda action: places[id(action)])
    outcome.refused.sort(key=lambda refused: places[id(refused[0])])


def _log(done: Sequence[Action]) -> None:
    """Tell of everything that was done, in one line for what was done for one reason: thousands would cost too much."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for action in done:
        reasons.setdefault((f"{verb(action).lower()}d", action.subject.noun, action.why), []).append(action.name)
    for (what, noun, why), names in reasons.items():
        for start in range(0, len(names), _NAMES_IN_A_LINE):
            log.info(what, what=noun, name=", ".join(names[start : start + _NAMES_IN_A_LINE]), why=why)


def _log_refused(refused: Sequence[tuple[Action, str]]) -> None:
    """Tell of everything that was refused, in one line for each scope: of many it is much the same."""
    scopes: dict[tuple[str, str], list[tuple[Action, str]]] = {}
    for action, said in refused:
        scopes.setdefault((verb(action), action.scope), []).append((action, said))
    for (action, said), *others in scopes.values():
        names = ", ".join(other.name for other, _ in others[:_NAMES_IN_A_LINE])
        log.warning("refused", what=refusal_message(action, said), why=action.why, **{"so_are": names} if names else {})


def _is_left_over(action: Create, owner: Any) -> bool:
    """Whether an object belonged to an earlier object of our owner's name: it is about to go, and serves nobody."""
    ours = orjson.loads(action.body)["metadata"].get("ownerReferences", ())
    return owner is not None and (owner.kind, owner.name) in [(each["kind"], each["name"]) for each in ours]


def _tells_of_closing_namespace(error: KubeError) -> bool:
    details = error.status.details if isinstance(error, ApiError) else None
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes)


class Outdated(Exception):
    """Somebody has changed an object since it was decided what to do about it."""


class Gone(Exception):
    """There is no such object any more."""


class Undone(Exception):
    """A change was taken, and is not there."""


class Altered(Exception):
    """An object was made, and is not the one that was asked for."""


class NameTaken(Exception):
    """Somebody else's object has the name that ours must have."""
