"""Names that fit, as clients of KubeRay expect them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberay.api.validate.names import RAY_CLUSTER_NAME
from kuberay.build import names
from tests.build.clusters import cluster, group

LONG = "team-vision-prod-raycluster-for-nightly-batch-train1"


class TestPodNames:
    """pod-template section 4."""

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("ray-cluster-01", "ray-cluster-01-head-"),
            (
                "ray-cluster-0000000000000000000000011111111122222233333333333333",
                "ray-cluster-00000000000000000000000111111111222222-head-",
            ),
            ("demo", "demo-head-"),
            (LONG, "team-vision-prod-raycluster-for-nightly-batch-trai-head-"),
        ],
    )
    def test_a_generated_name_of_a_head_begins_with_that_of_its_cluster(self, name: str, expected: str) -> None:
        """raycluster EX-16, pod-template 28.6."""
        assert names.head_generate_name(cluster(name=name)) == expected

    @pytest.mark.parametrize("name", ["demo", LONG])
    def test_a_fixed_name_of_a_head_is_that_of_its_cluster_and_never_shortened(self, name: str) -> None:
        assert names.head_pod(cluster(name=name)) == f"{name}-head"

    def test_the_longest_name_of_a_cluster_leaves_room_for_the_host_name_of_its_head(self) -> None:
        assert len(names.head_pod(cluster(name="a" * RAY_CLUSTER_NAME))) <= 63

    @pytest.mark.parametrize(
        ("name", "group_name", "expected"),
        [
            ("ray-cluster", "group-name-01", "ray-cluster-group-name-01-worker-"),
            ("RC", "GroupA", "rc-groupa-worker-"),
            ("demo", "GPU", "demo-gpu-worker-"),
            (LONG, "GPU", "team-vision-prod-raycluster-for-nightly-batch-trai-worker-"),
        ],
    )
    def test_a_worker_is_named_after_its_cluster_and_group(self, name: str, group_name: str, expected: str) -> None:
        """raycluster EX-15."""
        rc = cluster(name=name, groups=[group(group_name)])
        assert names.worker_generate_name(rc, rc.spec.worker_group_specs[0]) == expected


class TestGeneratedNames:
    def test_the_same_knowledge_gives_the_same_name(self) -> None:
        assert names.unused("a-", "seed", set()) == names.unused("a-", "seed", set())

    def test_another_seed_gives_another_name(self) -> None:
        assert names.unused("a-", "seed", set()) != names.unused("a-", "other", set())

    @given(st.text(max_size=20), st.integers(1, 30))
    def test_a_taken_name_is_never_given_again(self, seed: str, count: int) -> None:
        taken: set[str] = set()
        for _ in range(count):
            taken.add(names.unused("a-", seed, taken))
        assert len(taken) == count

    def test_it_looks_like_a_name_that_kubernetes_generates(self) -> None:
        name = names.unused("demo-wg-worker-", "u-1/wg/0", set())
        assert name.startswith("demo-wg-worker-")
        assert len(name) == len("demo-wg-worker-") + 5


class TestShortening:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "72fbcc7e-a661-4b18e-ca41-e903-fc3ae634b18e-lazer090scholar-director-s",
                "rca41-e903-fc3ae634b18e-lazer090scholar-director-s",
            ),
            (
                "--------566666--------444433-----------222222----------4444",
                "r6666--------444433-----------222222----------4444",
            ),
            ("alpha7-" + "0123456789" * 5, "r123456789" + "0123456789" * 4),
            ("abcdef-" + "x" * 49, "r" + "x" * 49),
            ("demo-head-ingress", "demo-head-ingress"),
            (LONG, "am-vision-prod-raycluster-for-nightly-batch-train1"),
            (f"{LONG}-head-ingress", "d-raycluster-for-nightly-batch-train1-head-ingress"),
            ("", ""),
        ],
    )
    def test_a_name_keeps_its_end_and_starts_with_a_letter(self, name: str, expected: str) -> None:
        """raycluster EX-14, pod-template 28.6, pod-template section 4."""
        assert names.check_name(name) == expected

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (f"{LONG}-redis-cleanup", "m-vision-prod-raycluster-for-nightly-batch-train1-redis-cleanup"),
            ("a" * 53 + "-redis-cleanup", "a" * 49 + "-redis-cleanup"),
            ("x" * 10 + "-" + "y" * 62, "r" + "y" * 62),
            ("1abc", "1abc"),
        ],
    )
    def test_a_label_keeps_its_end_and_may_start_with_a_digit(self, value: str, expected: str) -> None:
        """raycluster EX-17."""
        assert names.check_label(value) == expected


class TestHeadService:
    def test_it_is_named_after_the_cluster(self) -> None:
        assert names.head_service(cluster()) == "rc-head-svc"

    def test_the_users_name_is_used_as_it_is(self) -> None:
        assert names.head_service(cluster(head={"headService": {"metadata": {"name": "mine"}}})) == "mine"

    def test_its_address_ends_in_the_domain_of_the_kubernetes_cluster(self) -> None:
        assert names.head_address(cluster(), "corp.example") == "rc-head-svc.default.svc.corp.example"
