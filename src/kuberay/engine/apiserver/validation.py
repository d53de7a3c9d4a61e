"""Checks of the built-in kinds beyond types: names, labels, what a Pod or Service needs, what may not change."""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Any

from kuberay.engine.apiserver import problems
from kuberay.engine.apiserver.defaults import decode_bytes
from kuberay.kube import quantity
from kuberay.kube.selectors import is_label_key, is_label_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kuberay.engine.apiserver.problems import Problem
    from kuberay.engine.apiserver.storage import Object

    Validate = Callable[[Object, Object | None], Iterator[Problem]]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def dns_label(name: str) -> str | None:
    """What is wrong with a name that must be a DNS-1123 label, or `None`."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if not _LABEL.fullmatch(name):
        return (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
            " end with an alphanumeric character"
        )
    return None


def dns_label_1035(name: str) -> str | None:
    """What is wrong with a name that must be a DNS-1035 label, or `None`."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if not _LABEL_1035.fullmatch(name):
        return (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character"
        )
    return None


def dns_subdomain(name: str) -> str | None:
    """What is wrong with a name that must be a DNS-1123 subdomain, or `None`."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    if not _SUBDOMAIN.fullmatch(name):
        return (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
            " start and end with an alphanumeric character"
        )
    return None


def path_segment(name: str) -> str | None:
    """Anything that can stand between two slashes: what roles may be called."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    for sign in "/%":
        if sign in name:
            return f"may not contain '{sign}'"
    return None


def metadata(meta: Object, check_name: Callable[[str], str | None]) -> Iterator[Problem]:
    """Names, labels, annotations, finalizers and owners, as every kind has them."""
    name = meta.get("name", "")
    if not name:
        yield problems.required("metadata.name", "name or generateName is required")
    elif wrong := check_name(name):
        yield problems.invalid("metadata.name", name, wrong)
    for key, value in meta.get("labels", {}).items():
        if not is_label_key(key):
            yield problems.invalid(
                "metadata.labels", key, "not a label key: name, or dns.prefix/name, of at most 63 characters"
            )
        if not is_label_value(value):
            yield problems.invalid("metadata.labels", value, "not a label value: at most 63 characters of A-Za-z0-9_.-")
    for key in meta.get("annotations", {}):
        if not is_label_key(key.lower()):
            yield problems.invalid("metadata.annotations", key, "not an annotation key: name, or dns.prefix/name")
    if sum(len(k) + len(v) for k, v in meta.get("annotations", {}).items()) > 256 * 1024:
        yield problems.Problem(
            "metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes"
        )
    for index, finalizer in enumerate(meta.get("finalizers", ())):
        if not is_label_key(finalizer):
            yield problems.invalid(f"metadata.finalizers[{index}]", finalizer, "not a qualified name")
    yield from _owners(meta.get("ownerReferences", ()))


def _owners(owners: list[Object] | tuple[()]) -> Iterator[Problem]:
    controllers = 0
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield problems.required(f"metadata.ownerReferences[{index}].{key}")
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        yield problems.invalid("metadata.ownerReferences", controllers, "only one owner can be the controller")


