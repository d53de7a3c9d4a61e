"""What `kuberay local up` says to bad input, and that nothing is half-started. No Ray process runs in these tests."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from kuberay.cli.local.up import up
from kuberay.engine import engine as engines
from kuberay.engine.errors import RayMissing
from kuberay.engine.folder import KNOWN_NAMES, DataFolder
from kuberay.engine.node.images import RayEnvironment
from tests import control_plane
from tests.ray.laptop import EXAMPLE, Laptop, is_alive, processes_below, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.namespaces


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(tmp_path / "data")
    yield laptop
    laptop.kuberay("down")


_HEAD = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "ray-head", "image": "rayproject/ray"}]}}}
_JOB = {"entrypoint": "true", "rayClusterSpec": {"headGroupSpec": _HEAD}}
WITHOUT_CONTROLLER: dict[str, Any] = {
    kind: {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    for kind, spec in {
        "RayJob": _JOB,
        "RayService": {"serveConfigV2": "applications: []", "rayClusterConfig": {"headGroupSpec": _HEAD}},
        "RayCronJob": {"schedule": "0 0 * * *", "jobTemplate": _JOB},
    }.items()
}
APPLIED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  text: 1 < 2 & more
  gone: soon
---
apiVersion: v1
kind: Secret
metadata: {name: a}
data: {word: aGVsbG8=}
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {selector: {app: a}, ports: [{port: 80}]}
---
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: a}
spec:
  suspend: true
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head, image: "rayproject/ray"}]}}
"""

UNSHARE = {"x86_64": 272, "aarch64": 97}


def forbid_namespaces() -> None:
    """From here on the kernel refuses the `unshare` call, as hardened machines do: a seccomp filter of four steps."""
    load, jump, answer = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),  # the number of the call
        (jump, 0, 1, UNSHARE[platform.machine()]),
        (answer, 0, 0, 0x00050000 | errno.EPERM),
        (answer, 0, 0, 0x7FFF0000),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    filter_program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter, by_program = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_filter, by_program, filter_program, 0, 0) == 0


def typo(tmp_path: Path) -> str:
    file = tmp_path / "typo.yaml"
    file.write_text(EXAMPLE.read_text().replace("workerGroupSpecs:", "workerGroupSpec:"))
    return str(file)


