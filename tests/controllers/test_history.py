"""What is remembered of deeds."""

from __future__ import annotations

from kuberay.controllers.history import Deed, History
from kuberay.controllers.outcome import Outcome
from kuberay.controllers.plan import WORKER_POD, Delete
from kuberay.kube.identity import Key
from kuberay.kube.resources import PODS

RC = Key("ns", "rc")


def delete(name: str, why: str = "too many") -> Delete:
    return Delete(resource=PODS, namespace="ns", name=name, uid="u", subject=WORKER_POD, scope="group/g", why=why)


def test_what_was_done_in_one_pass_for_one_reason_is_one_deed() -> None:
    history = History()
    history.note(RC, Outcome(done=[delete("a"), delete("b"), delete("c", "broken")]), 5.0)
    assert history.of(RC) == [
        Deed(5.0, "delete", "worker Pod", ("a", "b"), 2, "too many"),
        Deed(5.0, "delete", "worker Pod", ("c",), 1, "broken"),
    ]


def test_a_refusal_is_remembered_with_what_the_server_said() -> None:
    history = History()
    history.note(RC, Outcome(refused=[(delete("a"), "no")]), 5.0)
    assert history.of(RC) == [Deed(5.0, "delete", "worker Pod", ("a",), 1, "too many", "no")]


def test_of_very_many_things_only_the_first_names_are_kept() -> None:
    history = History()
    history.note(RC, Outcome(done=[delete(str(number)) for number in range(5000)]), 5.0)
    [deed] = history.of(RC)
    assert (len(deed.names), deed.count) == (12, 5000)


def test_the_oldest_deeds_of_an_object_are_forgotten_first() -> None:
    history = History(each=2)
    for number in range(4):
        history.note(RC, Outcome(done=[delete("a")]), float(number))
    assert [deed.at for deed in history.of(RC)] == [2.0, 3.0]


def test_objects_for_which_nothing_was_done_longest_are_forgotten_first() -> None:
    history = History(most=3)
    for name in ("a", "b", "a", "c"):
        history.note(Key("ns", name), Outcome(done=[delete("x")]), 1.0)
    assert history.of(Key("ns", "b")) == []
    assert len(history.of(Key("ns", "a"))) == 2


def test_thousands_of_objects_that_are_long_gone_leave_no_more_than_a_few_megabytes() -> None:
    history = History()
    for number in range(3000):
        outcome = Outcome(refused=[(delete(f"pod-{number}-{host}"), "no" * 10_000) for host in range(3)])
        for _ in range(3):
            history.note(Key("ns", str(number)), outcome, 1.0)
    kept = [deed for number in range(3000) for deed in history.of(Key("ns", str(number)))]
    assert len(kept) <= 5000
    assert sum(len(deed.why) + len(deed.refusal) for deed in kept) < 5_000_000


def test_nothing_done_is_nothing_remembered() -> None:
    history = History()
    history.note(RC, Outcome(), 1.0)
    assert history.of(RC) == []
