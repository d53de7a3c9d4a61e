"""Creating, changing and deleting objects: the rules of metadata, in one place and without HTTP.

Everything here runs to its end without waiting, so a rule that reads before it writes (a stale resourceVersion, a
taken name, the last finalizer) cannot be overtaken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from kuberay.engine.apiserver import custom, events, problems, validation
from kuberay.engine.apiserver.ages import timestamp
from kuberay.engine.apiserver.deletion import DeleteOptions, check_preconditions, is_finished, marked
from kuberay.engine.apiserver.priorities import Priorities
from kuberay.engine.apiserver.quotas import Quotas
from kuberay.engine.apiserver.services import Allocator
from kuberay.engine.apiserver.storage import Entry
from kuberay.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    StatusCause,
    StatusDetails,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime

    from kuberay.engine.apiserver.registry import Kind, Registry
    from kuberay.engine.apiserver.storage import MemoryStorage, Object

SYSTEM_NAMESPACES = ("default", "kube-system")
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, so no words."""
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
"""Keeps a volume claim until no Pod uses it any more."""
_GENERATED_LENGTH = 58
_ATTEMPTS = 8
_PARTS = {"status": "status", "finalize": "spec"}
"""Which part of an object a write to a subresource changes."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of a delete: the object is gone, or it is marked and stays for now."""

    entry: Entry
    gone: bool


