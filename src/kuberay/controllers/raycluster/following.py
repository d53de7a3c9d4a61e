"""How the Services of a cluster follow its spec: in place where that can be done, or by telling which fields wait.

Only Services that tell what they were made from follow. Those that another operator has made, or a user, are left as
they are. What leads to the head's ports and finds it by its labels goes by the running head, and changes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.api.core import Service
from kuberay.api.templates import mapping, text
from kuberay.build import labels, names, origin, services
from kuberay.controllers.kinds import ROUTES
from kuberay.controllers.plan import SERVE_SERVICE, SERVICE, Patch
from kuberay.kube.resources import INGRESSES, SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.api.partial import Ingress, PartialObject
    from kuberay.controllers.options import ControllerOptions
    from kuberay.controllers.plan import Subject
    from kuberay.controllers.raycluster.observe import Seen

Json = dict[str, Any]

_STAYS = "stays until it is deleted"
_TYPES = (origin.SERVICE_TYPE, f"{origin.HEAD_SERVICE_SPEC}type")
_FOR_GOOD = (f"{origin.HEAD_SERVICE_SPEC}clusterIP", f"{origin.HEAD_SERVICE_SPEC}clusterIPs")
_OF_THE_HEAD = (origin.HEAD_LABELS, origin.TEMPLATE_LABELS, origin.CONTAINER_PORTS)
_GO_BY_THE_HEAD = (*_OF_THE_HEAD, f"{origin.HEAD_SERVICE_SPEC}ports", f"{origin.HEAD_SERVICE_SPEC}selector")


@dataclass(frozen=True, slots=True)
class _Followed:
    """A Service and the spec that it shall follow."""

    service: Service
    before: str
    after: str
    """What it was made from, and what it would be made from now."""

    @property
    def fields(self) -> list[str]:
        """The fields that have changed since."""
        return origin.changed(self.before, self.after)


def changes(seen: Seen, options: ControllerOptions, scopes: dict[str, str]) -> list[Patch]:
    """What brings Services up to date, as far as they can be.

    :param scopes: under which a refusal is kept, by the name of the Service.
    """
    found: list[Patch] = []
    for followed in _followed(seen):
        name = followed.service.name
        fields = [field for field in followed.fields if field not in _waiting(seen, followed)]
        if fields:
            is_head = name == names.head_service(seen.cluster)
            wanted = services.head(seen.cluster, options.build) if is_head else services.serve(seen.cluster)
            subject = SERVICE if is_head else SERVE_SERVICE
            found.append(_patch(followed, wanted, fields, subject, scopes[name]))
    return found


def waiting_fields(seen: Seen) -> dict[str, list[str]]:
    """The fields that a Service cannot follow while it lives, by its name."""
    found = {each.service.name: _unchangeable(each, seen) for each in _followed(seen)}
    service = seen.head_service
    if service is not None and _is_ours(service, seen) and labels.MADE_FROM not in service.metadata.annotations:
        found[service.name] = list(_differences(service, seen))
    return {name: [f"spec.{field}" for field in fields] for name, fields in found.items() if fields}


def fields_that_wait_for_a_head(seen: Seen) -> list[str]:
    """The fields that the head Service follows with the next head, but for those that the head waits for as well."""
    return [
        f"spec.{field}"
        for followed in _followed(seen)
        for field in _held_by_the_head(followed, seen)
        if field.startswith(origin.HEAD_SERVICE_SPEC)
    ]


def left_over(seen: Seen) -> list[str]:
    """What nobody asks for any more: it stays, as with KubeRay, but its user should know."""
    ways = ((INGRESSES, names.ingress(seen.cluster)), (ROUTES, names.route(seen.cluster)))
    found = []
    if not seen.cluster.spec.head_group_spec.enable_ingress:
        found += [
            f"spec.headGroupSpec.enableIngress: {resource.kind} {name} {_STAYS}"
            for resource, name in ways
            if (child := seen.children.get((resource, name))) is not None and _is_ours(child, seen)
        ]
    serve = seen.children.get((SERVICES, names.serve_service(seen.cluster)))
    if isinstance(serve, Service) and _is_ours(serve, seen) and not services.wants_serve(seen.cluster):
        found.append(f"metadata.annotations[{labels.ENABLE_SERVE_SERVICE}]: Service {serve.name} {_STAYS}")
    return found + [
        f"spec.headGroupSpec.headService.metadata.name: running Pods know their head by Service {name}, which {_STAYS}"
        for name in _former_head_services(seen)
    ]


def _former_head_services(seen: Seen) -> list[str]:
    """Those under the names that the spec gave before."""
    return [
        name
        for (resource, name), child in seen.children.items()
        if resource == SERVICES
        and child.metadata.labels.get(labels.NODE_TYPE) == names.HEAD
        and name != names.head_service(seen.cluster)
    ]


def _followed(seen: Seen) -> list[_Followed]:
    origins = seen.blueprint.origins
    serve = seen.children.get((SERVICES, names.serve_service(seen.cluster)))
    found: list[_Followed] = []
    wanted: list[tuple[object, str]] = [(seen.head_service, origins.head_service)]
    if services.wants_serve(seen.cluster):
        wanted.append((serve, origins.serve_service))
    for service, after in wanted:
        if isinstance(service, Service) and _is_ours(service, seen):
            before = service.metadata.annotations.get(labels.MADE_FROM, "")
            if before not in ("", after):
                found.append(_Followed(service, before, after))
    return found


def _is_ours(child: Service | Ingress | PartialObject, seen: Seen) -> bool:
    owner = child.metadata.controller
    return owner is not None and owner.uid == seen.cluster.metadata.uid


def _differences(service: Service, seen: Seen) -> Iterator[str]:
    """What the head Service of another operator lacks, as far as that shows: operators never changed theirs."""
    if (service.spec.type or "ClusterIP") != (_type(seen) or "ClusterIP"):
        yield origin.SERVICE_TYPE if _given_type(seen) is None else _TYPES[1]
    for key, value in seen.cluster.spec.head_service_annotations.items():
        if service.metadata.annotations.get(key) != value:
            yield f"{origin.SERVICE_ANNOTATIONS}{key}"


def _type(seen: Seen) -> str | None:
    return _given_type(seen) or seen.cluster.spec.head_group_spec.service_type


def _given_type(seen: Seen) -> str | None:
    return text(mapping(seen.cluster.spec.head_group_spec.head_service, "spec"), "type") or None


def _waiting(seen: Seen, followed: _Followed) -> list[str]:
    """The changed fields that the Service does not follow now."""
    return _unchangeable(followed, seen) + _held_by_the_head(followed, seen)


def _held_by_the_head(followed: _Followed, seen: Seen) -> list[str]:
    """What goes by the running head, while that is not the one that the spec describes."""
    if _is_head_up_to_date(seen):
        return []
    return [field for field in followed.fields if field.startswith(_GO_BY_THE_HEAD)]


def _unchangeable(followed: _Followed, seen: Seen) -> list[str]:
    """An address cannot be given to a Service that has none, nor another one to one that has."""
    needs_address = followed.service.spec.cluster_ip == "None" and _type(seen) not in (None, "", "ClusterIP")
    return [field for field in followed.fields if field in _FOR_GOOD or (needs_address and field in _TYPES)]


def _is_head_up_to_date(seen: Seen) -> bool:
    """Whether the head that runs, if one does, has the labels and ports that the spec gives it, as far as one knows."""
    wanted = seen.blueprint.origins.head
    for head in seen.heads:
        made_from = head.metadata.annotations.get(labels.MADE_FROM, "")
        if not made_from or any(field.startswith(_OF_THE_HEAD) for field in origin.changed(made_from, wanted)):
            return False
    return True


def _patch(followed: _Followed, wanted: Json, fields: list[str], subject: Subject, scope: str) -> Patch:
    service = followed.service
    annotations: Json = {labels.MADE_FROM: origin.with_some(followed.before, followed.after, fields)}
    own_labels: Json = {}
    spec: Json = {}
    for field in fields:
        if field.startswith((origin.SERVICE_ANNOTATIONS, origin.HEAD_SERVICE_ANNOTATIONS)):
            key = field.removeprefix(origin.SERVICE_ANNOTATIONS).removeprefix(origin.HEAD_SERVICE_ANNOTATIONS)
            annotations[key] = wanted["metadata"]["annotations"].get(key)
        elif field.startswith(origin.HEAD_SERVICE_LABELS):
            key = field.removeprefix(origin.HEAD_SERVICE_LABELS)
            own_labels[key] = wanted["metadata"]["labels"].get(key)
        else:
            key = _SPEC.get(field, field.removeprefix(origin.HEAD_SERVICE_SPEC))
            spec[key] = wanted["spec"].get(key)
            if field == origin.TEMPLATE_LABELS:
                own_labels |= wanted["metadata"]["labels"]
    return Patch(
        resource=SERVICES,
        namespace=service.metadata.namespace,
        name=service.name,
        uid=service.metadata.uid,
        patch={"metadata": {"annotations": annotations, "labels": own_labels}, "spec": spec},
        subject=subject,
        scope=scope,
        why="changed in the spec: " + ", ".join(f"spec.{field}" for field in fields),
    )


_SPEC = {
    origin.SERVICE_TYPE: "type",
    origin.CONTAINER_PORTS: "ports",
    origin.HEAD_LABELS: "selector",
    origin.TEMPLATE_LABELS: "selector",
}
"""What a field of the cluster is in a Service."""
