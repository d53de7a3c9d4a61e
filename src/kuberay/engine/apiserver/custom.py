"""CustomResourceDefinitions: what makes one acceptable, and the kinds it adds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kuberay.engine.apiserver import problems, validation
from kuberay.engine.apiserver.ages import timestamp
from kuberay.engine.apiserver.columns import custom_columns
from kuberay.engine.apiserver.jsonpath import PathError, compile_path
from kuberay.engine.apiserver.registry import FIELDS_OF_ALL, Kind, status_of
from kuberay.engine.apiserver.schema import check_rules, custom_schema
from kuberay.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kuberay.engine.apiserver.problems import Problem
    from kuberay.engine.apiserver.registry import Registry
    from kuberay.engine.apiserver.storage import Object

TABLE = CUSTOM_RESOURCE_DEFINITIONS.name
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def table_of(definition: Object) -> str:
    """Where the objects of a definition are stored."""
    return str(definition["metadata"]["name"])


def default(definition: Object) -> None:
    """Fill in the names that follow from others."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def establish(definition: Object, now: datetime) -> None:
    """Write the status of an accepted definition; names are accepted at once, because nobody else hands them out."""
    names = definition["spec"]["names"]
    stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
    status = definition.setdefault("status", {})
    since = {one.get("type"): one.get("lastTransitionTime") for one in status.get("conditions") or ()}
    definition["status"] = {
        "acceptedNames": names,
        "storedVersions": sorted({*status.get("storedVersions", ()), *stored}),
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": since.get(kind) or timestamp(now),
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ],
    }


def check(definition: Object, registry: Registry) -> Iterator[Problem]:
    """Everything that keeps a definition from being served."""
    spec = definition["spec"]
    names = spec.get("names", {})
    for path, value in (
        ("spec.group", spec.get("group")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield problems.required(path)
            return
    wanted_name = f"{names['plural']}.{spec['group']}"
    if definition["metadata"].get("name") != wanted_name:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield problems.invalid("metadata.name", definition["metadata"].get("name"), detail)
    if wrong := validation.dns_subdomain(spec["group"]):
        yield problems.invalid("spec.group", spec["group"], wrong)
    if wrong := validation.dns_label_1035(names["plural"]):
        yield problems.invalid("spec.names.plural", names["plural"], wrong)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield problems.unsupported("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    if spec["conversion"].get("strategy") != "None":
        yield problems.unsupported("spec.conversion.strategy", spec["conversion"].get("strategy"), ("None",))
    if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        yield problems.invalid(
            "spec.versions", len(spec["versions"]), "must have exactly one version marked as storage version"
        )
    for index, version in enumerate(spec["versions"]):
        yield from _check_version(version, f"spec.versions[{index}]")
        taken = registry.find(spec["group"], version.get("name", ""), names["plural"])
        if taken is not None and taken.table != wanted_name:
            yield problems.invalid("spec.names.plural", names["plural"], "is served by this API server already")


def _check_version(version: Object, path: str) -> Iterator[Problem]:
    if wrong := validation.dns_label_1035(version.get("name", "")):
        yield problems.invalid(f"{path}.name", version.get("name", ""), wrong)
    schema = version.get("schema", {}).get("openAPIV3Schema")
    if schema is None:
        yield problems.required(f"{path}.schema.openAPIV3Schema")
        return
    if schema.get("type") != "object":
        yield problems.invalid(
            f"{path}.schema.openAPIV3Schema.type", schema.get("type", ""), "must be object at the root"
        )
    yield from check_rules(schema, f"{path}.schema.openAPIV3Schema")
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        try:
            compile_path(column.get("jsonPath", ""))
        except PathError as error:
            yield problems.invalid(
                f"{path}.additionalPrinterColumns[{index}].jsonPath", column.get("jsonPath"), str(error)
            )


def kinds(definition: Object) -> list[Kind]:
    """The kinds of all served versions, the preferred one first."""
    spec = definition["spec"]
    names = spec["names"]
    versions = sorted((one for one in spec["versions"] if one.get("served")), key=lambda one: _priority(one["name"]))
    return [
        Kind(
            Resource(
                spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
            ),
            table_of(definition),
            custom_schema(version["schema"]["openAPIV3Schema"]),
            custom_columns(version.get("additionalPrinterColumns", [])),
            singular=names["singular"],
            short_names=tuple(names.get("shortNames", ())),
            categories=tuple(names.get("categories", ())),
            subresources=(status_of(names["kind"]),) if "status" in version.get("subresources", {}) else (),
            list_kind=names["listKind"],
            selectable=FIELDS_OF_ALL
            | {one["jsonPath"].removeprefix(".") for one in version.get("selectableFields", ())},
            counts_generations=True,
            is_custom=True,
        )
        for version in versions
    ]


def _priority(version: str) -> tuple[int, int, int, str]:
    """Stable before beta before alpha, later before earlier; other names last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, version)
    stability = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (0, stability, -int(match[1]) * 1000 - int(match[3] or 0), version)