class TestManifests:
    def test_a_typo_is_told_by_line_and_field_and_nothing_is_started(self, laptop: Laptop, tmp_path: Path) -> None:
        refused = laptop.up("--file", typo(tmp_path), check=False)
        assert refused.returncode == 1
        assert re.search(
            r"typo\.yaml:\d+ RayCluster/example spec\.workerGroupSpec: .*did you mean workerGroupSpecs\?",
            refused.stderr,
        )
        assert not laptop.folder.exists()

    def test_a_file_that_is_no_yaml_is_told_by_line(self, laptop: Laptop, tmp_path: Path) -> None:
        (tmp_path / "broken.yaml").write_text("kind: RayCluster\nmetadata: {name: [\n")
        refused = laptop.up("--file", str(tmp_path / "broken.yaml"), check=False)
        assert refused.returncode == 1
        assert re.search(r"broken\.yaml:\d+: ", refused.stderr)
        assert not laptop.folder.exists()

    def test_a_file_that_is_missing_is_named(self, laptop: Laptop) -> None:
        refused = laptop.up("--file", "nowhere.yaml", check=False)
        assert refused.returncode == 2
        assert "nowhere.yaml" in refused.stderr

    def test_a_kind_that_nobody_serves_is_named_and_the_engine_stops_again(
        self, laptop: Laptop, tmp_path: Path
    ) -> None:
        file = tmp_path / "other.yaml"
        file.write_text("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n")
        refused = laptop.up("--file", str(file), check=False)
        assert refused.returncode == 1
        assert "other.yaml:1 thing/a: example.com/v1 Thing is not served by the local engine" in refused.stderr
        assert DataFolder(laptop.folder).engine() is None

    def test_what_the_server_refuses_leaves_nothing_applied(self, laptop: Laptop, tmp_path: Path) -> None:
        file = tmp_path / "two.yaml"
        file.write_text(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n"
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n"
        )
        refused = laptop.up("--file", str(file), check=False)
        assert refused.returncode == 1
        assert "two.yaml:5 configmap/Not_A_Name" in refused.stderr
        assert "metadata.name" in refused.stderr
        laptop.up()
        assert "good" not in laptop.kubectl("get", "configmaps")

    @pytest.mark.parametrize("kind", ["RayJob", "RayService", "RayCronJob"])
    def test_a_kind_without_a_controller_is_refused_before_anything_starts(
        self, laptop: Laptop, tmp_path: Path, kind: str
    ) -> None:
        file = tmp_path / "two.yaml"
        file.write_text(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n" + yaml.safe_dump(WITHOUT_CONTROLLER[kind])
        )
        refused = laptop.up("--file", str(file), check=False)
        assert refused.returncode == 1
        assert f"{kind.lower()}/a: a {kind} has no controller yet" in refused.stderr
        assert not laptop.folder.exists()

    def test_what_up_applied_is_unchanged_for_kubectl(self, laptop: Laptop, tmp_path: Path) -> None:
        try:
            control_plane.kubectl()
        except control_plane.ProgramsMissing as missing:
            pytest.skip(f"real kubectl: {missing}")
        file = tmp_path / "all.yaml"
        file.write_text(APPLIED)
        laptop.up("--file", str(file))
        assert laptop.kubectl("apply", "-f", str(file)).splitlines() == [
            "configmap/a unchanged",
            "secret/a unchanged",
            "service/a unchanged",
            "raycluster.ray.io/a unchanged",
        ]
        file.write_text(APPLIED.replace("  gone: soon\n", ""))
        assert "configmap/a configured" in laptop.kubectl("apply", "-f", str(file))
        assert laptop.get("configmap", "a")["data"] == {"text": "1 < 2 & more"}


