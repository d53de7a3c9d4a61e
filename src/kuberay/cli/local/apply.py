"""Applying manifests the way `kubectl apply` does on the client side, so that the two can be mixed.

The manifest as applied is kept in kubectl's own annotation; what stood there before and is gone now is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kuberay.kube.errors import NotFound
from kuberay.kube.resources import Resource
from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kuberay.kube.client import Client

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ESCAPED_BY_GO = "<>&\u2028\u2029"


class UnknownKind(Exception):
    """The server serves no such kind."""


async def served(client: Client) -> dict[tuple[str, str], Resource]:
    """What the server serves, by (apiVersion, kind)."""

    async def read(path: str) -> Any:
        return orjson.loads(await client.send(Request("GET", path, headers={"accept": "application/json"})))

    groups = [("", "v1", "/api/v1")]
    for group in (await read("/apis"))["groups"]:
        groups += [(group["name"], each["version"], f"/apis/{each['groupVersion']}") for each in group["versions"]]
    resources = {}
    for group, version, path in groups:
        for each in (await read(path))["resources"]:
            if "/" not in each["name"]:
                resource = Resource(group, version, each["name"], each["kind"], each["namespaced"])
                resources[resource.api_version, resource.kind] = resource
    return resources


async def apply(client: Client, manifest: Mapping[str, Any], *, dry_run: bool = False) -> str:
    """Bring the server's object to what the manifest says; answers `created`, `configured` or `unchanged`.

    :raises UnknownKind: nothing serves this kind.
    :raises ApiError: the server's refusal.
    """
    resource = (await served(client)).get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    if resource is None:
        raise UnknownKind(f"{manifest.get('apiVersion')} {manifest.get('kind')} is not served by the local engine")
    namespace = (manifest.get("metadata") or {}).get("namespace", "default") if resource.namespaced else None
    wanted = with_last_applied(manifest, namespace=namespace)
    name = wanted["metadata"]["name"]
    try:
        current = await client.get(resource, name, namespace=namespace)
    except NotFound:
        await client.create(resource, wanted, namespace=namespace, dry_run=dry_run, field_validation="Strict")
        return "created"
    change = three_way_patch(current, wanted)
    after = await client.patch(resource, name, change, namespace=namespace, dry_run=dry_run, field_validation="Strict")
    same = after["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
    return "unchanged" if same else "configured"


def with_last_applied(manifest: Mapping[str, Any], *, namespace: str | None = None) -> dict[str, Any]:
    """The manifest with itself noted in the annotation, byte for byte as kubectl would write it.

    :param namespace: where it is applied, which kubectl notes also when the manifest does not say it.
    """
    plain: dict[str, Any] = orjson.loads(orjson.dumps(manifest))
    metadata = plain.setdefault("metadata", {})
    if namespace is not None:
        metadata["namespace"] = namespace
    annotations = metadata.setdefault("annotations", {})
    annotations.pop(LAST_APPLIED, None)
    note = orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()
    for character in _ESCAPED_BY_GO:
        note = note.replace(character, f"\\u{ord(character):04x}")
    annotations[LAST_APPLIED] = note + "\n"
    return plain


def three_way_patch(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch to `wanted` that also removes what was applied before and is no longer wanted."""
    note = current.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED, "{}")
    return _patch(orjson.loads(note), wanted)


def _patch(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in before if key not in wanted}
    for key, value in wanted.items():
        earlier = before.get(key)
        below = earlier if isinstance(earlier, dict) else {}
        patch[key] = _patch(below, value) if isinstance(value, dict) else value
    return patch
