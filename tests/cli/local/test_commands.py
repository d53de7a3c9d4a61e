from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kuberay.cli.local import commands
from kuberay.engine.folder import DataFolder, home_folder

if TYPE_CHECKING:
    import pytest

OWN = Path(sys.executable).with_name("kuberay")


def test_a_program_that_is_not_on_path_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    words = shlex.split(commands.kuberay("up", folder=DataFolder(home_folder())))
    assert words == [str(OWN), "local", "up"]


def test_a_program_that_is_on_path_is_named_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(OWN.parent))
    assert commands.kuberay("up", folder=DataFolder(home_folder())) == "kuberay local up"


def test_ray_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    words = shlex.split(commands.ray("job", "submit", "--", "python", "-c", "print('a b')"))
    assert words == [str(OWN.with_name("ray")), "job", "submit", "--", "python", "-c", "print('a b')"]


def test_a_machine_without_kubectl_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "kubectl itself is not on PATH" in commands.use_kubectl(DataFolder(home_folder()))


def test_another_folder_than_the_usual_is_part_of_the_command() -> None:
    command = commands.kuberay("up", folder=DataFolder(Path("/data of mine")))
    assert shlex.split(command)[-2:] == ["--folder", "/data of mine"]
