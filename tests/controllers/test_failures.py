"""How long a refused thing waits."""

from __future__ import annotations

from kuberay.controllers.failures import Failure, Refusal, after

QUOTA = Refusal(scope="group a", reason="FailedCreateWorkerPod", message="exceeded quota")


def again(failures: dict[str, Failure], now: float, generation: int = 1) -> dict[str, Failure]:
    return after(failures, set(), [QUOTA], generation=generation, now=now)


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

    def test_it_holds_until_its_time(self) -> None:
        failure = again({}, now=100.0)["group a"]
        assert failure.holds(1, 100.5)
        assert not failure.holds(1, 101.0)

    def test_it_does_not_hold_another_generation(self) -> None:
        assert not again({}, now=100.0)["group a"].holds(2, 100.0)


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
