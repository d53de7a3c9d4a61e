"""What a cluster needs beside its Pods and its head Service: which objects are missing, and which have drifted.

Most of them may as well be the user's own: an account, a role or a Secret that already has the name is taken as it is
and never changed. Not so the Service for the hosts of replicas, for somebody else's does not lead to them. What an
earlier cluster of the same name left behind is about to go, and is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from kuberay.api.partial import Ingress
from kuberay.build import auth, autoscaler, ingress, names, services
from kuberay.controllers.drift import drift
from kuberay.controllers.kinds import ROUTES
from kuberay.controllers.plan import (
    AUTH_SECRET,
    AUTOSCALER_ACCOUNT,
    INGRESS,
    ROLE,
    ROLE_BINDING,
    ROUTE,
    SERVE_SERVICE,
    SERVICE,
    SERVICE_ACCOUNT,
    Create,
    EmitEvent,
    Patch,
    Require,
)
from kuberay.kube.resources import INGRESSES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kuberay.api.v1 import RayCluster
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import Action, Subject
    from kuberay.controllers.raycluster.observe import Seen
    from kuberay.kube.resources import Resource

Json = dict[str, Any]

ACCOUNT_SCOPE = "service account"
ROLE_SCOPE = "role"
BINDING_SCOPE = "role binding"
SECRET_SCOPE = "secret"
SERVE_SCOPE = "serve service"

WAYS_IN = (INGRESSES, ROUTES)
"""The kinds that a cluster can do without: nothing but its way in depends on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """An object that a cluster shall have."""

    resource: Resource
    name: str
    build: Callable[[], Json]
    subject: Subject
    scope: str
    takes_any: bool = True
    """Whether an object that somebody else made under its name serves as well."""
    is_for_pods: bool = False
    """Whether Pods cannot do without it."""
    comes_second: bool = False
    """Whether it refers to others, and has to wait for them."""


@dataclass(slots=True)
class Needs:
    """What is to be done about the children of a cluster."""

    first: list[Action]
    second: list[Action]
    blocks_pods: bool = False
    """Whether something that Pods cannot do without is neither there nor about to be made."""


def child_names(cluster: RayCluster) -> tuple[tuple[Resource, str], ...]:
    """Every child that a cluster may have: where an observer has to look."""
    return (
        (SERVICE_ACCOUNTS, autoscaler.account_name(cluster)),
        (ROLES, names.role(cluster)),
        (ROLE_BINDINGS, names.role(cluster)),
        (SECRETS, names.auth_secret(cluster)),
        (INGRESSES, names.ingress(cluster)),
        (ROUTES, names.route(cluster)),
        (SERVICES, names.headless_service(cluster)),
        (SERVICES, names.serve_service(cluster)),
    )


def wanted(cluster: RayCluster, options: ControllerOptions, entropy: bytes) -> Iterator[Child]:
    """The children that a cluster shall have."""
    head = cluster.spec.head_group_spec
    if cluster.spec.is_autoscaling:
        yield Child(
            resource=SERVICE_ACCOUNTS,
            name=autoscaler.account_name(cluster),
            build=partial(autoscaler.service_account, cluster),
            subject=SERVICE_ACCOUNT,
            scope=ACCOUNT_SCOPE,
            is_for_pods=True,
        )
        yield Child(
            resource=ROLES,
            name=names.role(cluster),
            build=partial(autoscaler.role, cluster),
            subject=ROLE,
            scope=ROLE_SCOPE,
            is_for_pods=True,
        )
        yield Child(
            resource=ROLE_BINDINGS,
            name=names.role(cluster),
            build=partial(autoscaler.role_binding, cluster),
            subject=ROLE_BINDING,
            scope=BINDING_SCOPE,
            is_for_pods=True,
            comes_second=True,
        )
    if auth.needs_secret(cluster):
        yield Child(
            resource=SECRETS,
            name=names.auth_secret(cluster),
            build=partial(auth.secret, cluster, entropy),
            subject=AUTH_SECRET,
            scope=SECRET_SCOPE,
            is_for_pods=True,
        )
    if head.enable_ingress:
        yield _way_in(cluster, options)
    if services.wants_headless(cluster):
        yield Child(
            resource=SERVICES,
            name=names.headless_service(cluster),
            build=partial(services.headless, cluster),
            subject=SERVICE,
            scope="headless service",
            takes_any=False,
        )
    if services.wants_serve(cluster):
        yield Child(
            resource=SERVICES,
            name=names.serve_service(cluster),
            build=partial(services.serve, cluster),
            subject=SERVE_SERVICE,
            scope=SERVE_SCOPE,
        )


