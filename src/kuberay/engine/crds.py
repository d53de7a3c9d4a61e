"""The CRDs of `ray.io` in a local engine: there from the start, and replaced when this version has other ones."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from kuberay.api.crd import DEFINITIONS, crd
from kuberay.kube.errors import NotFound
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from kuberay.kube.client import Client

DIGEST = "local.ray.io/crd-digest"


async def register_crds(client: Client) -> None:
    """Create or update the definitions; writes nothing when they are as they should be."""
    for kind in DEFINITIONS:
        definition = crd(kind)
        digest = hashlib.sha256(orjson.dumps(definition, option=orjson.OPT_SORT_KEYS)).hexdigest()
        definition["metadata"].setdefault("annotations", {})[DIGEST] = digest
        name = definition["metadata"]["name"]
        try:
            current = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            continue
        if current["metadata"].get("annotations", {}).get(DIGEST) != digest:
            definition["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
            await client.replace(CUSTOM_RESOURCE_DEFINITIONS, name, definition)
