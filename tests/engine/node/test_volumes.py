"""Volumes as folders, and what a container mounts of them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from kuberay.engine.node import volumes
from kuberay.engine.node.environment import Facts, References
from kuberay.engine.node.helper.mounts import Mount
from kuberay.engine.node.volumes import PodFolder, Volume, VolumeError
from kuberay.kube import quantity

if TYPE_CHECKING:
    from pathlib import Path

FACTS = Facts("10.244.0.5", "10.244.0.1", quantity.parse(2), quantity.parse("4Gi"))
REFERENCES = References(
    config_maps={"settings": {"data": {"a.txt": "A", "b.txt": "B"}, "binaryData": {"c.bin": "AAE="}}},
    secrets={"password": {"data": {"key": base64.b64encode(b"s3cret").decode()}}},
)


def pod(*wanted: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "labels": {"app": "ray"}}
    return {"metadata": metadata, "spec": {"containers": [], "volumes": list(wanted)}}


def prepared(tmp_path: Path, volume: dict[str, Any]) -> Volume:
    return volumes.prepare(pod({"name": "v", **volume}), PodFolder(tmp_path), FACTS, REFERENCES)["v"]


class TestPreparing:
    def test_an_empty_folder_is_the_pods_own(self, tmp_path: Path) -> None:
        volume = prepared(tmp_path, {"emptyDir": {}})
        assert volume.own
        assert list(volume.path.iterdir()) == []

    def test_an_empty_folder_keeps_its_content_when_the_pod_starts_again(self, tmp_path: Path) -> None:
        (prepared(tmp_path, {"emptyDir": {}}).path / "file").touch()
        assert [file.name for file in prepared(tmp_path, {"emptyDir": {}}).path.iterdir()] == ["file"]

    def test_a_config_map_is_a_file_for_each_key(self, tmp_path: Path) -> None:
        volume = prepared(tmp_path, {"configMap": {"name": "settings"}})
        assert {file.name: file.read_bytes() for file in volume.path.iterdir()} == {
            "a.txt": b"A",
            "b.txt": b"B",
            "c.bin": b"\0\1",
        }
        assert volume.readonly

    def test_items_choose_and_rename(self, tmp_path: Path) -> None:
        source = {"name": "settings", "items": [{"key": "a.txt", "path": "deep/x.txt", "mode": 0o400}]}
        volume = prepared(tmp_path, {"configMap": source})
        assert (volume.path / "deep" / "x.txt").read_text() == "A"
        assert (volume.path / "deep" / "x.txt").stat().st_mode & 0o777 == 0o400
        assert not (volume.path / "a.txt").exists()

    def test_a_secret_is_decoded(self, tmp_path: Path) -> None:
        volume = prepared(tmp_path, {"secret": {"secretName": "password", "defaultMode": 0o600}})
        assert (volume.path / "key").read_text() == "s3cret"
        assert (volume.path / "key").stat().st_mode & 0o777 == 0o600

    def test_a_projection_is_the_sum_of_its_sources(self, tmp_path: Path) -> None:
        sources = [
            {"secret": {"name": "password"}},
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ]
        volume = prepared(tmp_path, {"projected": {"sources": sources}})
        assert (volume.path / "key").read_text() == "s3cret"
        assert (volume.path / "labels").read_text() == 'app="ray"'

    def test_a_path_of_the_host_is_used_as_it_is(self, tmp_path: Path) -> None:
        volume = prepared(tmp_path, {"hostPath": {"path": str(tmp_path), "type": "Directory"}})
        assert volume == Volume(tmp_path)

    @pytest.mark.parametrize(
        ("volume", "message"),
        [
            ({"configMap": {"name": "absent"}}, 'volume "v": configmap "absent" not found'),
            ({"secret": {"secretName": "absent"}}, 'volume "v": secret "absent" not found'),
            ({"persistentVolumeClaim": {"claimName": "c"}}, "persistentVolumeClaim volumes are not available"),
            ({"projected": {"sources": [{"serviceAccountToken": {}}]}}, "serviceAccountToken is not available"),
            ({"hostPath": {"path": "/no/such/path"}}, "/no/such/path does not exist"),
            ({"hostPath": {"path": "/etc/passwd", "type": "Directory"}}, "is not a Directory"),
            ({"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}}, "config key: x"),
            ({"configMap": {"name": "settings", "items": [{"key": "a.txt", "path": "../x"}]}}, "leads out"),
        ],
    )
    def test_what_is_not_to_be_had_is_named(self, tmp_path: Path, volume: dict[str, Any], message: str) -> None:
        with pytest.raises(VolumeError) as caught:
            prepared(tmp_path, volume)
        assert message in str(caught.value)
        assert '"v"' in str(caught.value)

    def test_memory_volumes_carry_their_limit(self, tmp_path: Path) -> None:
        wanted = pod(
            {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
            {"name": "disk", "emptyDir": {}},
        )
        found = volumes.memory_volumes(wanted, PodFolder(tmp_path))
        assert [(volume.path.removeprefix(str(tmp_path)), volume.size) for volume in found] == [
            ("/shm", None),
            ("/volumes/shared-mem", 2 << 30),
        ]


class TestMounting:
    def mounts(self, tmp_path: Path, mount: dict[str, Any], volume: Volume) -> list[Mount]:
        container = {"name": "c", "volumeMounts": [{"name": "v", **mount}]}
        return volumes.mounts(container, {"v": volume}, {"/tmp": tmp_path / "scratch"}, {"A": "below"})

    def test_the_users_mount_takes_the_place_of_ours(self, tmp_path: Path) -> None:
        found = self.mounts(tmp_path, {"mountPath": "/tmp/"}, Volume(tmp_path, own=True))
        assert found == [Mount(str(tmp_path), "/tmp", own=True)]

    def test_a_part_of_the_pods_own_volume_is_made_on_demand(self, tmp_path: Path) -> None:
        found = self.mounts(tmp_path, {"mountPath": "/data", "subPathExpr": "$(A)/x"}, Volume(tmp_path, own=True))
        assert found[1].source == str(tmp_path / "below" / "x")
        assert (tmp_path / "below" / "x").is_dir()

    @pytest.mark.parametrize("below", ["../x", "/etc", "absent"])
    def test_a_part_that_is_not_in_the_volume_is_refused(self, tmp_path: Path, below: str) -> None:
        with pytest.raises(VolumeError, match='volume "v"'):
            self.mounts(tmp_path, {"mountPath": "/data", "subPath": below}, Volume(tmp_path))

    def test_config_maps_are_read_only_whatever_the_mount_says(self, tmp_path: Path) -> None:
        found = self.mounts(tmp_path, {"mountPath": "/data", "readOnly": False}, Volume(tmp_path, readonly=True))
        assert found[1].readonly

    def test_a_volume_that_the_pod_lacks_is_named(self, tmp_path: Path) -> None:
        container = {"name": "c", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}
        with pytest.raises(VolumeError, match='"x"'):
            volumes.mounts(container, {}, {}, {})
