"""What every Kubernetes object carries: its metadata, its owners, and the conditions of a status."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from typing import Annotated

import msgspec

from kuberay.api.facts import Facts, Int64
from kuberay.api.model import Model


class OwnerReference(Model, frozen=True, kw_only=True):
    """The object that another belongs to; with the last owner goes the owned."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    """At most one owner is the controller: the one that manages the object."""
    block_owner_deletion: bool | None = None


class ObjectMeta(Model, frozen=True, kw_only=True):
    """The part of `metadata` that is read or written here; all else is kept in `extra`."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    """Set by the API server when deletion was asked for; the object stays until its finalizers are gone."""
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(Model, frozen=True, kw_only=True):
    """What every kind has; the kinds add their spec and status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """`metadata.name`, empty when it has none yet."""
        return self.metadata.name or ""

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty when it has none yet."""
        return self.metadata.namespace or ""


_QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


class Condition(Model, frozen=True, kw_only=True):
    """One observation about an object: whether it holds, since when, and why."""

    type: Annotated[str, Facts(required=True, max_length=316, pattern=_QUALIFIED_NAME)]
    status: Annotated[str, Facts(required=True, enum=("True", "False", "Unknown"))]
    reason: Annotated[
        str,
        Facts(required=True, min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ]
    message: Annotated[str, Facts(required=True, max_length=32768)]
    last_transition_time: Annotated[str, Facts(required=True, format="date-time")]
    """When `status` last changed; a new reason or message does not move it."""
    observed_generation: Annotated[Int64, Facts(minimum=0)] = None
    """The generation of the spec that this was seen for."""


def find_condition(conditions: list[Condition], kind: str) -> Condition | None:
    """The condition of a type, if it has been written."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def is_true(conditions: list[Condition], kind: str) -> bool:
    """Whether the condition of a type has been written and holds."""
    condition = find_condition(conditions, kind)
    return condition is not None and condition.status == "True"
