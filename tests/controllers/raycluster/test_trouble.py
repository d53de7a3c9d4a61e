"""What is told of Pods that are stuck: why, which one, and what to do; and that it is not told again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kuberay.api.core import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodCondition,
    Running,
    Terminated,
    Waiting,
)
from kuberay.api.meta import find_condition
from kuberay.controllers.raycluster.status import timestamp
from kuberay.controllers.raycluster.trouble import trouble
from tests.controllers.raycluster.situations import LONG_AGO, NOW, after, head, plan, pod, seen, workers

if TYPE_CHECKING:
    from kuberay.controllers.raycluster.observe import Seen

BACK_OFF = "back-off {}s restarting failed container"


def with_status(one: Pod, **status: Any) -> Pod:
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, **status))


def unplaced(name: str = "a", *, message: str = "0/3 nodes are available", since: float = LONG_AGO) -> Pod:
    condition = PodCondition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message=message,
        last_transition_time=timestamp(since),
    )
    return with_status(pod(name, phase="Pending", ready=None), conditions=[condition])


def waiting(reason: str, message: str = "", *, of: Pod | None = None, init: bool = False, restarts: int = 0) -> Pod:
    state = ContainerState(waiting=Waiting(reason=reason, message=message))
    last = ContainerState(terminated=Terminated(exit_code=1, reason="Error")) if restarts else ContainerState()
    return container(
        ContainerStatus(name="ray", state=state, last_state=last, restart_count=restarts), of=of, init=init
    )


def container(status: ContainerStatus, *, of: Pod | None = None, init: bool = False) -> Pod:
    one = of if of is not None else pod("a", ready=False)
    return with_status(one, **{"init_container_statuses" if init else "container_statuses": [status]})


def running(since: float, *, ready: bool = False, restarts: int = 0) -> Pod:
    state = ContainerState(running=Running(started_at=timestamp(since)))
    last = ContainerState(terminated=Terminated(exit_code=1, reason="Error")) if restarts else ContainerState()
    return container(ContainerStatus(name="ray", state=state, last_state=last, ready=ready, restart_count=restarts))


def told(situation: Seen, now: float = NOW) -> tuple[str, str] | None:
    """Reason and message of the condition, when the plan has been carried out."""
    found = find_condition(after(situation, plan(situation, now=now), now).cluster.status.conditions, "PodsBlocked")
    return (found.reason, found.message) if found is not None and found.status == "True" else None


class TestWhatIsTold:
    def test_no_room_with_the_schedulers_words(self) -> None:
        assert told(seen(workers(1), head(), unplaced())) == (
            "Unschedulable",
            "Pod a: it fits on no node (0/3 nodes are available). Add nodes, or change what it asks for",
        )

    @pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
    @pytest.mark.parametrize("init", [False, True])
    def test_an_image_that_cannot_be_had(self, reason: str, init: bool) -> None:
        found = told(seen(workers(1), head(), waiting(reason, "not found", init=init)))
        assert found == (
            "ImagePullBackOff",
            "Pod a: the image of container ray cannot be had (not found). "
            "Check the image's name and tag, and imagePullSecrets",
        )

    @pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError"])
    def test_a_container_that_cannot_be_made(self, reason: str) -> None:
        found = told(seen(workers(1), head(), waiting(reason, 'secret "x" not found')))
        assert found is not None
        assert found[0] == reason
        assert 'secret "x" not found' in found[1]
        assert "Secrets" in found[1]

    def test_a_container_that_ends_again_and_again(self) -> None:
        found = told(seen(workers(1), head(), waiting("CrashLoopBackOff", BACK_OFF.format(10), restarts=3)))
        assert found is not None
        assert found[0] == "CrashLoopBackOff"
        assert "exit code 1, Error" in found[1]
        assert "kubectl logs a -c ray --previous" in found[1]

    @pytest.mark.parametrize(
        "state",
        [
            ContainerState(terminated=Terminated(exit_code=3)),
            ContainerState(waiting=Waiting(reason="CrashLoopBackOff")),
            ContainerState(running=Running(started_at=timestamp(NOW))),
        ],
    )
    def test_an_init_container_that_fails_whatever_it_does_just_now(self, state: ContainerState) -> None:
        last = ContainerState(terminated=Terminated(exit_code=3))
        found = told(
            seen(
                workers(1), head(), container(ContainerStatus(name="prepare", state=state, last_state=last), init=True)
            )
        )
        assert found is not None
        assert found[0] == "InitContainerFailing"
        assert "kubectl logs a -c prepare" in found[1]

    def test_a_container_that_does_not_become_ready(self) -> None:
        found = told(seen(workers(1), head(), running(NOW - 61)))
        assert found is not None
        assert found[0] == "ProbeFailing"
        assert "kubectl describe pod a" in found[1]

    def test_the_heads_comes_first(self) -> None:
        situation = seen(workers(1), waiting("ErrImagePull", of=head(ready=False)), unplaced())
        assert (told(situation) or ("", ""))[1].startswith("Pod rc-head: ")


class TestWhatIsNotTold:
    @pytest.mark.parametrize(
        "one",
        [
            pod("a"),
            waiting("ContainerCreating"),
            waiting("PodInitializing"),
            running(NOW, ready=True),
            container(
                ContainerStatus(name="w", ready=True, state=ContainerState(terminated=Terminated(exit_code=0))),
                init=True,
            ),
            with_status(waiting("ErrImagePull"), phase="Failed"),
            waiting("ErrImagePull", of=pod("a", ready=False, leaving=True)),
            with_status(
                pod("a", phase="Pending", ready=None),
                conditions=[PodCondition(type="PodScheduled", status="False", reason="SchedulingGated")],
            ),
        ],
    )
    def test_what_is_well_or_starting_or_leaving_or_held_on_purpose(self, one: Pod) -> None:
        assert trouble(one) is None

    def test_what_may_pass_in_a_moment_and_when_it_is_looked_at_again(self) -> None:
        starting = seen(workers(1), head(), running(NOW - 10))
        assert told(starting) is None
        assert plan(starting).look_again == 50.0
        assert told(starting, NOW + 50) is not None
        placing = seen(workers(1), head(), unplaced(since=NOW - 4))
        assert told(placing) is None
        assert plan(placing).look_again == 6.0

    def test_it_ends_with_the_trouble(self) -> None:
        situation = seen(workers(1), head(), unplaced())
        stuck = after(situation, plan(situation))
        assert told(replace(stuck, pods=(head(), pod("a")), counted=None)) is None


class TestAtRest:
    """What a kubelet or a scheduler says changes all the time; the trouble is the same."""

    def quiet(self, *steps: Pod) -> bool:
        """Whether nothing is written any more from the third step on."""
        situation = seen(workers(1), head(), steps[0])
        now = NOW
        for one in steps[1:3]:
            now += 10
            situation = replace(after(situation, plan(situation, now=now), now), pods=(head(), one), counted=None)
        situation = after(situation, plan(situation, now=now), now)
        for one in steps[3:]:
            now += 10
            if plan(replace(situation, pods=(head(), one), counted=None), now=now).status is not None:
                return False
        return True

    def test_of_crashes(self) -> None:
        again = running(NOW + 5, restarts=3)
        loop = [waiting("CrashLoopBackOff", BACK_OFF.format(each), restarts=each) for each in (1, 2, 4, 8, 16)]
        assert self.quiet(loop[0], again, loop[1], again, loop[2], again, loop[3], again, loop[4])

    def test_of_pulls(self) -> None:
        pulls = [waiting("ErrImagePull", "not found"), waiting("ImagePullBackOff", "Back-off pulling image")]
        assert self.quiet(*pulls * 4)

    def test_of_scheduling(self) -> None:
        assert self.quiet(*(unplaced(message=f"0/{count} nodes are available") for count in range(3, 9)))

    def test_nor_of_a_head(self) -> None:
        def step(reason: str, message: str, restarts: int = 0) -> Pod:
            one = waiting(reason, message, of=head(ready=False), restarts=restarts)
            ready = PodCondition(type="Ready", status="False", reason="ContainersNotReady", message="m")
            return with_status(one, conditions=[ready])

        for kinds in (("ErrImagePull", "ImagePullBackOff"), ("CrashLoopBackOff", "CrashLoopBackOff")):
            restarts = int("Crash" in kinds[0])
            situation = seen(workers(0), step(kinds[0], "first", restarts))
            for number in range(8):
                now = NOW + number
                found = plan(situation, now=now)
                assert number < 3 or found.status is None
                moved = step(kinds[number % 2], f"{number}", restarts)
                situation = replace(after(situation, found, now), pods=(moved,), counted=None)

    def test_a_new_pod_of_the_same_name_is_told_of_anew(self) -> None:
        def step(message: str, age: float) -> Pod:
            one = waiting("ImagePullBackOff", message, of=head(ready=False, age=age))
            ready = PodCondition(type="Ready", status="False", reason="ContainersNotReady")
            return with_status(one, conditions=[ready])

        situation = seen(workers(0), step("first", 60))
        situation = replace(after(situation, plan(situation)), pods=(step("second", -1),), counted=None)
        later = after(situation, plan(situation, now=NOW + 2), NOW + 2)
        messages = {each.type: each.message for each in later.cluster.status.conditions}
        assert "second" in messages["PodsBlocked"]
        assert "second" in messages["HeadPodReady"]
