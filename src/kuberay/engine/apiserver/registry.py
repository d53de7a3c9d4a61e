"""Which kinds the server serves, and what is particular about each.

A `Kind` is data: where it is served, where it is stored, what its subresources are, how it is defaulted, checked,
selected and printed. The built-in ones stand in `builtin`; a CustomResourceDefinition adds more while the server runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.engine.apiserver import defaults, validation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kuberay.engine.apiserver.columns import Columns
    from kuberay.engine.apiserver.schema import Schema
    from kuberay.engine.apiserver.storage import Object
    from kuberay.engine.apiserver.validation import Validate
    from kuberay.kube.resources import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
FIELDS_OF_ALL = frozenset(["metadata.name", "metadata.namespace"])


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path of its own, as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]


def status_of(kind: str) -> Subresource:
    """The `status` subresource of a kind."""
    return Subresource("status", kind, ("get", "patch", "update"))


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a served version differs in shape from the stored one."""

    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind in one served version."""

    resource: Resource
    table: str
    schema: Schema
    columns: Columns
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    list_kind: str = ""
    default: Callable[[Object], None] = defaults.nothing
    validate: Validate = validation.anything
    check_name: Callable[[str], str | None] = validation.dns_subdomain
    selectable: frozenset[str] = FIELDS_OF_ALL
    counts_generations: bool = False
    answers_deleted: bool = False
    """A finished delete answers with the object; otherwise with a Status."""
    is_custom: bool = False
    conversion: Conversion | None = None

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own path only."""
        return any(subresource.name == "status" for subresource in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        return next((one for one in self.subresources if one.name == name), None)

    def to_stored(self, obj: Object) -> Object:
        """A new object as sent, in the shape that is stored."""
        return self.conversion.to_stored(obj) if self.conversion else obj

    def view(self, obj: Object) -> Object:
        """A stored object in the shape of this version."""
        if self.conversion:
            return self.conversion.from_stored(obj)
        if obj.get("apiVersion") != self.resource.api_version:
            return {**obj, "apiVersion": self.resource.api_version}
        return obj

    def is_stored_shape(self, obj: Object) -> bool:
        """Whether a stored object is already what this version shows."""
        return self.conversion is None and obj.get("apiVersion") == self.resource.api_version

    def fields(self, obj: Object) -> dict[str, str]:
        """The fields that selectors may name, as text."""
        shown = self.conversion.from_stored(obj) if self.conversion else obj
        return {path: _text(shown, path) for path in self.selectable}


def _text(obj: Object, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


class Registry:
    """All served kinds, by group, version and plural."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = {self._key(kind): kind for kind in kinds}
        self.revision = 0
        """Grows with every change, so that what is derived from the kinds knows when to be made again."""

    @staticmethod
    def _key(kind: Kind) -> tuple[str, str, str]:
        return kind.resource.group, kind.resource.version, kind.resource.plural

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def kinds(self) -> list[Kind]:
        """In the order of registration: the first version of a kind is the preferred one."""
        return list(self._kinds.values())

    def replace_table(self, table: str, kinds: Iterable[Kind]) -> None:
        """Serve these kinds for a table, and no others."""
        self._kinds = {key: kind for key, kind in self._kinds.items() if kind.table != table}
        self._kinds |= {self._key(kind): kind for kind in kinds}
        self.revision += 1
