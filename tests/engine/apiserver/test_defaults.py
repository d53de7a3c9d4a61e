"""Objects that went through a real API server pass through ours unchanged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engine.apiserver.api import PODS, SERVICES, Api

UPSTREAM = Path(__file__).parents[4] / "shared" / "upstream"
PATHS = {"Pod": PODS, "Service": SERVICES}


def stored_by_a_real_server() -> list[Any]:
    """Pods and Services of KubeRay's records, with values in place of what the records leave open."""
    found = []
    for record in sorted((UPSTREAM / "golden").glob("*.json")):
        for obj in json.loads(record.read_text())["objects"]:
            if obj["kind"] in PATHS:
                text = json.dumps({key: obj[key] for key in ("apiVersion", "kind", "metadata", "spec")})
                text = re.sub(r'"<node-port>"', "30777", text)
                text = re.sub(r"<cluster-ip>", "10.96.7.7", text)
                text = re.sub(r"<((?:rand|uid|hash)[^>]*)>", r"\1", text)
                found.append(pytest.param(json.loads(text), id=f"{record.stem}-{obj['metadata']['name']}"))
    return found


@pytest.mark.skipif(not UPSTREAM.exists(), reason="KubeRay's records are not beside the repository")
@pytest.mark.parametrize("obj", stored_by_a_real_server())
async def test_what_a_real_server_stored_needs_no_more_defaults(api: Api, obj: dict[str, Any]) -> None:
    created = await api.create(PATHS[obj["kind"]], obj, fieldValidation="Strict")
    assert created.status == 201, created.body
    assert created.body["spec"] == obj["spec"]
