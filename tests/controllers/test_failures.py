"""How long a refused thing waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kuberay.controllers.failures import Failure, Refusal, after, hold_back
from kuberay.controllers.plan import Delete, Plan, Subject
from kuberay.kube.resources import PODS

WG = Subject("worker Pod", "WorkerPod")
QUOTA = Refusal(scope="group a", reason="FailedCreateWorkerPod", message="exceeded quota")


LATE = replace(QUOTA, message="no answer in time", is_passing=True)


def again(
    failures: dict[str, Failure], now: float, generation: int = 1, refusal: Refusal = QUOTA, advanced: str = ""
) -> dict[str, Failure]:
    return after(failures, set(), [refusal], advanced={advanced}, generation=generation, now=now)


def removal(scope: str) -> Delete:
    return Delete(resource=PODS, namespace="default", name=scope, uid="u", subject=WG, scope=scope, why="why")


class TestWaiting:
    def test_it_is_longer_each_time_up_to_a_minute(self) -> None:
        failures: dict[str, Failure] = {}
        waits = []
        for _ in range(9):
            failures = again(failures, now=0.0)
            waits.append(failures["group a"].retry_at)
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]

    def test_a_new_generation_begins_anew(self) -> None:
        failures = again(again({}, now=0.0), now=0.0, generation=2)
        assert failures["group a"].attempts == 1

    def test_so_does_a_scope_in_which_something_else_was_done(self) -> None:
        failures = again(again({}, now=0.0), now=0.0, advanced="group a")
        assert failures["group a"].attempts == 1

    def test_it_holds_until_its_time(self) -> None:
        failure = again({}, now=100.0)["group a"]
        assert failure.holds(1, 100.5)
        assert not failure.holds(1, 101.0)

    def test_a_clock_that_is_put_back_makes_it_hold_no_longer(self) -> None:
        assert not again({}, now=3600.0)["group a"].holds(1, 0.0)

    def test_it_does_not_hold_another_generation(self) -> None:
        assert not again({}, now=100.0)["group a"].holds(2, 100.0)


class TestWhatFailsInPassing:
    def test_is_tried_sooner_and_more_often(self) -> None:
        failures: dict[str, Failure] = {}
        waits = []
        for _ in range(11):
            failures = again(failures, now=0.0, refusal=LATE)
            waits.append(failures["group a"].retry_at)
        assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15, 15]

    @pytest.mark.parametrize(
        ("moments", "told"),
        [
            ([0.0, 1.0, 2.0, 3.0], [False, False, False, True]),
            ([0.0, 30.0, 60.0], [False, False, True]),
        ],
    )
    def test_is_told_when_it_does_not_pass(self, moments: list[float], told: list[bool]) -> None:
        failures: dict[str, Failure] = {}
        found = []
        for now in moments:
            failures = again(failures, now, refusal=LATE)
            found.append(failures["group a"].is_worth_telling)
        assert found == told

    def test_a_refusal_is_told_at_once(self) -> None:
        assert again({}, now=0.0)["group a"].is_worth_telling


class TestHoldingBack:
    def held(self, plan: Plan, now: float) -> Plan:
        return hold_back(plan, again({}, now=100.0), generation=1, now=now)

    def test_what_was_refused_a_moment_ago_waits_and_nothing_else(self) -> None:
        one, two = removal("group a"), removal("group b")
        found = self.held(Plan(stages=((one,), (two, one)), look_again=5.0), now=100.5)
        assert found == Plan(stages=((two,),), held=frozenset({"group a"}), look_again=0.5)

    def test_until_its_time(self) -> None:
        plan = Plan(stages=((removal("group a"),),))
        assert self.held(plan, now=101.0) is plan

    def test_nobody_waits_for_what_is_not_wanted(self) -> None:
        plan = Plan(stages=((removal("group b"),),))
        assert self.held(plan, now=100.5) is plan


class TestSettling:
    def test_a_scope_in_which_nothing_is_left_to_do_is_forgotten(self) -> None:
        assert after(again({}, now=0.0), set(), [], generation=1, now=1.0) == {}

    def test_a_scope_that_was_not_tried_is_remembered(self) -> None:
        failures = again({}, now=0.0)
        assert after(failures, {"group a"}, [], generation=1, now=1.0) == failures

    def test_the_first_refusal_of_a_scope_speaks_for_it(self) -> None:
        other = Refusal(scope="group a", reason="FailedCreateWorkerPod", message="another")
        failures = after({}, set(), [QUOTA, other], generation=1, now=0.0)
        assert failures["group a"].message == "exceeded quota"
        assert failures["group a"].attempts == 1