def needs(seen: Seen, options: ControllerOptions, entropy: bytes, is_held: Callable[[str], bool]) -> Needs:
    """What is to be done so that a cluster has its children.

    :param is_held: whether a scope was refused lately, and has to wait.
    """
    found = Needs([], [])
    for child in wanted(seen.cluster, options, entropy):
        if child.resource in seen.unknown:
            continue  # it may well be there
        key = (child.resource, child.name)
        present = seen.children.get(key)
        if present is not None and is_left_over(present, seen.cluster):
            found.blocks_pods |= child.is_for_pods
            continue
        action = _action(seen.cluster, child, present) if key not in seen.stand_ins else None
        if action is None:
            continue
        if is_held(child.scope):
            found.blocks_pods |= child.is_for_pods
        else:
            (found.second if child.comes_second else found.first).append(action)
    return found


def _action(cluster: RayCluster, child: Child, present: Any) -> Action | None:
    """What brings a child about, or brings it back to what it shall be."""
    if isinstance(present, Ingress):
        if _is_ours(present, cluster):
            return _repair(cluster, child, present)
    elif present is not None:
        return None
    if child.resource == SERVICE_ACCOUNTS and autoscaler.given_account(cluster):
        return Require(
            resource=child.resource,
            namespace=cluster.namespace,
            name=child.name,
            subject=AUTOSCALER_ACCOUNT,
            scope=child.scope,
            why="the head's template names this account, so it has to be there",
        )
    return Create(
        resource=child.resource,
        namespace=cluster.namespace,
        name=child.name,
        body=orjson.dumps(child.build()),
        subject=child.subject,
        scope=child.scope,
        why=f"the cluster has no {child.scope}",
        takes_any=child.takes_any,
        tells_of_others=child.resource == INGRESSES,
    )


def _repair(cluster: RayCluster, child: Child, present: Ingress) -> Patch | None:
    """The change that brings an Ingress back to what it shall be. A class that the server filled in is kept."""
    wanted = child.build()
    if "ingressClassName" in present.spec:
        wanted["spec"].setdefault("ingressClassName", present.spec["ingressClassName"])
    changes = drift(present, wanted)
    if not changes:
        return None
    return Patch(
        resource=child.resource,
        namespace=cluster.namespace,
        name=child.name,
        uid=present.metadata.uid,
        patch=changes,
        subject=child.subject,
        scope=child.scope,
        why="it is not as the cluster's spec and annotations say",
    )


def unknown_events(seen: Seen, options: ControllerOptions) -> Iterator[EmitEvent]:
    """Told of a way in that is not made because nobody can say whether it is there."""
    if not seen.unknown or not seen.cluster.spec.head_group_spec.enable_ingress:
        return
    way = _way_in(seen.cluster, options)
    if way.resource in seen.unknown:
        name = f"{way.resource.kind} {seen.cluster.namespace}/{way.name}"
        note = f"{name} has to wait: the operator cannot list {way.resource.plural} at the moment; its log says why"
        reason = f"FailedToCreate{way.subject.topic}"
        yield EmitEvent(type="Warning", reason=reason, action="Create", note=note, once=f"{way.scope} is unknown")


def _way_in(cluster: RayCluster, options: ControllerOptions) -> Child:
    return _route(cluster) if options.uses_routes else _ingress(cluster)


def _ingress(cluster: RayCluster) -> Child:
    return Child(
        resource=INGRESSES,
        name=names.ingress(cluster),
        build=partial(ingress.ingress, cluster),
        subject=INGRESS,
        scope="ingress",
    )


def _route(cluster: RayCluster) -> Child:
    return Child(
        resource=ROUTES,
        name=names.route(cluster),
        build=partial(ingress.route, cluster),
        subject=ROUTE,
        scope="route",
    )


def _is_ours(present: Ingress, cluster: RayCluster) -> bool:
    owner = present.metadata.controller
    return owner is not None and owner.uid == cluster.metadata.uid


def is_left_over(present: Any, cluster: RayCluster) -> bool:
    """Whether it is of an earlier cluster of the same name, and about to go."""
    owner = present.metadata.controller
    return (
        owner is not None
        and (owner.kind, owner.name) == ("RayCluster", cluster.name)
        and owner.uid != cluster.metadata.uid
    )
