from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kuberay.api.crd import DEFINITIONS, crd
from kuberay.cli import main
from kuberay.cli.crds import to_yaml
from tests import control_plane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.control_plane import ControlPlane


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["crds", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


# What JSON escapes as one character and YAML reads as one; CRDs hold nothing beyond.
TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


class TestOutput:
    @pytest.mark.slow
    @pytest.mark.parametrize("slim", [False, True])
    def test_yaml_holds_one_document_per_kind(self, slim: bool) -> None:
        documents = yaml.load_all(printed(*["--slim"] * slim), Loader=yaml.CSafeLoader)
        assert list(documents) == [crd(kind, slim=slim) for kind in DEFINITIONS]

    def test_json_is_one_list_that_kubectl_takes(self) -> None:
        found = json.loads(printed("--slim", "--output", "json"))
        assert found == {"apiVersion": "v1", "kind": "List", "items": [crd(kind, slim=True) for kind in DEFINITIONS]}

    def test_yaml_has_no_anchors(self) -> None:
        assert "&id" not in printed()

    @given(
        st.dictionaries(
            TEXT,
            st.recursive(
                st.none() | st.booleans() | st.integers() | TEXT,
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
                max_leaves=10,
            ),
        )
    )
    def test_our_yaml_is_yaml(self, value: dict[str, Any]) -> None:
        assert (yaml.load(to_yaml(value), Loader=yaml.CSafeLoader) or {}) == value


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of our own: the test replaces its CRDs."""
    try:
        control_plane.programs()
    except control_plane.ProgramsMissing as missing:
        pytest.skip(f"real kube-apiserver: {missing}")
    with control_plane.control_plane(tmp_path) as plane:
        yield plane


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.timeout(120)
class TestInstalling:
    def kubectl(self, plane: ControlPlane, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)

    def test_slim_ones_install_with_a_plain_apply_and_full_ones_replace_them(self, plane: ControlPlane) -> None:
        plain = self.kubectl(plane, "apply", "-f", "-", text=printed("--slim"))
        assert plain.returncode == 0, plain.stderr
        assert plain.stdout.count("created") == len(DEFINITIONS)
        too_long = self.kubectl(plane, "apply", "-f", "-", text=printed())
        assert "Too long" in too_long.stderr
        applied = self.kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", "-", text=printed())
        assert applied.returncode == 0, applied.stderr
