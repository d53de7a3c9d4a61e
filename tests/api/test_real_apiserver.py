"""Our CRDs, and our offline reading of them, beside a real kube-apiserver."""

from __future__ import annotations

import random
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kuberay.api import structural
from kuberay.api.crd import crd
from tests import control_plane
from tests.api.clusters import group, manifest
from tests.api.server import Answer, Server
from tests.api.upstream import RAY_KINDS, ROOT, documents, needs_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow, pytest.mark.timeout(180)]

SERVER_WRITTEN = ("uid", "creationTimestamp", "managedFields", "generation", "namespace")
ODD_VALUES: list[Any] = [
    None, "", "x", 0, -1, 2**31, 2**63, 1.5, 1.0, True, [], {}, [None], {"a": 1}, ["a", "a"],
    "1.5e3m", "-1", ".5", "5Gi", "1E", "a\n", "2026-01-01T00:00:00Z",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of our own: these tests replace its CRDs."""
    try:
        control_plane.programs()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kube-apiserver: {missing}")
    with control_plane.control_plane(tmp_path_factory.mktemp("crds")) as plane:
        connection = Server(plane)
        yield connection
        connection.close()


@cache
def manifests() -> list[dict[str, Any]]:
    paths = sorted([*ROOT.glob("samples/*.yaml"), *ROOT.glob("cases/*.yaml")])
    return [document for path in paths for document in documents(path) if document.get("kind") in RAY_KINDS]


def stored(answer: Answer) -> dict[str, Any] | None:
    """The object as the server would store it, without what only the server knows; `None` when it is refused."""
    return comparable(answer.body) if answer.accepted else None


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in document["metadata"].items() if key not in SERVER_WRITTEN}
    return {**document, "metadata": metadata}


def schema_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas(document["kind"])[document["apiVersion"]]
    return found


@cache
def schemas(kind: str, *, slim: bool = False) -> dict[str, Any]:
    versions = crd(kind, slim=slim)["spec"]["versions"]
    return {f"ray.io/{each['name']}": each["schema"]["openAPIV3Schema"] for each in versions}


@needs_upstream
class TestManifests:
    def answers(self, server: Server, crds: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        server.install(*crds)
        return [stored(server.create(document)) for document in manifests()]

    def test_ours_accept_refuse_and_complete_every_manifest_as_upstreams_do(self, server: Server) -> None:
        files = [ROOT / "crds" / f"ray.io_{kind.lower()}s.yaml" for kind in RAY_KINDS]
        theirs = self.answers(server, [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in files])
        slim = self.answers(server, [crd(kind, slim=True) for kind in RAY_KINDS])
        full = self.answers(server, [crd(kind) for kind in RAY_KINDS])
        assert full == theirs
        assert [answer is None for answer in slim] == [answer is None for answer in theirs]
        assert 0 < full.count(None) < 10

    def test_defaults_are_the_same_offline(self, server: Server) -> None:
        for document in manifests():
            answer = server.create(document)
            if answer.accepted:
                assert comparable(structural.defaulted(document, schema_of(document))) == stored(answer)


@needs_upstream
class TestSpoiledManifests:
    """Random damage, judged by the server and by us."""

    def spoiled(self, seed: int) -> dict[str, Any]:
        choice = random.Random(seed)
        document = deepcopy(choice.choice([each for each in manifests() if each["metadata"].get("name") != "Demo"]))
        for _ in range(choice.choice([1, 1, 2])):
            places = list(self.places(document["spec"]))
            holder, key = choice.choice(places)
            if choice.random() < 0.1:
                del holder[key]
            elif choice.random() < 0.2 and isinstance(holder, list):
                holder.append(deepcopy(holder[key]))
            else:
                holder[key] = deepcopy(choice.choice(ODD_VALUES))
        return document

    def places(self, value: Any) -> Iterator[tuple[Any, Any]]:
        keys: list[Any] = (
            list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        )
        for key in keys:
            yield value, key
            yield from self.places(value[key])

    def test_offline_judgement_is_the_servers(self, server: Server) -> None:
        refused = 0
        for seed in range(600):
            document = self.spoiled(seed)
            schema = schema_of(document)
            complete = structural.defaulted(document, schema)
            found = list(structural.problems(complete, schema))
            unknown = [problem for problem in found if problem.message.startswith("unknown field")]
            answer = server.create(document)
            assert answer.accepted == (len(found) == len(unknown)), (seed, found, answer.body)
            if answer.accepted and not unknown:
                assert stored(answer) == comparable(complete), seed
            if answer.accepted:
                slim = schemas(document["kind"], slim=True)[document["apiVersion"]]
                assert [each for each in structural.problems(complete, slim) if each not in unknown] == [], seed
            refused += not answer.accepted
        assert 100 < refused < 500


class TestChanges:
    @pytest.mark.parametrize(
        ("before", "after", "fine"),
        [
            ({}, {"managedBy": "ray.io/kuberay-operator"}, True),
            ({"managedBy": "ray.io/kuberay-operator"}, {}, True),
            ({"managedBy": "ray.io/kuberay-operator"}, {"managedBy": "kueue.x-k8s.io/multikueue"}, False),
            ({"gcsFaultToleranceOptions": {}}, {"gcsFaultToleranceOptions": {"backend": "rocksdb"}}, True),
            (
                {"gcsFaultToleranceOptions": {"backend": "redis"}},
                {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
                False,
            ),
        ],
    )
    def test_what_cannot_be_changed_cannot_be_changed_offline_either(
        self, server: Server, before: dict[str, Any], after: dict[str, Any], fine: bool
    ) -> None:
        if not server.ask("GET", "/apis/ray.io/v1/rayclusters").accepted:
            server.install(crd("RayCluster"))
        path = "/apis/ray.io/v1/namespaces/default/rayclusters"
        old = manifest(group(), **before)
        created = server.ask("POST", path, old)
        assert created.accepted, created.body
        new = manifest(group(), **after)
        new["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"]
        try:
            assert server.ask("PUT", f"{path}/demo", new).accepted is fine
        finally:
            server.ask("DELETE", f"{path}/demo")
        assert (list(structural.problems(new, schema_of(new), old)) == []) is fine