class Objects:
    """The objects of a storage, changed by the rules of their kinds."""

    def __init__(
        self,
        storage: MemoryStorage,
        registry: Registry,
        *,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        rng: random.Random,
    ) -> None:
        self._storage = storage
        self._registry = registry
        self._clock = clock
        self._new_uid = new_uid
        self._rng = rng
        self._services = Allocator(storage, rng)
        self._quotas = Quotas(storage)
        self._priorities = Priorities(storage)
        for entry in storage.entries(custom.TABLE):
            registry.replace_table(custom.table_of(entry.obj), custom.kinds(entry.obj))

    def get(self, kind: Kind, namespace: str, name: str) -> Entry:
        """:raises NotFound: there is no such object."""
        entry = self._storage.get(kind.table, namespace, name)
        if entry is None:
            raise NotFound(f'{kind.resource.name} "{name}" not found', details=_details(kind, name))
        return entry

    def create(self, kind: Kind, namespace: str, obj: Object, *, dry_run: bool = False) -> Entry:
        """Store a new object. Takes over `obj`, which has been pruned to the kind's schema.

        :raises AlreadyExists: the name is taken.
        :raises Invalid: the object breaks a rule of its kind.
        """
        meta = self._metadata(obj)
        if meta.pop("resourceVersion", ""):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation"):
            meta.pop(name, None)
        self._place(kind, namespace, meta)
        if kind.has_status:
            obj.pop("status", None)
        meta["uid"] = self._new_uid()
        meta["creationTimestamp"] = timestamp(self._clock())
        if kind.counts_generations:
            meta["generation"] = 1
        is_generated = not meta.get("name") and bool(meta.get("generateName"))
        if is_generated:
            meta["name"] = self._free_name(kind, namespace, meta["generateName"])
        self._accept(kind, obj, None)
        name = meta["name"]
        if self._storage.get(kind.table, namespace, name) is not None:
            raise AlreadyExists(f'{kind.resource.name} "{name}" already exists', details=_details(kind, name))
        self._quotas.check(kind, namespace, name)
        if dry_run:
            return Entry(kind.table, namespace, name, 0, obj, orjson.dumps(obj))
        entry = self._storage.put(kind.table, namespace, name, obj)
        self._after_write(entry)
        return entry

    def update(self, kind: Kind, entry: Entry, obj: Object, *, subresource: str = "", dry_run: bool = False) -> Entry:
        """Store a changed object, or one part of it. Takes over `obj`. What changes nothing is not written.

        :raises Conflict: the object was changed since the caller read it.
        :raises Invalid: the object breaks a rule of its kind.
        """
        old = entry.obj
        meta = self._metadata(obj)
        self._check_identity(kind, entry, meta)
        if part := _PARTS.get(subresource):
            obj = {**orjson.loads(entry.body), part: obj.get(part, {})}
        else:
            self._keep_metadata(kind, old["metadata"], meta)
            if kind.has_status:
                obj.pop("status", None)
                if "status" in old:
                    obj["status"] = old["status"]
        if subresource != "finalize":
            self._accept(kind, obj, old)
        meta = obj["metadata"]
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        if kind.counts_generations and _is_another(obj, old, kind):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        if obj == old or dry_run:
            return entry if obj == old else Entry(entry.table, entry.namespace, entry.name, 0, obj, orjson.dumps(obj))
        if is_finished(obj):
            return self._remove(entry, obj)
        stored = self._storage.put(entry.table, entry.namespace, entry.name, obj)
        self._after_write(stored)
        return stored

    def delete(self, kind: Kind, entry: Entry, options: DeleteOptions) -> Deleted:
        """Remove an object, or mark it when a finalizer or a node has to finish first.

        :raises Conflict: it is not the object that was meant.
        """
        old = entry.obj
        check_preconditions(kind, old["metadata"], options)
        if kind.table == "namespaces" and entry.name in SYSTEM_NAMESPACES:
            raise Forbidden(
                f'namespaces "{entry.name}" is forbidden: this namespace may not be deleted',
                details=_details(kind, entry.name),
            )
        if kind.table == custom.TABLE and not options.dry_run:
            old = self._empty_definition(entry)
        obj = marked(kind, old, options, self._clock())
        gone = is_finished(obj)
        if options.dry_run:
            return Deleted(Entry(entry.table, entry.namespace, entry.name, 0, obj, orjson.dumps(obj)), gone)
        if gone:
            # Only a Pod that goes at once still gets a deletion time: its watchers tell an end from a loss by it.
            return Deleted(self._remove(entry, obj if kind.table == "pods" else None), gone=True)
        if obj == entry.obj:
            return Deleted(entry, gone=False)
        return Deleted(self._storage.put(entry.table, entry.namespace, entry.name, obj), gone=False)

    def _metadata(self, obj: Object) -> Object:
        meta = obj.setdefault("metadata", {})
        if not isinstance(meta, dict):
            raise BadRequest("metadata is not an object")
        return meta

    def _place(self, kind: Kind, namespace: str, meta: Object) -> None:
        """Bind a new object to the namespace of its path, which has to be there."""
        if not kind.resource.namespaced:
            meta.pop("namespace", None)
            return
        if meta.get("namespace", namespace) != namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
        home = self._storage.get("namespaces", "", namespace)
        if home is None:
            raise NotFound(
                f'namespaces "{namespace}" not found', details=StatusDetails(name=namespace, kind="namespaces")
            )
        if "deletionTimestamp" in home.obj["metadata"]:
            name = meta.get("name", "")
            cause = StatusCause(
                reason="NamespaceTerminating",
                message=f"namespace {namespace} is being terminated",
                field="metadata.namespace",
            )
            raise Forbidden(
                f'{kind.resource.name} "{name}" is forbidden: unable to create new content in namespace {namespace}'
                " because it is being terminated",
                details=StatusDetails(name=name, group=kind.resource.group, kind=kind.resource.plural, causes=[cause]),
            )

    def _free_name(self, kind: Kind, namespace: str, base: str) -> str:
        for _ in range(_ATTEMPTS):
            name = base[:_GENERATED_LENGTH] + "".join(self._rng.choices(NAME_CHARACTERS, k=5))
            if self._storage.get(kind.table, namespace, name) is None:
                return name
        raise AlreadyExists(f'{kind.resource.name}: no free name for "{base}" was found, try again')

    def _accept(self, kind: Kind, obj: Object, old: Object | None) -> None:
        """Default and check an object that is about to be stored."""
        meta = obj["metadata"]
        found = (
            list(validation.metadata(meta, kind.check_name))
            if old is None
            else list(_metadata_changes(kind, meta, old))
        )
        if kind.is_custom:
            if old is None:
                self._check_definition(kind)
            kind.schema.default(obj)
            found += kind.schema.validate(obj, old)
        else:
            found += self._accept_builtin(kind, obj, old)
        if found:
            raise problems.refusal(kind.resource, meta.get("name", ""), found)

    def _accept_builtin(self, kind: Kind, obj: Object, old: Object | None) -> list[problems.Problem]:
        if old is None:
            self._admit(kind, obj)
        kind.default(obj)
        found: list[problems.Problem] = []
        if kind.table == custom.TABLE:
            custom.default(obj)
            found = list(custom.check(obj, self._registry))
            if not found:
                custom.establish(obj, self._clock())
        elif kind.table == "services":
            found = self._services.allocate(obj, old)
        return found + list(kind.validate(obj, old))

    def _admit(self, kind: Kind, obj: Object) -> None:
        """What a new object gets from other objects, or for the sake of them."""
        if kind.table == "pods":
            self._priorities.apply(obj)
        elif kind.table == "persistentvolumeclaims":
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if CLAIM_FINALIZER not in finalizers:
                finalizers.append(CLAIM_FINALIZER)

    def _check_definition(self, kind: Kind) -> None:
        definition = self._storage.get(custom.TABLE, "", kind.table)
        if definition is not None and "deletionTimestamp" in definition.obj["metadata"]:
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating")

    def _check_identity(self, kind: Kind, entry: Entry, meta: Object) -> None:
        current = entry.obj["metadata"]
        if meta.get("name", entry.name) != entry.name:
            raise BadRequest(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({entry.name})"
            )
        if meta.get("namespace", entry.namespace) != entry.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        if meta.get("uid", current["uid"]) != current["uid"]:
            reason = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {current['uid']}"
        elif meta.get("resourceVersion") not in (None, "", current["resourceVersion"]):
            reason = "the object has been modified; please apply your changes to the latest version and try again"
        else:
            return
        raise Conflict(
            f'Operation cannot be fulfilled on {kind.resource.name} "{entry.name}": {reason}',
            details=_details(kind, entry.name),
        )

    @staticmethod
    def _keep_metadata(kind: Kind, old: Object, new: Object) -> None:
        """Fields of metadata that belong to the server stay as they are."""
        for name in ("selfLink", "managedFields"):
            new.pop(name, None)
        for name in (
            *("name", "namespace", "uid", "creationTimestamp", "generation", "generateName"),
            *("deletionTimestamp", "deletionGracePeriodSeconds"),
        ):
            if name in old:
                new[name] = old[name]
            else:
                new.pop(name, None)
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if name in new and not new[name]:
                del new[name]

    def _after_write(self, entry: Entry) -> None:
        if entry.table == custom.TABLE:
            self._registry.replace_table(custom.table_of(entry.obj), custom.kinds(entry.obj))
        elif entry.table == "events" and entry.version % events.SWEEP_EVERY == 0:
            now = self._clock()
            for one in self._storage.entries("events"):
                if events.is_old(one.obj, now):
                    self._storage.remove("events", one.namespace, one.name)
        self._quotas.tell(entry)

    def _remove(self, entry: Entry, last: Object | None = None) -> Entry:
        """Take an object out of the storage, and its definition with it when that only waited for this."""
        removed = self._storage.remove(entry.table, entry.namespace, entry.name, last)
        self._quotas.tell(removed)
        if entry.table == custom.TABLE:
            self._registry.replace_table(custom.table_of(entry.obj), ())
        definition = self._storage.get(custom.TABLE, "", entry.table)
        if definition is not None and "deletionTimestamp" in definition.obj["metadata"]:
            self._finish_definition(definition)
        return removed

    def _empty_definition(self, entry: Entry) -> Object:
        """Delete all objects of a definition; it stays, marked, while one of them has a finalizer."""
        kind = next((one for one in self._registry.kinds() if one.table == entry.name), None)
        for instance in self._storage.entries(entry.name) if kind else ():
            assert kind is not None
            self.delete(kind, instance, DeleteOptions())
        if not self._storage.entries(entry.name):
            return entry.obj
        meta = entry.obj["metadata"]
        finalizers = [*meta.get("finalizers", ())]
        if custom.CLEANUP_FINALIZER not in finalizers:
            finalizers.append(custom.CLEANUP_FINALIZER)
        return {**entry.obj, "metadata": {**meta, "finalizers": finalizers}}

    def _finish_definition(self, definition: Entry) -> None:
        if self._storage.entries(definition.name):
            return
        meta = dict(definition.obj["metadata"])
        left = [one for one in meta.get("finalizers", ()) if one != custom.CLEANUP_FINALIZER]
        meta.pop("finalizers", None)
        if left:
            meta["finalizers"] = left
        obj = {**definition.obj, "metadata": meta}
        if is_finished(obj):
            self._remove(definition, obj)
        else:
            self._storage.put(definition.table, "", definition.name, obj)


def _details(kind: Kind, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=kind.resource.group, kind=kind.resource.plural)


def _is_another(obj: Object, old: Object, kind: Kind) -> bool:
    """Whether somebody wants something else than before.

    Defaults that a version has and the one that was written in has not are nobody's wish.
    """
    if _desired(obj, kind) == _desired(old, kind):
        return False
    if not kind.is_custom:
        return True
    before = orjson.loads(orjson.dumps(old))
    kind.schema.default(before)
    return _desired(obj, kind) != _desired(before, kind)


def _desired(obj: Object, kind: Kind) -> Object:
    """The part of an object whose changes count as a new generation."""
    left_out = ("metadata", "status", "apiVersion") if kind.has_status else ("metadata", "apiVersion")
    return {key: value for key, value in obj.items() if key not in left_out}


def _metadata_changes(kind: Kind, meta: Object, old: Object) -> list[problems.Problem]:
    found = list(validation.metadata(meta, lambda name: None))
    before = old["metadata"].get("finalizers", ())
    if "deletionTimestamp" in old["metadata"]:
        added = [one for one in meta.get("finalizers", ()) if one not in before]
        if added:
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            found.append(problems.forbidden("metadata.finalizers", detail))
    return found
