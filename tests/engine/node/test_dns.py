"""Names inside the Pods' network, down to the bytes of the answers."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from kuberay.engine.node import dns, names

A, AAAA, PTR, SRV = 1, 28, 12, 33


@dataclass
class Cluster:
    """A directory made of plain lists."""

    all_services: list[dict[str, Any]] = field(default_factory=list)
    all_slices: list[dict[str, Any]] = field(default_factory=list)

    def services(self) -> list[dict[str, Any]]:
        return self.all_services

    def service(self, namespace: str, name: str) -> dict[str, Any] | None:
        wanted = {"namespace": namespace, "name": name}
        return next((each for each in self.all_services if each["metadata"] == wanted), None)

    def slices(self, namespace: str, service: str) -> list[dict[str, Any]]:
        return [
            each
            for each in self.all_slices
            if each["metadata"]["namespace"] == namespace and each["metadata"]["labels"][names.LABEL_SERVICE] == service
        ]


def service(name: str, cluster_ip: str = "None", **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": name}
    return {"metadata": metadata, "spec": {"clusterIP": cluster_ip, "ports": [{"name": "gcs", "port": 6379}], **spec}}


def endpoints(name: str, *found: dict[str, Any]) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": f"{name}-1", "labels": {names.LABEL_SERVICE: name}}
    return {"metadata": metadata, "ports": [{"name": "gcs", "port": 16379}], "endpoints": list(found)}


CLUSTER = Cluster(
    [
        service("web", "10.96.0.7"),
        service("head", publishNotReadyAddresses=True),
        service("workers"),
        service("empty"),
        service("outside", type="ExternalName", externalName="ray.io"),
    ],
    [
        endpoints("web", {"addresses": ["10.244.0.5"], "conditions": {"ready": True}}),
        endpoints("head", {"addresses": ["10.244.0.5"], "conditions": {"ready": False}, "hostname": "h0"}),
        endpoints(
            "workers",
            {"addresses": ["10.244.0.6"], "conditions": {"ready": True}},
            {"addresses": ["10.244.0.7"], "conditions": {"ready": False}},
        ),
    ],
)


def query(name: str, kind: int = A, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!HHHHHH", 7, flags, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def ask(name: str, kind: int = A) -> tuple[int, list[bytes]]:
    """The code of an answer and the data of its records."""
    reply = dns.answer(CLUSTER, query(name, kind))
    assert reply is not None
    number, flags, _, count, _, _ = struct.unpack_from("!HHHHHH", reply)
    assert (number, flags & 0x8000) == (7, 0x8000)
    position = len(query(name, kind))
    records = []
    for _ in range(count):
        _, _, _, ttl, size = struct.unpack_from("!HHHIH", reply, position)
        assert ttl == dns.TIME_TO_LIVE
        records.append(reply[position + 12 : position + 12 + size])
        position += 12 + size
    assert position == len(reply)
    return flags & 0xF, records


def addresses(name: str) -> list[str]:
    code, records = ask(name)
    assert code == 0
    return [".".join(str(byte) for byte in record) for record in records]


class TestServices:
    def test_a_service_with_an_address_answers_with_it(self) -> None:
        assert addresses("web.default.svc.cluster.local") == ["10.96.0.7"]

    def test_a_headless_service_answers_with_its_ready_pods(self) -> None:
        assert addresses("workers.default.svc.cluster.local") == ["10.244.0.6"]

    def test_a_head_that_is_not_ready_yet_can_be_found_when_its_service_publishes_it(self) -> None:
        assert addresses("head.default.svc.cluster.local") == ["10.244.0.5"]

    def test_a_name_is_found_in_any_case(self) -> None:
        assert addresses("WEB.default.svc.Cluster.Local") == ["10.96.0.7"]

    def test_a_service_without_endpoints_exists_without_addresses(self) -> None:
        assert ask("empty.default.svc.cluster.local") == (0, [])

    def test_a_pod_of_a_service_is_found_by_its_host_name(self) -> None:
        assert addresses("h0.head.default.svc.cluster.local") == ["10.244.0.5"]

    def test_a_pod_is_found_by_its_address(self) -> None:
        assert addresses("10-244-0-9.default.pod.cluster.local") == ["10.244.0.9"]

    def test_an_external_name_is_an_alias(self) -> None:
        assert ask("outside.default.svc.cluster.local") == (0, [b"\x03ray\x02io\x00"])

    def test_ports_are_found_by_name(self) -> None:
        code, records = ask("_gcs._tcp.web.default.svc.cluster.local", SRV)
        assert code == 0
        assert [struct.unpack_from("!HHH", record)[2] for record in records] == [6379]

    def test_addresses_are_found_back(self) -> None:
        assert ask("7.0.96.10.in-addr.arpa", PTR) == (0, [b"\x03web\x07default\x03svc\x07cluster\x05local\x00"])


class TestSayingNo:
    @pytest.mark.parametrize(
        "name",
        [
            "metadata.google.internal",
            "absent.default.svc.cluster.local",
            "web.other.svc.cluster.local",
            "svc.cluster.local",
            "x.y.z.web.default.svc.cluster.local",
            "_other._tcp.web.default.svc.cluster.local",
            "1.2.3.4.in-addr.arpa",
            "head",
        ],
    )
    def test_everything_else_does_not_exist(self, name: str) -> None:
        assert ask(name) == (3, [])

    def test_a_service_has_no_ipv6_address_but_exists(self) -> None:
        assert ask("web.default.svc.cluster.local", AAAA) == (0, [])

    def test_damaged_queries_are_refused_not_fatal(self) -> None:
        whole = query("web.default.svc.cluster.local")
        for size in range(len(whole)):
            reply = dns.answer(CLUSTER, whole[:size])
            assert reply is None or reply[3] & 0xF == 1

    def test_an_answer_to_nobodys_question_is_ignored(self) -> None:
        assert dns.answer(CLUSTER, query("web.default.svc.cluster.local", flags=0x8100)) is None


class TestLongAnswers:
    def test_are_cut_for_datagrams_and_whole_otherwise(self) -> None:
        many = [{"addresses": [f"10.244.1.{number}"], "conditions": {"ready": True}} for number in range(100)]
        cluster = Cluster([service("many")], [endpoints("many", *many)])
        asked = query("many.default.svc.cluster.local")
        cut, whole = dns.answer(cluster, asked, longest=512), dns.answer(cluster, asked)
        assert cut is not None
        assert whole is not None
        assert len(cut) <= 512
        assert cut[2] & 0x02  # truncated: ask again by TCP
        assert struct.unpack_from("!H", whole, 6) == (100,)


class TestTargets:
    def test_lead_to_the_ports_of_the_pods(self) -> None:
        assert names.targets(CLUSTER, CLUSTER.all_services[0], {"name": "gcs"}) == [("10.244.0.5", 16379)]

    def test_leave_out_what_is_not_ready(self) -> None:
        assert names.targets(CLUSTER, CLUSTER.all_services[2], {"name": "gcs"}) == [("10.244.0.6", 16379)]


class TestFiles:
    def test_the_full_name_of_a_head_service_is_asked_for_as_it_is(self) -> None:
        text = names.resolver_configuration("default", "10.244.0.1")
        ndots = int(text.split("ndots:")[1])
        assert "rc-head-svc.default.svc.cluster.local".count(".") >= ndots
        assert "search default.svc.cluster.local svc.cluster.local cluster.local\n" in text

    def test_a_pod_knows_its_own_name(self) -> None:
        assert "10.244.0.5\thead\n" in names.hosts_file("10.244.0.5", "head", namespace="default")
        below = names.hosts_file("10.244.0.5", "head", namespace="default", subdomain="svc")
        assert "10.244.0.5\thead.svc.default.svc.cluster.local\thead\n" in below
