"""`kuberay operator` and `kuberay install` as they are typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from kuberay.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


IMAGE = ("--image", "registry.example/kuberay:1")


def kuberay(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"KUBECONFIG": None, **environment})


@pytest.mark.parametrize(
    ("command", "printing"),
    [
        ("crds", "kuberay crds"),
        ("operator", "kuberay crds"),
        ("operator", "kuberay install --image IMAGE"),
        ("install", "kuberay install --image IMAGE"),
    ],
)
def test_what_help_tells_to_type_replaces_crds_whoever_made_them(command: str, printing: str) -> None:
    """KubeRay's chart, `kubectl create`: a server-side apply that does not insist is refused."""
    lines = [line.strip() for line in kuberay(command, "--help").output.splitlines()]
    assert f"{printing} | kubectl apply --server-side --force-conflicts -f -" in lines


class TestOperator:
    @pytest.mark.parametrize("word", ["--help", "-h", "-help"])
    def test_help_lists_the_flags(self, word: str) -> None:
        answer = kuberay("operator", word)
        assert answer.exit_code == 0
        assert "--reconcile-concurrency N\n" in answer.output

    def test_a_flag_that_there_is_not_is_a_mistake_of_usage(self) -> None:
        answer = kuberay("operator", "--qbs=1")
        assert answer.exit_code == 2
        assert "flag --qbs is unknown; known are --batch-scheduler" in answer.output

    def test_a_gate_that_there_is_not_is_answered_with_the_known_ones(self) -> None:
        answer = kuberay("operator", "--feature-gates=RayTurbo=true")
        assert answer.exit_code == 1
        assert "'RayTurbo' is unknown; known are GCSFaultToleranceEmbeddedStorage, KubernetesWAS" in answer.output

    def test_a_configuration_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        answer = kuberay("operator", f"--config={tmp_path / 'c.yaml'}")
        assert answer.exit_code == 1
        assert "No such file or directory" in answer.output
        assert "c.yaml" in answer.output

    def test_a_configuration_file_that_is_no_text_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "c.yaml"
        file.write_bytes(b"\xff\xfe")
        answer = kuberay("operator", f"--config={file}")
        assert answer.exit_code == 1
        assert f"Error: {file}: 'utf-8' codec can't decode byte 0xff" in answer.output

    def test_a_cluster_that_is_not_configured_is_an_error(self, tmp_path: Path) -> None:
        answer = kuberay("operator", "--kubeconfig", str(tmp_path / "none"))
        assert answer.exit_code == 1
        assert "there is no kubeconfig file" in answer.output


class TestInstall:
    @pytest.mark.slow
    def test_yaml_documents_can_be_read_back(self) -> None:
        answer = kuberay("install", *IMAGE, "--crds=slim", "--namespace=ops")
        documents = list(yaml.safe_load_all(answer.output))
        assert [each["kind"] for each in documents[:5]] == ["CustomResourceDefinition"] * 4 + ["Namespace"]
        assert documents[-1]["metadata"]["namespace"] == "ops"

    def test_one_json_list(self) -> None:
        answer = kuberay("install", *IMAGE, "--crds=none", "--output=json")
        found = json.loads(answer.output)
        assert (found["kind"], found["items"][-1]["kind"]) == ("List", "Deployment")

    def test_flags_behind_two_dashes_are_for_the_operator(self) -> None:
        answer = kuberay("install", *IMAGE, "--crds=none", "--output=json", "--", "--qps=50")
        [container] = json.loads(answer.output)["items"][-1]["spec"]["template"]["spec"]["containers"]
        assert container["args"][-1] == "--qps=50"

    @pytest.mark.parametrize(
        ("flag", "why"),
        [
            ("--qbs=50", "flag --qbs is unknown"),
            ("--help", "`kuberay operator --help`"),
            ("--feature-gates=RayTurbo=true", "'RayTurbo' is unknown"),
            ("--batch-scheduler=volcano", "--batch-scheduler (batchScheduler): volcano is not supported yet"),
        ],
    )
    def test_flags_that_the_operator_would_refuse_are_refused_now(self, flag: str, why: str) -> None:
        answer = kuberay("install", *IMAGE, "--", flag)
        assert answer.exit_code == 2
        assert why in answer.output
        assert "kind:" not in answer.output

    def test_an_image_has_to_be_named_for_there_is_none_to_download(self) -> None:
        answer = kuberay("install")
        assert answer.exit_code == 2
        assert "Missing option '--image'" in answer.output

    def test_a_namespace_that_is_named_twice_is_one(self) -> None:
        answer = kuberay("install", *IMAGE, "--crds=none", "--output=json", "--watch-namespace=a, a,")
        made = json.loads(answer.output)["items"]
        assert len([each for each in made if each["metadata"].get("namespace") == "a"]) == 1
        [container] = made[-1]["spec"]["template"]["spec"]["containers"]
        assert "--watch-namespace=a" in container["args"]
