"""What is brought back when somebody changes it, and what is not missed because no server keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kuberay.api.core import Metadata
from kuberay.api.partial import Ingress, NetworkPolicy
from kuberay.controllers.drift import drift
from kuberay.kube.resources import INGRESSES, NETWORK_POLICIES
from tests.operator.world import new_namespace

if TYPE_CHECKING:
    from kuberay.kube.client import Client

Json = dict[str, Any]

RULES: list[Json] = [
    {},
    {"from": [], "ports": []},
    {"from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {}}}]},
    {"from": [{"podSelector": {"matchLabels": {"app": ""}, "matchExpressions": []}}], "ports": [{"port": 80}, {}]},
    {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": []}, "podSelector": None}]},
    {"from": [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}}]},
]
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}


def wanted(kind: str, spec: Json) -> Json:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": spec,
    }


def policy(rules: list[Json]) -> Json:
    return wanted("NetworkPolicy", {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": rules})


def ingress(tls: list[Json]) -> Json:
    return wanted("Ingress", {"rules": [{"http": {"paths": [PATH]}}], "tls": tls})


def stored(rules: list[Json]) -> NetworkPolicy:
    metadata = Metadata(labels={"a": "b"}, annotations={"c": "d"})
    return NetworkPolicy(metadata=metadata, spec=policy(rules)["spec"])


class TestASpec:
    """As a server has it, be it the embedded one or a real one."""

    @pytest.mark.parametrize("rule", RULES, ids=str)
    async def test_of_a_policy_is_not_missed(self, api: Client, rule: Json) -> None:
        namespace = await new_namespace(api)
        made = await api.create(NETWORK_POLICIES, policy([rule]), namespace=namespace, type=NetworkPolicy)
        assert drift(made, policy([rule])) == {}

    @pytest.mark.parametrize("tls", [{}, {"hosts": []}, {"hosts": None, "secretName": ""}], ids=str)
    async def test_of_an_ingress_is_not_missed(self, api: Client, tls: Json) -> None:
        namespace = await new_namespace(api)
        made = await api.create(INGRESSES, ingress([tls]), namespace=namespace, type=Ingress)
        assert drift(made, ingress([tls])) == {}

    @pytest.mark.parametrize(
        ("found", "rule"),
        [
            ({}, {"from": [{"podSelector": {}}]}),
            ({"from": [{"podSelector": {}}]}, {}),
            ({"from": [{}]}, {"from": [{"podSelector": {}}]}),
            ({"from": [{"podSelector": {"matchLabels": {"app": ""}}}]}, {"from": [{"podSelector": {}}]}),
        ],
    )
    def test_that_means_something_else_is_brought_back(self, found: Json, rule: Json) -> None:
        assert drift(stored([found]), policy([rule])) == {"spec": {"ingress": [rule]}}


class TestLabelsAndAnnotations:
    def test_of_others_stay(self) -> None:
        metadata = Metadata(labels={"a": "b", "x": "y"}, annotations={"c": "d", "note": "n"})
        assert drift(NetworkPolicy(metadata=metadata, spec=policy([])["spec"]), policy([])) == {}

    def test_of_ours_are_brought_back(self) -> None:
        metadata = Metadata(labels={"a": "changed"}, annotations={"note": "n"})
        found = drift(NetworkPolicy(metadata=metadata, spec=policy([])["spec"]), policy([]))
        assert found == {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