class TestTheMachine:
    def test_a_port_that_is_taken_is_named_with_the_way_out(self, laptop: Laptop) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            refused = laptop.kuberay("up", "--detach", f"--port={port}", check=False)
        assert refused.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}: another program listens there" in refused.stderr
        assert "--port 0" in refused.stderr
        assert DataFolder(laptop.folder).engine() is None

    def test_a_second_up_applies_to_the_engine_that_runs(self, laptop: Laptop, tmp_path: Path) -> None:
        laptop.up()
        engine = laptop.engine
        file = tmp_path / "more.yaml"
        file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n")
        assert "configmap/more created" in laptop.up("--file", str(file)).stdout
        assert "configmap/more unchanged" in laptop.kuberay("up", "--file", str(file)).stdout
        assert laptop.engine == engine

    def test_another_port_than_that_of_the_engine_that_runs_is_refused(self, laptop: Laptop) -> None:
        laptop.up()
        refused = laptop.kuberay("up", "--port=1", check=False)
        assert refused.returncode == 1
        assert f"an engine already runs (pid {laptop.engine})" in refused.stderr
        assert "does not listen on port 1" in refused.stderr

    def test_a_damaged_folder_is_named_and_left_as_it_is(self, laptop: Laptop) -> None:
        DataFolder(laptop.folder).create()
        objects = laptop.folder / "objects.db"
        objects.write_bytes(b"not a database, but somebody's data" * 100)
        refused = laptop.up(check=False)
        assert refused.returncode == 1
        assert str(objects) in refused.stderr
        assert objects.read_bytes() == b"not a database, but somebody's data" * 100
        assert DataFolder(laptop.folder).engine() is None

    def test_all_that_an_engine_makes_in_its_folder_is_known_and_goes_with_a_purge(self, laptop: Laptop) -> None:
        laptop.up()
        assert set(os.listdir(laptop.folder)) <= KNOWN_NAMES
        laptop.kuberay("down", "--purge")
        assert not laptop.folder.exists()

    def test_a_folder_that_no_engine_made_is_neither_used_nor_purged(self, laptop: Laptop) -> None:
        laptop.folder.mkdir()
        (laptop.folder / "thesis.tex").write_text("mine")
        for refused in (laptop.up(check=False), laptop.kuberay("down", "--purge", check=False)):
            assert refused.returncode == 1
            assert str(laptop.folder) in refused.stderr
        assert os.listdir(laptop.folder) == ["thesis.tex"]

    @pytest.mark.skipif(platform.machine() not in UNSHARE, reason="the number of the unshare call is not known here")
    def test_a_machine_without_namespaces_is_told_what_is_missing(self, laptop: Laptop) -> None:
        command = [sys.executable, "-m", "kuberay.cli", "local", "up", "--detach", "--port=0"]
        refused = subprocess.run(
            [*command, f"--folder={laptop.folder}"],
            preexec_fn=forbid_namespaces,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert refused.returncode == 1
        assert "namespaces" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert DataFolder(laptop.folder).engine() is None

    def test_an_installation_without_the_extra_is_told_how_to_get_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        refused = CliRunner().invoke(up, ["--detach", f"--folder={tmp_path / 'data'}"])
        assert refused.exit_code == 1
        assert "laptop mode needs ray and jsonschema_rs" in refused.output
        assert "pip install 'kuberay[local]'" in refused.output
        assert not (tmp_path / "data").exists()

    def test_an_environment_without_ray_is_told_how_to_get_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nothing = RayEnvironment(folder=Path(sys.prefix), version=None)
        monkeypatch.setattr("kuberay.engine.node.images.installed", lambda: nothing)
        settings = engines.Settings(folder=DataFolder(tmp_path), port=0)
        with pytest.raises(RayMissing, match=r"pip install 'kuberay\[local\]'"):
            engines.run(settings, ready=pytest.fail)


@pytest.fixture
def listening() -> Iterator[None]:
    """Commands hear a Ctrl-C, which shells have ignored in what runs in the background, as these tests may."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestDashboards:
    def test_are_closed_to_other_users_unless_asked_for(self, laptop: Laptop) -> None:
        for arguments in ((), ("--open-dashboards",)):
            laptop.up(*arguments)
            given = Path(f"/proc/{laptop.engine}/cmdline").read_text().split("\0")
            assert ("--open-dashboards" in given) == bool(arguments)
            laptop.kuberay("down")


class TestRoot:
    def test_is_told_once_that_pods_run_as_root(self, laptop: Laptop) -> None:
        assert laptop.up().stderr.count("Pods run as root") == (1 if os.geteuid() == 0 else 0)


class TestAnEngineInTheForeground:
    @pytest.mark.usefixtures("listening")
    def test_ends_with_ctrl_c_and_everything_it_started_with_it(self, laptop: Laptop) -> None:
        command = [sys.executable, "-m", "kuberay.cli", "local", "up", "--port=0", f"--folder={laptop.folder}"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None
        for line in running.stdout:
            if "Press Ctrl-C" in line:
                break
        processes = processes_below(laptop.engine)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
        assert running.returncode == 130
        assert not any(map(is_alive, processes))

    def test_dies_with_the_command_that_was_killed(self, laptop: Laptop) -> None:
        command = [sys.executable, "-m", "kuberay.cli", "local", "up", "--port=0", f"--folder={laptop.folder}"]
        up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert up.stdout is not None
        with up.stdout:
            for line in up.stdout:
                if "Press Ctrl-C" in line:
                    break
            processes = processes_below(laptop.engine)
            os.kill(up.pid, signal.SIGKILL)
            up.wait(timeout=5)
        until(lambda: not any(map(is_alive, processes)), "the end of the engine", seconds=10)
