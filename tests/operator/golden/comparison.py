"""Where our record of a case and KubeRay's are not the same, and which of these places are known.

Every accepted difference is an entry of a table, with its reason and with what `docs/differences.md` says of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.build.labels import MADE_FROM
from tests.build.golden import Difference, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]


@dataclass(frozen=True)
class Accepted:
    """Differences that are meant to be."""

    where: str
    """A pattern for `KIND NAME path`, or for `event TYPE REASON ...`."""
    reason: str
    told: str
    """Words of `docs/differences.md` that tell users of it."""
    case: str = ".*"
    """A pattern for the names of the cases in which it may be."""
    when: Callable[[Difference, Json], bool] = lambda _, __: True
    """Of the difference and our whole record."""

    def covers(self, case: str, difference: Difference, ours: Json) -> bool:
        """Whether this is such a difference."""
        is_here = re.fullmatch(self.case, case) and re.fullmatch(self.where, difference.path, re.DOTALL)
        return is_here is not None and self.when(difference, ours)


def has_condition(kind: str) -> Callable[[Difference, Json], bool]:
    """Whether one of our clusters says so."""
    return lambda _, ours: any(
        condition["type"] == kind
        for cluster in ours["ray"].values()
        for condition in cluster["status"].get("conditions", ())
    )


_HEAD = r"Pod \S*-head(-<rand>)? "
_RAY = r"RayCluster/\S+ "

ACCEPTED = (
    Accepted(
        _HEAD + r"metadata\.generateName",
        "a head has a fixed name, so that two cannot exist",
        "`<cluster>-head`, never shortened, unless",
    ),
    Accepted(
        _HEAD + r"metadata\.annotations\.ray\.io/upgrade-strategy-recreate-hash", "opaque", "Hashes in annotations"
    ),
    Accepted(_HEAD + r"metadata\.annotations\.ray\.io/kuberay-version", "our version", "name our version"),
    Accepted(
        r"(Pod|Service) \S+ metadata\.annotations(\.ray\.io/made-from)?",
        "Pods and Services tell what they were made from, so that changes of the spec can be followed or told",
        "annotation `ray.io/made-from`",
        when=lambda each, _: each.golden is None and (isinstance(each.ours, str) or set(each.ours) == {MADE_FROM}),
    ),
    Accepted(
        _RAY + r"status\.conditions\.SpecChangesPending",
        "the status names the changes that wait for new Pods",
        "`SpecChangesPending` names the fields",
        case="upgrade-(none|unset)-new-image",
    ),
    Accepted(
        r".*env\[FQ_RAY_IP\]",
        "a head can be reached at its own address",
        "`FQ_RAY_IP=127.0.0.1`",
        when=lambda each, _: each.golden is None,
    ),
    Accepted(r".*env\[RAY_USAGE_STATS_EXTRA_TAGS\]\.value", "our version", "name our version"),
    Accepted(
        r"Pod .*initContainers\[wait-gcs-ready\]\.args\[0\]",
        "a check that does not import Ray",
        "one gRPC health check a second",
    ),
    Accepted(r"Job .*containers\[0\]\.args\[0\]", "the same, in our words", "its program is our own"),
    Accepted(
        r"Job .*template\.metadata\.(generateName|namespace|ownerReferences)",
        "a Pod template has no need of them",
        "The cleanup Job's Pod template has an owner",
    ),
    Accepted(
        _RAY + r"(metadata\.generation|status\.observedGeneration)",
        "a finalizer is added by a patch that leaves the spec as it is",
        "by a patch, and Pods in the same pass",
        when=lambda each, _: (each.golden or 0) > (each.ours or 0) > 0,
    ),
    Accepted(
        _RAY + r"status\.observedGeneration",
        "the generation that was looked at is told even when nothing else is different",
        "`desired*` resources and `observedGeneration`",
        when=lambda each, _: (each.ours or 0) > (each.golden or 0) > 0,
    ),
    Accepted(
        _RAY + r"status\..*",
        "a cluster that is left as it is says so in its status",
        "a condition `Blocked` names the field too",
        when=has_condition("Blocked"),
    ),
    Accepted(
        _RAY + r"status\.conditions\.PodsBlocked",
        "the status tells what keeps Pods from their work",
        "the condition `PodsBlocked`",
        case="state-(head-image-pull|worker-not-ready)",
    ),
    Accepted(
        _RAY + r"status\.conditions\.RedisCleanup",
        "the status tells what a deletion waits for",
        "condition `RedisCleanup`",
    ),
    Accepted(
        _RAY + r"status\.(head\..*|conditions\.HeadPodReady.*|(available|ready)WorkerReplicas|observedGeneration)",
        "the status of a cluster that is being deleted is kept up to date",
        "kept up to date while its cleanup runs",
        when=has_condition("RedisCleanup"),
    ),
    Accepted(
        r"event Normal DeletedPod .*",
        "Pods that go are told of, with the reason",
        "an event for the Pods that go first",
        case="ft-delete-.*",
    ),
    Accepted(
        _RAY + r"status\.conditions\.ReplicaFailure\.message",
        "in our words, with the name of the Pod",
        "Texts of validation messages",
    ),
    Accepted(
        _RAY + r"status\.conditions\.RayClusterProvisioned\..*",
        "a cluster with a refused worker is not provisioned",
        "only when there is one head and each group has its Pods, all of them ready",
        when=has_condition("ReplicaFailure"),
    ),
    Accepted(
        r"(Pod demo-gone-worker-<rand> |\S+ status\.(available|ready)WorkerReplicas|event .*DeletedWorkerPod.*)",
        "the Pods of a group that is no longer in the spec are removed",
        "Pods of a group that was removed from the spec",
        case="group-removed-later",
    ),
    Accepted(
        r".*",
        "no host in a replica is an error of the spec",
        "`numOfHosts: 0` removes all workers",
        case="hosts-zero",
        when=has_condition("Blocked"),
    ),
    Accepted(
        r"(Pod|Service|event) .*",
        "a Service for Serve without a port is an error of the spec, and told",
        "A missing port for the Serve Service",
        case="serve-service-without-port",
        when=has_condition("Blocked"),
    ),
)

NOT_OURS = (
    Accepted(
        _HEAD + r"spec\.containers.*",
        "the record takes the end of a user's name, and so the flag --head, for generated",
        "",
        case="template-name-on-head-wins",
    ),
)
"""What differs in the records alone."""


def unexpected(case: str, golden: Json, ours: Json) -> list[Difference]:
    """All differences that nobody has accepted."""
    known = (*ACCEPTED, *NOT_OURS)
    return [each for each in _all(golden, ours) if not any(entry.covers(case, each, ours) for entry in known)]


def met(case: str, golden: Json, ours: Json) -> set[Accepted]:
    """The entries of the table that a case needs."""
    found = list(_all(golden, ours))
    return {entry for entry in ACCEPTED if any(entry.covers(case, each, ours) for each in found)}


def _all(golden: Json, ours: Json) -> Iterator[Difference]:
    if "rejected" in golden or "rejected" in ours:
        refused = [[(each["code"], each["object"]) for each in side.get("rejected", ())] for side in (golden, ours)]
        if refused[0] != refused[1]:
            yield Difference("rejected", *refused)
    yield from _objects(golden["objects"], ours["objects"])
    for name in golden["ray"].keys() | ours["ray"].keys():
        before, after = golden["ray"].get(name, {}), ours["ray"].get(name, {})
        for part in ("metadata", "status"):
            for path, *sides in differences(_by_type(before.get(part)), _by_type(after.get(part)), part):
                yield Difference(f"{name} {path}", *sides)
    yield from _events(golden["events"], ours["events"])


def _objects(golden: list[Json], ours: list[Json]) -> Iterator[Difference]:
    """Objects are put beside each other by kind and name; of several Pods of a group the first with the first."""
    before, after = _named(golden), _named(ours)
    for key in sorted(before.keys() | after.keys()):
        one, other = before.get(key), after.get(key)
        if one is None or other is None:
            yield Difference(f"{key[0]} {key[1]} ", one and "there", other and "there")
        else:
            for path, *sides in differences(one, other):
                yield Difference(f"{key[0]} {key[1]} {path}", *sides)


def _named(objects: list[Json]) -> dict[tuple[str, str, int], Json]:
    named: dict[tuple[str, str, int], Json] = {}
    for obj in objects:
        kind, name, number = obj["kind"], obj["metadata"]["name"], 0
        while (kind, name, number) in named:
            number += 1
        named[kind, name, number] = obj
    return named


def _by_type(part: Json | None) -> Json:
    """A status whose conditions are found by their type."""
    if part is None or "conditions" not in part:
        return part or {}
    return {**part, "conditions": {each["type"]: each for each in part["conditions"]}}


def _events(golden: list[Json], ours: list[Json]) -> Iterator[Difference]:
    """Every event of KubeRay has one of ours that says the same, perhaps of several things at once.

    What differs in words is told by its reason: messages of validation and of deletion are our own.
    """
    told: dict[str, str] = {}
    for event in ours:
        for key, note in _told(event):
            told[key] = f"{told[key]}\n{note}" if key in told else note
    for event in golden:
        for key, note in _told(event):
            if key not in told:
                yield Difference(f"event {key}", note, None)
            elif event["type"] == "Normal" and event["action"] == "Create" and note not in told[key]:
                yield Difference(f"event {key} note", note, told[key])
    known = {key for event in golden for key, _ in _told(event)}
    for key, note in told.items():
        if key not in known:
            yield Difference(f"event {key}", None, note)


def _told(event: Json) -> Iterator[tuple[str, str]]:
    """What an event tells: under which reason, and its note in the singular for each thing it names."""
    key = " ".join(event[part] for part in ("type", "reason", "action", "regarding", "reporter"))
    note = event["note"]
    several = re.fullmatch(r"(\w+) \d+ (.+?)(ie)?s: (.+)", note)
    if several:
        verb, noun, ending, names = several.groups()
        noun += "y" if ending else ""
        note = "\n".join(f"{verb} {noun} {name}" for name in names.split(", "))
    yield key, note


def shown(found: list[Difference]) -> str:
    """For people."""
    return "\n".join(
        f"{each.path}\n   golden: {json.dumps(each.golden)}\n   ours:   {json.dumps(each.ours)}" for each in found
    )
