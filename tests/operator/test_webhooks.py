"""What is refused before it is stored."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from kuberay.kube.errors import ConfigError
from kuberay.kube.metrics import Metrics
from kuberay.operator.main import Operator
from kuberay.operator.settings import Settings
from kuberay.operator.webhooks import problems, server
from tests.controllers.embedded import embedded
from tests.kube.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def obj(name: str, groups: tuple[Any, ...] = (), **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"workerGroupSpecs": [*groups]}}


def found(kind: str, obj: dict[str, Any]) -> list[str]:
    return [problem.path for problem in problems(kind, obj)]


class TestNames:
    @pytest.mark.parametrize(("kind", "longest"), [("RayCluster", 53), ("RayJob", 47), ("RayService", 47)])
    def test_they_leave_room_for_what_is_appended(self, kind: str, longest: int) -> None:
        assert found(kind, obj("a" * longest)) == []
        assert found(kind, obj("a" * (longest + 1))) == ["metadata.name"]

    @pytest.mark.parametrize("name", ["1a", "A", "a.b", "a-"])
    def test_they_start_like_the_name_of_a_service(self, name: str) -> None:
        assert found("RayCluster", obj(name)) == ["metadata.name"]


class TestGroups:
    def test_two_of_one_name_are_refused_by_the_second(self) -> None:
        groups = ({"groupName": "a"}, {"groupName": "b"}, {"groupName": "a"})
        assert found("RayCluster", obj("rc", groups)) == ["spec.workerGroupSpecs[2]"]

    @pytest.mark.parametrize("groups", [("text",), (None,), ({"groupName": 5},)])
    def test_what_is_no_group_at_all_is_left_to_the_schema(self, groups: tuple[Any, ...]) -> None:
        assert found("RayCluster", obj("rc", groups)) == []

    def test_a_spec_that_is_none_is_left_to_the_schema(self) -> None:
        assert found("RayCluster", {"metadata": {"name": "rc"}, "spec": None}) == []


class TestServices:
    @pytest.mark.parametrize(("timeout", "wrong"), [("5m", False), ("90", False), ("soon", True), ("-5", True)])
    def test_the_time_to_initialise_must_be_one(self, timeout: str, wrong: bool) -> None:
        paths = found("RayService", obj("rs", annotations={"ray.io/initializing-timeout": timeout}))
        assert paths == (["metadata.annotations[ray.io/initializing-timeout]"] if wrong else [])


class TestServer:
    async def ask(self, folder: Path, authority: Authority, kind: str, **request: Any) -> dict[str, Any]:
        trust = ssl.create_default_context(cafile=str(authority.file))
        fields = {"uid": "u1", "operation": "CREATE", "name": "rc", **request}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}
        async with server(folder, Metrics()).serving("127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{port}/validate-ray-io-v1-{kind}"
            async with session.post(url, json=body, ssl=trust) as answer:
                response: dict[str, Any] = (await answer.json())["response"]
                return response

    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        authority = Authority(tmp_path)
        signed = authority.sign("webhook")
        (tmp_path / "tls.crt").write_bytes(signed.certificate.read_bytes())
        (tmp_path / "tls.key").write_bytes(signed.key.read_bytes())
        return authority

    async def test_a_refusal_is_invalid_and_names_object_and_field(self, tmp_path: Path, authority: Authority) -> None:
        response = await self.ask(tmp_path, authority, "raycluster", object=obj("1rc"), name="1rc")
        assert not response["allowed"]
        assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
        assert response["status"]["message"].startswith('RayCluster.ray.io "1rc" is invalid: metadata.name: ')

    @pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
    async def test_what_is_right_is_let_through(self, tmp_path: Path, authority: Authority, operation: str) -> None:
        assert (await self.ask(tmp_path, authority, "rayjob", object=obj("rj"), operation=operation))["allowed"]

    async def test_a_deletion_always_is(self, tmp_path: Path, authority: Authority) -> None:
        asked = {"oldObject": obj("1rc"), "operation": "DELETE"}
        assert (await self.ask(tmp_path, authority, "raycluster", **asked))["allowed"]

    async def test_so_is_the_removal_of_the_finalizers_that_it_waits_for(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        groups = ({"groupName": "a"}, {"groupName": "a"})
        leaving = obj("rc", groups, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[])
        asked = {"object": leaving, "oldObject": leaving, "operation": "UPDATE"}
        assert (await self.ask(tmp_path, authority, "raycluster", **asked))["allowed"]

    async def test_an_operator_without_a_certificate_does_not_start(self, tmp_path: Path) -> None:
        client, _ = await embedded()
        settings = replace(Settings(health_address=None), webhook_address="127.0.0.1:0")
        with pytest.raises(ConfigError, match="cannot read the certificate of the webhook server"):
            await Operator(client, settings, certificates=tmp_path).run(asyncio.Event())
