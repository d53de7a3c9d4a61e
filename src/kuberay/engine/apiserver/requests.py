"""Paths and queries of the Kubernetes API, decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kuberay.kube.errors import BadRequest, NotFound
from kuberay.kube.selectors import FieldSelector, LabelSelector, SelectorError

if TYPE_CHECKING:
    from kuberay.engine.apiserver.registry import Kind, Registry
    from kuberay.engine.apiserver.storage import Entry
    from kuberay.kube.transport import Request

MISSING = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Target:
    """What a path is about. `namespace` is `None` for all namespaces, and `""` for cluster-scoped kinds."""

    kind: Kind
    namespace: str | None
    name: str = ""
    subresource: str = ""


def find_target(registry: Registry, path: str) -> Target:
    """:raises NotFound: no kind is served there."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        raise NotFound(MISSING)
    if len(rest) < 2 or not all(rest):
        raise NotFound(MISSING)
    version, *rest = rest
    namespace: str | None = None
    # A namespace's own subresources look like a kind in that namespace.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3 or (namespace is not None and not kind.resource.namespaced):
        raise NotFound(MISSING)
    name, subresource = [*rest[1:], "", ""][:2]
    if not kind.resource.namespaced:
        namespace = ""
    elif name and namespace is None:
        raise NotFound(MISSING)
    return Target(kind, namespace, name, subresource)


@dataclass(frozen=True, slots=True)
class Query:
    """The options of reads, watches and writes. Names it does not know are ignored, as Kubernetes does."""

    values: dict[str, str]

    @staticmethod
    def of(request: Request) -> Query:
        return Query(dict(request.query))

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        return self.values.get(name, "") in ("1", "true", "True")

    def number(self, name: str) -> int | None:
        """:raises BadRequest: not a whole number."""
        text = self.values.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadRequest(f"{name} must be a whole number, found {text!r}") from None

    @property
    def dry_run(self) -> bool:
        """:raises BadRequest: a value other than `All`."""
        if self.text("dryRun") not in ("", "All"):
            raise BadRequest(f"dryRun must be All, found {self.text('dryRun')!r}")
        return self.text("dryRun") == "All"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind a list or watch is about."""

    kind: Kind
    namespace: str | None
    labels: LabelSelector
    fields: FieldSelector

    @staticmethod
    def of(target: Target, query: Query) -> Selection:
        """:raises BadRequest: a selector that cannot be read, or a field that cannot be selected by."""
        try:
            labels = LabelSelector.parse(query.text("labelSelector"))
            fields = FieldSelector.parse(query.text("fieldSelector"))
        except SelectorError as error:
            raise BadRequest(str(error)) from error
        for path in fields.paths:
            if path not in target.kind.selectable:
                raise BadRequest(f"field label not supported: {path}")
        return Selection(target.kind, target.namespace, labels, fields)

    def matches(self, entry: Entry) -> bool:
        if self.namespace is not None and entry.namespace != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(entry.obj["metadata"].get("labels")):
            return False
        return not self.fields.tests or self.fields.matches(self.kind.fields(entry.obj))
