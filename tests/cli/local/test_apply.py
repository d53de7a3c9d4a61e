from __future__ import annotations

from typing import Any

import orjson

from kuberay.cli.local.apply import LAST_APPLIED, three_way_patch, with_last_applied
from kuberay.kube.patches import merge_patch

MANIFEST: dict[str, Any] = {
    "kind": "RayCluster",
    "metadata": {"name": "a", "labels": {"team": "x"}},
    "spec": {"rayVersion": "2.60.0", "suspend": False},
}


class TestTheNoteOfWhatWasApplied:
    def test_is_the_manifest_itself_as_kubectl_writes_it(self) -> None:
        note = with_last_applied(MANIFEST)["metadata"]["annotations"][LAST_APPLIED]
        assert orjson.loads(note) == {**MANIFEST, "metadata": {**MANIFEST["metadata"], "annotations": {}}}
        assert note.endswith("\n")

    def test_does_not_hold_an_earlier_note(self) -> None:
        once = with_last_applied(MANIFEST)
        assert with_last_applied(once) == once

    def test_leaves_the_manifest_alone(self) -> None:
        with_last_applied(MANIFEST)
        assert "annotations" not in MANIFEST["metadata"]


class TestTheThreeWayPatch:
    def test_a_field_dropped_from_the_manifest_is_removed(self) -> None:
        current = with_last_applied(MANIFEST)
        wanted = with_last_applied({**MANIFEST, "spec": {"rayVersion": "2.60.0"}})
        assert three_way_patch(current, wanted)["spec"] == {"rayVersion": "2.60.0", "suspend": None}

    def test_a_field_that_somebody_else_added_stays(self) -> None:
        current = with_last_applied(MANIFEST)
        current["metadata"]["labels"]["other"] = "y"
        current["status"] = {"state": "ready"}
        after = merge_patch(current, three_way_patch(current, with_last_applied(MANIFEST)))
        assert after == current

    def test_an_object_that_was_never_applied_is_only_added_to(self) -> None:
        current = {"kind": "RayCluster", "metadata": {"name": "a"}, "spec": {"suspend": True, "extra": 1}}
        after = merge_patch(current, three_way_patch(current, with_last_applied(MANIFEST)))
        assert after["spec"] == {"rayVersion": "2.60.0", "suspend": False, "extra": 1}

    def test_a_value_that_became_an_object_is_replaced(self) -> None:
        current = with_last_applied({**MANIFEST, "spec": {"autoscalerOptions": "none"}})
        wanted = with_last_applied({**MANIFEST, "spec": {"autoscalerOptions": {"version": "v2"}}})
        assert three_way_patch(current, wanted)["spec"] == {"autoscalerOptions": {"version": "v2"}}
