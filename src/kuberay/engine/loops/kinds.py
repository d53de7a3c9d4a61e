"""Which kinds a server serves at the moment, read from its discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from kuberay.kube.resources import Resource
from kuberay.kube.transport import Request

if TYPE_CHECKING:
    from kuberay.kube.client import Client

_AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
_NEEDED = {"list", "watch", "delete", "patch"}
_SKIPPED = {"events", "events.events.k8s.io"}
"""Events belong to nobody and pass by themselves."""


async def served_kinds(client: Client) -> list[Resource]:
    """Kinds whose objects can be listed, watched, patched and deleted; of each the preferred version."""
    found: list[Resource] = []
    for root in ("/api", "/apis"):
        answer = orjson.loads(await client.send(Request("GET", root, (), _AGGREGATED)))
        for group in answer["items"]:
            seen: set[str] = set()
            for version in group["versions"]:
                for entry in version["resources"]:
                    kind = Resource(
                        group["metadata"].get("name", ""),
                        version["version"],
                        entry["resource"],
                        entry["responseKind"]["kind"],
                        namespaced=entry["scope"] == "Namespaced",
                    )
                    if set(entry["verbs"]) >= _NEEDED and kind.plural not in seen and kind.name not in _SKIPPED:
                        seen.add(kind.plural)
                        found.append(kind)
    return found
