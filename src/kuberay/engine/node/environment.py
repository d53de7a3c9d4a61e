"""A container's environment and command line, worked out as a kubelet does; pure.

What is not in the Pod itself comes in: the ConfigMaps and Secrets it names, and what the node knows about it.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kuberay.kube import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kuberay.kube.quantity import Quantity

Object = dict[str, Any]

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


class ConfigError(Exception):
    """A container that cannot be configured: what it refers to is missing. The kubelet's own words."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the node knows about a Pod beyond its object."""

    pod_ip: str
    host_ip: str
    cpu: Quantity
    memory: Quantity
    service_host: str = ""
    service_port: int = 443


@dataclass(frozen=True, slots=True)
class References:
    """ConfigMaps and Secrets by name; one that does not exist is absent."""

    config_maps: Mapping[str, Object] = field(default_factory=dict)
    secrets: Mapping[str, Object] = field(default_factory=dict)

    def config_map(self, name: str) -> Object | None:
        return self.config_maps.get(name)

    def secret(self, name: str) -> Object | None:
        return self.secrets.get(name)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where NAME is known; `$$` is a dollar sign; everything else stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def command_line(container: Object, variables: Mapping[str, str]) -> list[str]:
    """`command` and `args` as they are executed. There is no image that could have an entrypoint."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words:
        raise ConfigError("no command is given, and images are not pulled: there is no entrypoint to run")
    return [expand(word, variables) for word in words]


def service_variables(facts: Facts) -> dict[str, str]:
    """How a container finds the API server."""
    if not facts.service_host:
        return {}
    host, port = facts.service_host, str(facts.service_port)
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": f"tcp://{host}:{port}",
        "KUBERNETES_PORT_443_TCP": f"tcp://{host}:{port}",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_ADDR": host,
        "KUBERNETES_PORT_443_TCP_PORT": port,
    }


def variables(pod: Object, container: Object, facts: Facts, references: References) -> dict[str, str]:
    """Everything Kubernetes puts into a container's environment, in its order of precedence.

    :raises ConfigError: a reference that is not optional leads nowhere.
    """
    services = service_variables(facts)
    result = dict(services)
    for source in container.get("envFrom") or ():
        result.update(_from_source(pod, source, references))
    # As a kubelet does it: `$(NAME)` sees services and earlier entries of `env`, not what `envFrom` brought.
    visible = dict(services)
    for entry in container.get("env") or ():
        value = _value(pod, container, entry, facts, references, visible)
        if value is not None:
            visible[entry["name"]] = result[entry["name"]] = value
    return result


def referenced(pod: Object) -> tuple[set[str], set[str]]:
    """The names of the ConfigMaps and Secrets that a Pod's containers and volumes refer to."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for source in container.get("envFrom") or ():
            config_maps.update(_names(source.get("configMapRef")))
            secrets.update(_names(source.get("secretRef")))
        for entry in container.get("env") or ():
            origin = entry.get("valueFrom") or {}
            config_maps.update(_names(origin.get("configMapKeyRef")))
            secrets.update(_names(origin.get("secretKeyRef")))
    for volume in spec.get("volumes") or ():
        for source in [volume, *((volume.get("projected") or {}).get("sources") or ())]:
            config_maps.update(_names(source.get("configMap")))
            secret = source.get("secret") or {}
            secrets.update(name for name in (secret.get("secretName"), secret.get("name")) if name)
    return config_maps, secrets


def field_value(pod: Object, path: str, facts: Facts) -> str:
    """The value a `fieldRef` asks for.

    :raises ConfigError: the field is none a container may ask for.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata."), ""))
        case "metadata.labels" | "metadata.annotations":
            found = metadata.get(path.removeprefix("metadata.")) or {}
            return "\n".join(f'{key}="{value}"' for key, value in sorted(found.items()))
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec."), ""))
        case "status.podIP" | "status.podIPs":
            return facts.pod_ip
        case "status.hostIP" | "status.hostIPs":
            return facts.host_ip
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_value(pod: Object, container: Object, reference: Object, facts: Facts) -> str:
    """The value a `resourceFieldRef` asks for; a limit that is not set is what the machine has."""
    wanted = reference["resource"]
    kind, _, name = wanted.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise ConfigError(f"unsupported container resource: {wanted}")
    owner = reference.get("containerName")
    if owner:
        container = next((each for each in _containers(pod) if each["name"] == owner), {})
        if not container:
            raise ConfigError(f"container {owner} not found")
    amounts = (container.get("resources") or {}).get(kind) or {}
    machine = {"cpu": facts.cpu, "memory": facts.memory} if kind == "limits" else {}
    amount = quantity.parse(amounts[name]) if name in amounts else machine.get(name, quantity.ZERO)
    divisor = quantity.parse(reference.get("divisor") or "1")
    return str(-(-amount.nano // (divisor.nano or quantity.parse(1).nano)))


def secret_bytes(secret: Object, key: str) -> bytes | None:
    """The decoded value of one key of a Secret."""
    encoded = (secret.get("data") or {}).get(key)
    return None if encoded is None else base64.b64decode(encoded)


def _containers(pod: Object) -> Iterator[Object]:
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"].get("containers") or ()


def _names(reference: Object | None) -> list[str]:
    return [reference["name"]] if reference and reference.get("name") else []


def _from_source(pod: Object, source: Object, references: References) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    if reference := source.get("configMapRef"):
        found = references.config_map(reference["name"])
        values = {key: str(value) for key, value in ((found or {}).get("data") or {}).items()}
        kind = "configmap"
    elif reference := source.get("secretRef"):
        found = references.secret(reference["name"])
        keys = (found or {}).get("data") or {}
        values = {key: _text(secret_bytes(found or {}, key) or b"", pod, reference["name"], key) for key in keys}
        kind = "secret"
    else:
        return {}
    if found is None and not reference.get("optional"):
        raise ConfigError(f'{kind} "{reference["name"]}" not found')
    return {prefix + key: value for key, value in values.items() if "=" not in key}


def _value(
    pod: Object, container: Object, entry: Object, facts: Facts, references: References, visible: Mapping[str, str]
) -> str | None:
    if "valueFrom" not in entry:
        return expand(entry.get("value") or "", visible)
    origin = entry["valueFrom"] or {}
    if reference := origin.get("fieldRef"):
        return field_value(pod, reference["fieldPath"], facts)
    if reference := origin.get("resourceFieldRef"):
        return resource_value(pod, container, reference, facts)
    namespace = pod["metadata"]["namespace"]
    if reference := origin.get("configMapKeyRef"):
        found = references.config_map(reference["name"])
        kind, value = "ConfigMap", ((found or {}).get("data") or {}).get(reference["key"])
    elif reference := origin.get("secretKeyRef"):
        found = references.secret(reference["name"])
        data = secret_bytes(found or {}, reference["key"])
        kind = "Secret"
        value = None if data is None else _text(data, pod, reference["name"], reference["key"])
    else:
        raise ConfigError(f"env {entry['name']}: valueFrom names no source that is known here")
    if value is not None:
        return str(value)
    if reference.get("optional"):
        return None
    if found is None:
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    raise ConfigError(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")


def _text(data: bytes, pod: Object, name: str, key: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        namespace = pod["metadata"]["namespace"]
        raise ConfigError(f"key {key} in Secret {namespace}/{name} is not text") from None
