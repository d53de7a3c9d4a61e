"""Where our record of a case and KubeRay's are not the same, and which of these places are known.

Every accepted difference is an entry of a table, with its reason. All of them stand in `docs/differences.md`, too.
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
    Accepted(_HEAD + r"metadata\.generateName", "a head has a fixed name, so that two cannot exist"),
    Accepted(_HEAD + r"metadata\.annotations\.ray\.io/upgrade-strategy-recreate-hash", "opaque"),
    Accepted(_HEAD + r"metadata\.annotations\.ray\.io/kuberay-version", "our version"),
    Accepted(
        r"Pod \S+ metadata\.annotations(\.ray\.io/made-from)?",
        "Pods tell what they were made from, so that a user can be told which changes wait for new ones",
        when=lambda each, _: each.golden is None and (isinstance(each.ours, str) or set(each.ours) == {MADE_FROM}),
    ),
    Accepted(
        _RAY + r"status\.conditions\.SpecChangesPending",
        "the status names the changes that wait for new Pods",
        case="upgrade-(none|unset)-new-image",
    ),
    Accepted(
        r".*env\[FQ_RAY_IP\]", "a head can be reached at its own address", when=lambda each, _: each.golden is None
    ),
    Accepted(r".*env\[RAY_USAGE_STATS_EXTRA_TAGS\]\.value", "our version"),
    Accepted(r"Pod .*initContainers\[wait-gcs-ready\]\.args\[0\]", "a check that does not import Ray"),
    Accepted(r"Job .*containers\[0\]\.args\[0\]", "the same, in our words"),
    Accepted(
        r"Job .*template\.metadata\.(generateName|namespace|ownerReferences)", "a Pod template has no need of them"
    ),
    Accepted(
        _RAY + r"(metadata\.generation|status\.observedGeneration)",
        "a finalizer is added by a patch that leaves the spec as it is",
        when=lambda each, _: (each.golden or 0) > (each.ours or 0) > 0,
    ),
    Accepted(
        _RAY + r"status\.observedGeneration",
        "the generation that was looked at is told even when nothing else is different",
        when=lambda each, _: (each.ours or 0) > (each.golden or 0) > 0,
    ),
    Accepted(
        _RAY + r"status\..*", "a cluster that is left as it is says so in its status", when=has_condition("Blocked")
    ),
    Accepted(
        _RAY + r"status\.conditions\.PodsBlocked",
        "the status tells what keeps Pods from their work",
        case="state-(head-image-pull|worker-not-ready)",
    ),
    Accepted(_RAY + r"status\.conditions\.RedisCleanup", "the status tells what a deletion waits for"),
    Accepted(
        _RAY + r"status\.(head\..*|conditions\.HeadPodReady.*|(available|ready)WorkerReplicas|observedGeneration)",
        "the status of a cluster that is being deleted is kept up to date",
        when=has_condition("RedisCleanup"),
    ),
    Accepted(r"event Normal DeletedPod .*", "Pods that go are told of, with the reason", case="ft-delete-.*"),
    Accepted(_RAY + r"status\.conditions\.ReplicaFailure\.message", "in our words, with the name of the Pod"),
    Accepted(
        _RAY + r"status\.conditions\.RayClusterProvisioned\..*",
        "a cluster with a refused worker is not provisioned",
        when=has_condition("ReplicaFailure"),
    ),
    Accepted(
        r"(Pod demo-gone-worker-<rand> |\S+ status\.(available|ready)WorkerReplicas|event .*DeletedWorkerPod.*)",
        "the Pods of a group that is no longer in the spec are removed",
        case="group-removed-later",
    ),
    Accepted(r".*", "no host in a replica is an error of the spec", case="hosts-zero", when=has_condition("Blocked")),
    Accepted(
        r"(Pod|Service|event) .*",
        "a Service for Serve without a port is an error of the spec, and told",
        case="serve-service-without-port",
        when=has_condition("Blocked"),
    ),
    Accepted(
        _HEAD + r"spec\.containers.*",
        "the record takes the end of a user's name, and so the flag --head, for generated",
        case="template-name-on-head-wins",
    ),
)

GAPS = (
    Accepted(r"PersistentVolumeClaim \S+ metadata\.finalizers", "claims in use are not protected"),
    Accepted(r"Pod \S+ spec\.priority", "there are no priority classes", case="pod-priority-class"),
    Accepted(
        _RAY + r"metadata\.generation",
        "a status that comes in another version counts as a change",
        case="version-alpha-api",
    ),
    Accepted(r".*", "a GPU may be requested without a limit", case="gpu-only-in-head-requests"),
)
"""What the embedded API server does not do yet."""


def unexpected(case: str, golden: Json, ours: Json, *, is_embedded: bool) -> list[Difference]:
    """All differences that nobody has accepted."""
    accepted = ACCEPTED + GAPS if is_embedded else ACCEPTED
    return [each for each in _all(golden, ours) if not any(known.covers(case, each, ours) for known in accepted)]


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
