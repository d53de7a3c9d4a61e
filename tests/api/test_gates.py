from __future__ import annotations

import pytest

from kuberay.api.gates import ALPHA, BETA, DEFAULT_GATES, FeatureGates, Gate


class TestDefaults:
    def test_beta_is_on_and_alpha_is_off(self) -> None:
        assert all(gate in DEFAULT_GATES for gate in BETA)
        assert not any(gate in DEFAULT_GATES for gate in ALPHA)


class TestParsing:
    def test_named_gates_change_and_others_keep_their_default(self) -> None:
        gates = FeatureGates.parse("RayClusterMTLS=true, RayJobDeletionPolicy=false")
        assert Gate.RAY_CLUSTER_MTLS in gates
        assert Gate.RAY_JOB_DELETION_POLICY not in gates
        assert Gate.RAY_MULTI_HOST_INDEXING in gates

    def test_a_name_of_its_own_wins_over_its_group_in_any_order(self) -> None:
        for text in ("AllAlpha=true,RayCronJob=false", "RayCronJob=false,AllAlpha=true"):
            gates = FeatureGates.parse(text)
            assert Gate.RAY_CRON_JOB not in gates
            assert Gate.KUBERNETES_WAS in gates

    def test_nothing_means_the_defaults(self) -> None:
        assert FeatureGates.parse("") == DEFAULT_GATES

    @pytest.mark.parametrize("text", ["Nope=true", "RayCronJob", "RayCronJob=maybe", "=true"])
    def test_what_is_not_a_gate_is_refused_by_name(self, text: str) -> None:
        with pytest.raises(ValueError, match="feature gate"):
            FeatureGates.parse(text)
