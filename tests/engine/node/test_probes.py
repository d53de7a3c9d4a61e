"""Probes: what a row of looks means, and when the next one is due."""

from __future__ import annotations

import pytest

from kuberay.engine.node import probes
from kuberay.engine.node.probes import LIVENESS, READINESS, Probe, Tally


def tally(probe: Probe, *looks: bool) -> Tally:
    found = Tally()
    for succeeded in looks:
        found = probes.count(probe, found, succeeded=succeeded)
    return found


class TestCounting:
    def test_one_success_is_enough_unless_more_are_wanted(self) -> None:
        assert tally(Probe(READINESS, {}), True).passing is True
        assert tally(Probe(READINESS, {}, success_threshold=2), True).passing is None
        assert tally(Probe(READINESS, {}, success_threshold=2), True, True).passing is True

    def test_failures_count_only_in_a_row(self) -> None:
        probe = Probe(LIVENESS, {}, failure_threshold=3)
        assert tally(probe, True, False, False).passing is True
        assert tally(probe, True, False, False, True, False, False).passing is True
        assert tally(probe, True, False, False, False).passing is False

    def test_recovers(self) -> None:
        assert tally(Probe(READINESS, {}, failure_threshold=1), True, False, True).passing is True


class TestTiming:
    def test_readiness_is_looked_at_from_the_start_and_every_second_until_the_first_success(self) -> None:
        probe = Probe(READINESS, {}, initial_delay=10, period=5)
        assert probes.first_look(probe) == 0
        assert probes.next_look(probe, Tally()) == 1
        assert probes.next_look(probe, tally(probe, True)) == 5

    def test_liveness_keeps_its_initial_delay_and_period(self) -> None:
        probe = Probe(LIVENESS, {}, initial_delay=30, period=5)
        assert probes.first_look(probe) == 30
        assert probes.next_look(probe, Tally()) == 5

    def test_early_failures_are_no_news(self) -> None:
        probe = Probe(READINESS, {}, initial_delay=10)
        assert not probes.is_worth_mentioning(probe, 9)
        assert probes.is_worth_mentioning(probe, 10)

    def test_defaults_are_those_of_kubernetes(self) -> None:
        probe = probes.of_container({"livenessProbe": {"tcpSocket": {"port": 1}}})[LIVENESS]
        assert (probe.initial_delay, probe.period, probe.timeout) == (0, 10, 1)
        assert (probe.success_threshold, probe.failure_threshold) == (1, 3)


class TestPorts:
    @pytest.mark.parametrize("port", [8000, "8000", "serve"])
    def test_are_found_by_number_and_by_name(self, port: int | str) -> None:
        assert probes.port_number({"ports": [{"name": "serve", "containerPort": 8000}]}, port) == 8000

    def test_a_name_nobody_declared_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="serve"):
            probes.port_number({}, "serve")
