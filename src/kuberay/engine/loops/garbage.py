"""Removes what belongs to nobody any more, as `ownerReferences` say.

An object whose owners are all gone is deleted. An owner that is deleted in the foreground waits until what it holds is
gone; one that is deleted as `Orphan` lets go of its dependents first. An owner counts as gone only when the server
says so: a cache that lags, or another object under the owner's name, is never a reason to delete.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kuberay.api.core import Metadata, Owner, Slim
from kuberay.engine.loops.kinds import served_kinds
from kuberay.kube.controller import Controller, Result
from kuberay.kube.errors import Conflict, NotFound
from kuberay.kube.informer import Informer
from kuberay.kube.queue import Queue
from kuberay.kube.request import Propagation
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from kuberay.kube.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kuberay.kube.client import Client

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
UNKNOWN_KIND_SECONDS = 30.0
_REMEMBERED = 10_000


class Owned(Slim, frozen=True, kw_only=True):
    """Any object: its metadata."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Item:
    """One object of one kind, as the queue knows it."""

    kind: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}"


class GarbageCollector:
    """Follows all kinds, custom ones as they come and go."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stores: dict[Resource, Store[Owned]] = {}
        self._followed: dict[Resource, asyncio.Task[None]] = {}
        self._definitions: Store[Owned] = Store()
        self._gone: OrderedDict[str, None] = OrderedDict()
        """Uids whose deletion was seen: their kind may not be served any more."""
        self._changed = asyncio.Event()
        self._definitions.on_change(lambda old, new: self._changed.set())
        self._controller: Controller[Item] = Controller("garbage", Queue(), self._reconcile, workers=4)

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as group:
            definitions = Informer(self._client, CUSTOM_RESOURCE_DEFINITIONS, self._definitions, type=Owned)
            group.create_task(definitions.run())
            await definitions.synced()
            await self._follow_kinds(group)
            group.create_task(self._controller.run())
            while True:
                await self._changed.wait()
                await self._follow_kinds(group)

    async def _follow_kinds(self, group: asyncio.TaskGroup) -> None:
        """Follow the kinds that are served now, and no others."""
        self._changed.clear()
        served = set(await served_kinds(self._client))
        for kind in [kind for kind in self._followed if kind not in served]:
            self._followed.pop(kind).cancel()
            for one in list(self._stores.pop(kind)):
                self._left(one)
        new = [kind for kind in served if kind not in self._followed]
        informers = []
        for kind in sorted(new, key=lambda kind: kind.name):
            store: Store[Owned] = Store(indexes={"uid": _uid, "owner": _owners})
            store.on_change(self._handler(kind))
            informers.append(Informer(self._client, kind, store, type=Owned))
            self._stores[kind] = store
            self._followed[kind] = group.create_task(informers[-1].run())
        for informer in informers:
            await informer.synced()

    def _handler(self, kind: Resource) -> Any:
        def changed(old: Owned | None, new: Owned | None) -> None:
            if new is not None and _concerns(new):
                self._controller.queue.add(Item(kind, new.metadata.namespace, new.metadata.name))
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._left(old)
            for uid in {uid for one in (old, new) if one is not None for uid in _owners(one)}:
                self._look_at_leaving(uid)

        return changed

    def _left(self, one: Owned) -> None:
        """An object is gone: those it owned have to be looked at."""
        self._gone[one.metadata.uid] = None
        while len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        for kind, dependent in self._dependents(one.metadata.uid):
            self._controller.queue.add(Item(kind, dependent.metadata.namespace, dependent.metadata.name))

    def _look_at_leaving(self, uid: str) -> None:
        """An owner that is being deleted waits for its dependents: one of them has come, changed or gone."""
        for kind, owner in self._by_uid(uid):
            if owner.metadata.deletion_timestamp is not None:
                self._controller.queue.add(Item(kind, owner.metadata.namespace, owner.metadata.name))

    def _dependents(self, uid: str) -> list[tuple[Resource, Owned]]:
        return [(kind, one) for kind, store in self._stores.items() for one in store.by("owner", uid)]

    def _by_uid(self, uid: str) -> list[tuple[Resource, Owned]]:
        return [(kind, one) for kind, store in self._stores.items() for one in store.by("uid", uid)]

    async def _reconcile(self, item: Item) -> Result | None:
        store = self._stores.get(item.kind)
        one = store.get(item.namespace, item.name) if store is not None else None
        if one is None:
            return None
        if one.metadata.deletion_timestamp is not None:
            if ORPHAN in one.metadata.finalizers:
                await self._orphan_dependents(item, one)
            elif FOREGROUND in one.metadata.finalizers:
                await self._delete_dependents(item, one)
            return None
        if one.metadata.owner_references:
            return await self._judge(item, one)
        return None

    async def _judge(self, item: Item, one: Owned) -> Result | None:
        """Delete an object that has lost all its owners; of those it has lost in part, forget the lost ones."""
        present: list[Owner] = []
        lost: list[Owner] = []
        for reference in one.metadata.owner_references:
            match await self._is_gone(reference, item.namespace):
                case None:
                    return Result(requeue_after=UNKNOWN_KIND_SECONDS)
                case True:
                    lost.append(reference)
                case False:
                    present.append(reference)
        if lost and not present:
            await self._delete(item, one)
        elif lost:
            await self._patch_metadata(item, one, {"ownerReferences": msgspec.to_builtins(present)})
        return None

    async def _is_gone(self, reference: Owner, namespace: str) -> bool | None:
        """Whether an owner is gone; `None` when its kind is not served, so nobody can tell."""
        if self._by_uid(reference.uid):
            return False
        if reference.uid in self._gone:
            return True
        kind = next((one for one in self._stores if _is_kind(one, reference)), None)
        if kind is None:
            return None
        if kind.namespaced and not namespace:
            return False  # an owner in a namespace cannot hold what is in none: nobody knows which one is meant
        try:
            found = await self._client.get(kind, reference.name, namespace=namespace or None, type=Owned)
        except NotFound:
            return True
        return found.metadata.uid != reference.uid

    async def _orphan_dependents(self, item: Item, owner: Owned) -> None:
        """Let go of all dependents. Only when none is left may the owner go: one still held would be deleted."""
        dependents = self._dependents(owner.metadata.uid)
        for kind, dependent in dependents:
            left = [one for one in dependent.metadata.owner_references if one.uid != owner.metadata.uid]
            target = Item(kind, dependent.metadata.namespace, dependent.metadata.name)
            await self._patch_metadata(target, dependent, {"ownerReferences": msgspec.to_builtins(left) or None})
        if not dependents:
            await self._release(item, owner, ORPHAN)

    async def _delete_dependents(self, item: Item, owner: Owned) -> None:
        dependents = self._dependents(owner.metadata.uid)
        blocking = [
            dependent
            for _, dependent in dependents
            for one in dependent.metadata.owner_references
            if one.uid == owner.metadata.uid and one.block_owner_deletion
        ]
        if not blocking:
            await self._release(item, owner, FOREGROUND)
            return
        for kind, dependent in dependents:
            if dependent.metadata.deletion_timestamp is None:
                target = Item(kind, dependent.metadata.namespace, dependent.metadata.name)
                await self._delete(target, dependent, foreground=True)

    async def _delete(self, item: Item, one: Owned, *, foreground: bool = False) -> None:
        """Delete exactly the object that was judged; if it has changed meanwhile, its event brings it back."""
        foreground = foreground and bool(self._dependents(one.metadata.uid))
        try:
            await self._client.delete(
                item.kind,
                item.name,
                namespace=item.namespace or None,
                uid=one.metadata.uid,
                resource_version=one.metadata.resource_version,
                propagation=Propagation.FOREGROUND if foreground else Propagation.BACKGROUND,
            )
        except (NotFound, Conflict):
            return

    async def _release(self, item: Item, one: Owned, finalizer: str) -> None:
        left = [name for name in one.metadata.finalizers if name != finalizer]
        await self._patch_metadata(item, one, {"finalizers": left or None})

    async def _patch_metadata(self, item: Item, one: Owned, change: dict[str, Any]) -> None:
        """Change exactly the object that was seen; if it has changed meanwhile, its event brings it back."""
        meta = {"uid": one.metadata.uid, "resourceVersion": one.metadata.resource_version, **change}
        try:
            await self._client.patch(item.kind, item.name, {"metadata": meta}, namespace=item.namespace or None)
        except (NotFound, Conflict):
            return


def _uid(one: Owned) -> Iterable[str]:
    return (one.metadata.uid,)


def _owners(one: Owned) -> Iterable[str]:
    return [reference.uid for reference in one.metadata.owner_references]


def _concerns(one: Owned) -> bool:
    """Whether there is anything to judge: most objects have no owner and are not being deleted."""
    return bool(one.metadata.owner_references) or one.metadata.deletion_timestamp is not None


def _is_kind(kind: Resource, reference: Owner) -> bool:
    group = reference.api_version.rpartition("/")[0]
    return kind.kind == reference.kind and kind.group == group