def pod(obj: Object, old: Object | None) -> Iterator[Problem]:
    """A Pod has containers with names and images, and hardly changes once it is there."""
    spec = obj.get("spec", {})
    if not spec.get("containers"):
        yield problems.required("spec.containers")
    volumes = {volume.get("name") for volume in spec.get("volumes", ())}
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield from _container(container, f"spec.{kind}[{index}]", seen, volumes)
    seen = set()
    for index, volume in enumerate(spec.get("volumes", ())):
        yield from _name(volume, f"spec.volumes[{index}]", seen)
    if old is not None and _frozen(old.get("spec", {})) != _frozen(spec):
        yield problems.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations`,`spec.terminationGracePeriodSeconds`",
        )


def _frozen(spec: Object) -> Object:
    """The part of a Pod's spec that never changes."""
    rest = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
    }
    for kind in ("initContainers", "containers"):
        if kind in rest:
            rest[kind] = [{**container, "image": ""} for container in rest[kind]]
    return rest


def _container(container: Object, path: str, seen: set[str], volumes: set[str | None]) -> Iterator[Problem]:
    yield from _name(container, path, seen)
    if not container.get("image"):
        yield problems.required(f"{path}.image")
    for index, port in enumerate(container.get("ports", ())):
        yield from _port(port.get("containerPort"), f"{path}.ports[{index}].containerPort")
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            yield problems.required(f"{path}.env[{index}].name")
    for index, mount in enumerate(container.get("volumeMounts", ())):
        if mount.get("name") not in volumes:
            where = f"{path}.volumeMounts[{index}].name"
            yield problems.Problem(where, "FieldValueNotFound", f'Not found: "{mount.get("name", "")}"')
        if not mount.get("mountPath"):
            yield problems.required(f"{path}.volumeMounts[{index}].mountPath")
    yield from _resources(container.get("resources", {}), f"{path}.resources")


def _resources(resources: Object, path: str) -> Iterator[Problem]:
    amounts: dict[tuple[str, str], quantity.Quantity] = {}
    for kind in ("limits", "requests"):
        for name, value in resources.get(kind, {}).items():
            try:
                amounts[kind, name] = quantity.parse(value)
            except ValueError as error:
                yield problems.invalid(f"{path}.{kind}.{name}", value, str(error))
    for (kind, name), amount in amounts.items():
        is_divisible = ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")
        if amount.nano < 0 or (not is_divisible and amount.nano % 10**9):
            detail = "must be greater than or equal to 0" if amount.nano < 0 else "must be an integer"
            yield problems.invalid(f"{path}.{kind}[{name}]", str(amount), detail)
        if kind == "limits":
            continue
        limit = amounts.get(("limits", name))
        if limit is None and not is_divisible:
            yield problems.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif limit is not None and not is_divisible and amount != limit:
            yield problems.invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
        elif limit is not None and amount > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield problems.invalid(f"{path}.requests", str(amount), detail)


def _name(item: Object, path: str, seen: set[str]) -> Iterator[Problem]:
    name = item.get("name", "")
    if not name:
        yield problems.required(f"{path}.name")
    elif wrong := dns_label(name):
        yield problems.invalid(f"{path}.name", name, wrong)
    if name and name in seen:
        yield problems.duplicate(f"{path}.name", name)
    seen.add(name)


def _port(number: Any, path: str) -> Iterator[Problem]:
    if number is None:
        yield problems.required(path)
    elif not 1 <= number <= 65535:
        yield problems.invalid(path, number, "must be between 1 and 65535, inclusive")


def service(obj: Object, old: Object | None) -> Iterator[Problem]:
    """A Service has ports with numbers and distinct names, and keeps its address."""
    spec = obj.get("spec", {})
    ports = spec.get("ports", [])
    kind = spec.get("type", "ClusterIP")
    if kind not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        yield problems.unsupported("spec.type", kind, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
    if kind == "ExternalName":
        if not spec.get("externalName"):
            yield problems.required("spec.externalName")
        return
    if not ports and spec.get("clusterIP") != "None":
        yield problems.required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield problems.required(f"{path}.name")
        elif name and (wrong := dns_label(name)):
            yield problems.invalid(f"{path}.name", name, wrong)
        if name and name in names:
            yield problems.duplicate(f"{path}.name", name)
        names.add(name)
        yield from _port(port.get("port"), f"{path}.port")
        target = port.get("targetPort")
        if isinstance(target, str) and not (len(target) <= 15 and _PORT_NAME.fullmatch(target)):
            yield problems.invalid(
                f"{path}.targetPort", target, "not the name of a port: at most 15 characters of a-z0-9-"
            )
        elif isinstance(target, int):
            yield from _port(target, f"{path}.targetPort")
        number = (port.get("port", 0), port.get("protocol", "TCP"))
        if number in numbers:
            yield problems.duplicate(path, {"port": number[0], "protocol": number[1]})
        numbers.add(number)
    if old is not None:
        before = old.get("spec", {}).get("clusterIP")
        if before and spec.get("clusterIP") != before:
            yield problems.invalid("spec.clusterIPs[0]", spec.get("clusterIP"), "may not change once set")


def _data(obj: Object, old: Object | None, *sections: str) -> Iterator[Problem]:
    for section in sections:
        for key in obj.get(section, {}):
            if not _DATA_KEY.fullmatch(key) or len(key) > 253:
                yield problems.invalid(
                    f"{section}[{key}]", key, "a key is made of alphanumeric characters, '-', '_' or '.'"
                )
    if old is not None and old.get("immutable"):
        for section in (*sections, "immutable"):
            if obj.get(section) != old.get(section):
                yield problems.forbidden(section, "field is immutable when `immutable` is set")


def config_map(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Keys of a ConfigMap are file names; text and binary data share them."""
    yield from _data(obj, old, "data", "binaryData")
    for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
        yield problems.invalid(f"data[{key}]", key, f"duplicate of key present in binaryData: {key}")
    yield from _not_base64(obj, "binaryData")


def secret(obj: Object, old: Object | None) -> Iterator[Problem]:
    """Values of a Secret are base64. A value that is not is never repeated in the refusal."""
    yield from _data(obj, old, "data")
    yield from _not_base64(obj, "data")
    if old is not None and obj.get("type") != old.get("type"):
        yield problems.invalid("type", obj.get("type"), "field is immutable")


def _not_base64(obj: Object, field: str) -> Iterator[Problem]:
    for key, value in obj.get(field, {}).items():
        try:
            decode_bytes(value)
        except binascii.Error:
            yield problems.invalid(f"{field}[{key}]", "<hidden>", "must be base64")


def event(obj: Object, old: Object | None) -> Iterator[Problem]:
    """An Event is about an object in its own namespace."""
    about = obj.get("involvedObject", {}).get("namespace", "")
    if about and about != obj["metadata"].get("namespace"):
        yield problems.invalid("involvedObject.namespace", about, "does not match event.namespace")


def anything(obj: Object, old: Object | None) -> Iterator[Problem]:
    """A kind with no rules of its own."""
    return iter(())
