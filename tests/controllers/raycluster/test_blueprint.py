from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from kuberay.build import pod as pods
from kuberay.build.options import BuildOptions
from kuberay.controllers.raycluster.blueprint import Blueprint
from tests.build.clusters import cluster, group
from tests.controllers.raycluster.situations import after, creates, plan, seen

if TYPE_CHECKING:
    from typing import Any

    from kuberay.api.v1 import RayCluster


def changed(rc: RayCluster, **metadata: Any) -> RayCluster:
    return msgspec.structs.replace(rc, metadata=msgspec.structs.replace(rc.metadata, **metadata))


class TestOneGeneration:
    def test_the_template_of_a_group_is_rendered_once_for_all_its_pods(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rendered: list[str] = []
        render = pods.worker

        def counting(*arguments: Any, **options: Any) -> pods.PodTemplate:
            rendered.append(arguments[1].group_name)
            return render(*arguments, **options)

        monkeypatch.setattr(pods, "worker", counting)
        rc = cluster(groups=[group(replicas=1000, maxReplicas=1000)])
        blueprint, made = Blueprint(rc), 0
        situation = seen(rc, drawn=blueprint)
        while found := creates(done := plan(situation)):
            made += len(found)
            situation = after(situation, done)
        assert made == 1 + 1000
        assert rendered == ["wg"]

    def test_it_is_rendered_anew_for_other_settings(self) -> None:
        rc = cluster()
        blueprint = Blueprint(rc)
        names = [blueprint.head(BuildOptions(version=version)).metadata["annotations"] for version in ("a", "b")]
        assert names[0] != names[1]

    def test_it_gives_the_same_plan_as_one_that_is_drawn_anew(self) -> None:
        rc = cluster(groups=[group("a", replicas=2), group("b", replicas=1)])
        blueprint = Blueprint(rc)
        assert plan(seen(rc, drawn=blueprint)) == plan(seen(rc, drawn=blueprint)) == plan(seen(rc))


class TestHowLongItHolds:
    @pytest.mark.parametrize("said", [{"resource_version": "99"}, {"finalizers": ["ray.io/gcs-ft"]}])
    def test_it_fits_a_cluster_that_says_the_same(self, said: dict[str, Any]) -> None:
        rc = changed(cluster(), generation=3)
        assert Blueprint(rc).fits(changed(rc, **said))

    @pytest.mark.parametrize(
        "said",
        [
            {"generation": 4},
            {"uid": "another"},
            {"labels": {"ray.io/originated-from-crd": "RayJob"}},
            {"annotations": {"ray.io/overwrite-container-cmd": "true"}},
        ],
    )
    def test_it_does_not_fit_one_that_says_something_else(self, said: dict[str, Any]) -> None:
        rc = changed(cluster(), generation=3)
        assert not Blueprint(rc).fits(changed(rc, **said))
