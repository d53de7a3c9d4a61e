"""What is to be done, as data: actions in stages, each with its reason.

A plan is what `decide` returns and `act` carries out. It can be printed, compared and thrown away; nothing happens by
making one. Actions of a stage may run in any order or at once; a stage starts when the one before it has succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Subject:
    """How users know a kind of thing we make or remove.

    Events are named after it (`CreatedHeadPod`, `FailedToCreateHeadPod`), and so is the reason of the condition when
    it cannot be done (`FailedCreateHeadPod`).
    """

    noun: str
    """In a sentence: `head Pod`."""
    topic: str
    """In a reason: `HeadPod`."""
    trouble: str | None = None
    """In the reason of a condition, where that is another: `AllPods`."""
    is_announced: bool = True
    """Whether a success is worth an event. KubeRay's users are used to silence about some things."""


HEAD_POD = Subject("head Pod", "HeadPod")
WORKER_POD = Subject("worker Pod", "WorkerPod")
ANY_POD = Subject("Pod", "Pod", "AllPods")
SERVICE = Subject("service", "Service")
SERVICE_ACCOUNT = Subject("service account", "ServiceAccount")
ROLE = Subject("role", "Role")
ROLE_BINDING = Subject("role binding", "RoleBinding")
AUTOSCALER_ACCOUNT = Subject("service account", "AutoscalerServiceAccount")
AUTH_SECRET = Subject("secret", "Secret", is_announced=False)
INGRESS = Subject("ingress", "Ingress")
ROUTE = Subject("route", "Route")
SERVE_SERVICE = Subject("service", "Service", is_announced=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Make an object. `body` is the whole object as JSON; its name is part of it."""

    resource: Resource
    namespace: str
    name: str
    body: bytes = field(repr=False)
    subject: Subject
    scope: str
    """What has to wait when this fails: `service`, `head`, or a worker group."""
    why: str
    takes_any: bool = False
    """Whether an object that somebody else made under this name serves as well."""
    tells_of_others: bool = False
    """Whether users should know when somebody else has made it."""
    takes_another_name: bool = False
    """Whether it may as well be made under another name, when this one turns out to be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """Make sure that an object exists which is not ours to make."""

    resource: Resource
    namespace: str
    name: str
    subject: Subject
    scope: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Change one particular object. `patch` is a JSON merge patch."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    patch: Mapping[str, Any]
    subject: Subject
    scope: str
    why: str
    is_update: bool = False
    """Whether the object is read and written whole: of some kinds KubeRay's rights allow updates, and no patches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove one particular object: another one that took its name meanwhile stays."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    subject: Subject
    scope: str
    why: str
    is_fenced: bool = False
    """Whether it is right only if no newer fact is still on its way to us: a healthy Pod goes, chosen by counting."""
    is_forced: bool = False
    """Whether it goes without the word of its node: that node is down for certain."""


Action = Create | Require | Patch | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatus:
    """Tell users how an object is doing. `patch` is a JSON merge patch of the status."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    patch: Mapping[str, Any]
    is_urgent: bool
    """Whether somebody may be waiting for it; otherwise it can wait for more to change."""
    leads_on: bool
    """Whether it is a step, and what comes next is decided from it; otherwise it is the last word for now."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Tell users something in the list of an object's events."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    once: str = ""
    """When set: told only once under this name, as long as it is remembered."""
    is_about_namespace: bool = False
    """Whether it is told of the object's namespace: while that is being deleted, it takes no events of its objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything to be done about one object now. An empty plan is a settled object."""

    stages: tuple[tuple[Action, ...], ...] = ()
    status: PatchStatus | None = None
    events: tuple[EmitEvent, ...] = ()
    told: frozenset[str] = frozenset()
    """The names under which something is told once, now or before, and still so; others need not be remembered."""
    held: frozenset[str] = frozenset()
    """Scopes that were refused lately and are not tried yet."""
    look_again: float | None = None
    """Seconds after which time alone may have changed what is to be done."""
    nodes: frozenset[str] = frozenset()
    """Nodes that have to be looked at before more can be decided: no cache tells of them."""

    @property
    def actions(self) -> list[Action]:
        """The actions of all stages, in order."""
        return [action for stage in self.stages for action in stage]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.stages and self.status is None and not self.events
