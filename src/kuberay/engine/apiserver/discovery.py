"""Discovery: which kinds there are, aggregated (one request for everything) and one group version at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberay.engine.apiserver.answers import json_answer
from kuberay.kube.errors import NotFound

if TYPE_CHECKING:
    from kuberay.engine.apiserver.registry import Kind, Registry
    from kuberay.engine.apiserver.storage import Object
    from kuberay.kube.transport import Request, Response

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers `/api`, `/apis` and the paths of groups and versions below them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, request: Request) -> Response | None:
        """`None` for a path that is not about discovery."""
        match request.path.strip("/").split("/"):
            case ["api"]:
                return self._roots(request, core=True)
            case ["apis"]:
                return self._roots(request, core=False)
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return json_answer({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["apis", group, version]:
                return self._resources(group, version)
        return None

    def _groups(self, *, core: bool) -> dict[str, dict[str, list[Kind]]]:
        """Kinds by group and version, in the order of registration."""
        found: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._registry.kinds():
            if (kind.resource.group == "") is core:
                found.setdefault(kind.resource.group, {}).setdefault(kind.resource.version, []).append(kind)
        return found

    def _roots(self, request: Request, *, core: bool) -> Response:
        accepted = [choice.replace(" ", "") for choice in request.headers.get("accept", "").split(",")]
        if any("as=APIGroupDiscoveryList" in choice and "v=v2" in choice.split(";") for choice in accepted):
            items = [
                {
                    "metadata": {"name": group, "creationTimestamp": None},
                    "versions": [
                        {"version": version, "resources": [_aggregated(kind) for kind in kinds], "freshness": "Current"}
                        for version, kinds in versions.items()
                    ],
                }
                for group, versions in self._groups(core=core).items()
            ]
            content = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
            return json_answer({**content, "items": items}, headers={"content-type": _AGGREGATED, "vary": "Accept"})
        if core:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
            versions = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
            return json_answer(versions, headers={"vary": "Accept"})
        groups = [self._group(group) for group in self._groups(core=False)]
        return json_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, headers={"vary": "Accept"})

    def _group(self, name: str) -> Object:
        versions = self._groups(core=False).get(name)
        if versions is None:
            raise NotFound("the server could not find the requested resource")
        listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": listed, "preferredVersion": listed[0]}

    def _resources(self, group: str, version: str) -> Response:
        kinds = self._groups(core=group == "").get(group, {}).get(version)
        if kinds is None:
            raise NotFound("the server could not find the requested resource")
        listed = [entry for kind in kinds for entry in _listed(kind)]
        return json_answer(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": kinds[0].resource.api_version,
                "resources": listed,
            }
        )


def _names(kind: Kind) -> Object:
    names: Object = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _listed(kind: Kind) -> list[Object]:
    """A kind and its subresources in an `APIResourceList`."""
    resource = kind.resource
    own = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    return [own] + [
        {
            "name": f"{resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": subresource.kind,
            "verbs": list(subresource.verbs),
        }
        for subresource in kind.subresources
    ]


def _aggregated(kind: Kind) -> Object:
    resource = kind.resource
    group_version = {"group": resource.group, "version": resource.version}
    found: Object = {
        "resource": resource.plural,
        "responseKind": {**group_version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    if kind.subresources:
        found["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": {**group_version, "kind": subresource.kind},
                "verbs": list(subresource.verbs),
            }
            for subresource in kind.subresources
        ]
    return found
