"""Discovery and OpenAPI: what clients learn before they ask for anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.apiserver.api import DEFINITIONS, Api, definition

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def kinds(api: Api) -> dict[str, Any]:
    """All kinds of aggregated discovery by plural and group."""
    found = {}
    for root in ("/api", "/apis"):
        for group in (await api.get(root, accept=f"{AGGREGATED},application/json")).body["items"]:
            for version in group["versions"]:
                for entry in version["resources"]:
                    found[f"{entry['resource']}.{group['metadata']['name']}".rstrip(".")] = entry
    return found


class TestDiscovery:
    async def test_in_one_piece_names_its_form_in_the_content_type(self, api: Api) -> None:
        assert (await api.get("/apis", accept=AGGREGATED)).headers["content-type"] == AGGREGATED

    async def test_lists_names_verbs_and_subresources(self, widgets: Api) -> None:
        found = await kinds(widgets)
        assert found["pods"]["shortNames"] == ["po"]
        assert {one["subresource"] for one in found["pods"]["subresources"]} == {"binding", "log", "status"}
        assert found["nodes"]["scope"] == "Cluster"
        assert found["widgets.example.com"]["singularResource"] == "widget"
        assert found["widgets.example.com"]["categories"] == ["all"]
        assert "deletecollection" not in found["namespaces"]["verbs"]

    async def test_forgets_a_kind_with_its_definition(self, widgets: Api) -> None:
        await widgets.delete(f"{DEFINITIONS}/widgets.example.com")
        assert "widgets.example.com" not in await kinds(widgets)
        assert (await widgets.get("/apis/example.com")).status == 404

    async def test_by_the_old_way_says_the_same(self, widgets: Api) -> None:
        assert (await widgets.get("/api")).body["versions"] == ["v1"]
        groups = [group["name"] for group in (await widgets.get("/apis")).body["groups"]]
        assert "example.com" in groups
        listed = (await widgets.get("/apis/example.com/v1")).body["resources"]
        assert [(one["name"], one["kind"]) for one in listed] == [("widgets", "Widget"), ("widgets/status", "Widget")]
        assert (await widgets.get("/api/v1")).body["groupVersion"] == "v1"

    async def test_of_what_is_not_served_is_not_found(self, api: Api) -> None:
        for path in ("/apis/apps", "/apis/apps/v1", "/api/v2"):
            assert (await api.get(path)).status == 404


class TestOpenApi:
    async def test_has_a_document_for_every_group_version(self, widgets: Api) -> None:
        paths = (await widgets.get("/openapi/v3")).body["paths"]
        assert {"api/v1", "apis/example.com/v1", "apis/events.k8s.io/v1"} <= paths.keys()
        for entry in paths.values():
            path, _, hash_ = entry["serverRelativeURL"].partition("?hash=")
            document = await widgets.get(path, hash=hash_)
            assert document.headers["cache-control"] == "public, immutable"
            assert document.body["paths"]
            unresolved = [
                name for name in references(document.body) if name not in document.body["components"]["schemas"]
            ]
            assert unresolved == []

    async def test_tells_kubectl_that_the_server_checks_fields(self, widgets: Api) -> None:
        document = (await widgets.get("/openapi/v3/apis/example.com/v1")).body
        operation = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
        assert operation["x-kubernetes-group-version-kind"]["kind"] == "Widget"
        assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]

    async def test_is_not_sent_again_to_who_has_it(self, api: Api) -> None:
        tag = (await api.get("/openapi/v3/api/v1")).headers["etag"]
        request = api.send("GET", "/openapi/v3/api/v1", headers={"If-None-Match": tag})
        assert (await request).status == 304

    async def test_changes_with_a_definition(self, widgets: Api) -> None:
        before = (await widgets.get("/openapi/v3")).body["paths"]["apis/example.com/v1"]
        await widgets.replace(f"{DEFINITIONS}/widgets.example.com", definition({"other": {"type": "string"}}))
        assert (await widgets.get("/openapi/v3")).body["paths"]["apis/example.com/v1"] != before

    @pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/nope/v1", "/openapi"])
    async def test_that_is_not_served_is_not_found(self, api: Api, path: str) -> None:
        assert (await api.get(path)).status == 404


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"].rpartition("/")[2]] if isinstance(value.get("$ref"), str) else []
        return own + [name for item in value.values() for name in references(item)]
    return [name for item in value for name in references(item)] if isinstance(value, list) else []
