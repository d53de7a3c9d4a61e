"""When a Pod is beyond repair."""

from __future__ import annotations

import msgspec
import pytest

from kuberay.api.core import Container, ContainerState, ContainerStatus, Pod, Running, Terminated
from kuberay.controllers.raycluster.health import beyond_repair, seconds_until_age
from tests.controllers.raycluster.situations import NOW, pod


class TestVerdict:
    @pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
    @pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never", ""])
    def test_a_pod_that_has_ended_never_comes_back(self, phase: str, policy: str) -> None:
        assert beyond_repair(pod("a", phase=phase, policy=policy)) is not None

    @pytest.mark.parametrize(
        ("policy", "goes"), [("Never", True), ("OnFailure", False), ("Always", False), ("", False)]
    )
    def test_a_running_pod_whose_ray_has_ended_goes_only_when_nobody_restarts_it(self, policy: str, goes: bool) -> None:
        assert (beyond_repair(pod("a", ended=True, policy=policy)) is not None) is goes

    @pytest.mark.parametrize("phase", ["Pending", "Unknown", "", "Running"])
    def test_any_other_pod_may_still_work(self, phase: str) -> None:
        assert beyond_repair(pod("a", phase=phase, policy="Never")) is None

    def test_only_the_ray_container_counts_wherever_its_status_stands(self) -> None:
        """raycluster EX-57."""
        ended = ContainerState(terminated=Terminated(exit_code=0))
        running = ContainerState(running=Running())
        assert beyond_repair(with_sidecar(sidecar=running, ray=ended)) is not None
        assert beyond_repair(with_sidecar(sidecar=ended, ray=running)) is None

    def test_an_evicted_pod_says_so(self) -> None:
        """raycluster EX-58."""
        evicted = pod("a", phase="Failed")
        evicted = msgspec.structs.replace(evicted, status=msgspec.structs.replace(evicted.status, reason="Evicted"))
        assert "Evicted" in (beyond_repair(evicted) or "")

    def test_the_reason_tells_the_exit_code(self) -> None:
        assert beyond_repair(pod("a", ended=True, policy="Never")) == (
            "its Ray container has ended, exit code 1 and restartPolicy is Never"
        )


class TestAge:
    def test_a_young_pod_has_to_wait(self) -> None:
        assert seconds_until_age(pod("a", age=2), 5.0, NOW) == 3.0

    def test_an_old_one_has_not(self) -> None:
        assert seconds_until_age(pod("a", age=60), 5.0, NOW) <= 0

    def test_a_clock_that_is_behind_does_not_stop_anything(self) -> None:
        assert seconds_until_age(pod("a", age=-3600), 5.0, NOW) == 0


def with_sidecar(*, sidecar: ContainerState, ray: ContainerState) -> Pod:
    one = pod("a", policy="Never")
    statuses = [ContainerStatus(name="sidecar", state=sidecar), ContainerStatus(name="ray", state=ray)]
    containers = [Container(name="ray"), Container(name="sidecar")]
    return msgspec.structs.replace(
        one,
        spec=msgspec.structs.replace(one.spec, containers=containers),
        status=msgspec.structs.replace(one.status, container_statuses=statuses),
    )
