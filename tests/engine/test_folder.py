from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.apiserver.sqlite import APPLICATION_ID, _open
from kuberay.engine.errors import AlreadyRunning, EngineError, ForeignFolder
from kuberay.engine.folder import DataFolder

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from kuberay.engine.folder import DataFolder
with DataFolder(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_fresh_folder_has_no_engine(tmp_path: Path) -> None:
    assert DataFolder(tmp_path).engine() is None


def test_the_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data" / "local")
    folder.create()
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match=r"cannot make the data folder .*file/data.* --folder"):
        DataFolder(tmp_path / "file" / "data").create()


def test_the_engine_that_holds_the_lock_is_named(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.lock():
        assert folder.engine() == os.getpid()
    assert folder.engine() is None


def test_a_second_engine_is_kept_out_and_told_what_to_do(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with (
        folder.lock(),
        pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()}.*--folder ANOTHER_FOLDER"),
        folder.lock(),
    ):
        pass


def test_the_lock_of_a_killed_engine_is_free(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
    assert folder.engine() == holder.pid
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert folder.engine() is None
    with folder.lock():
        assert folder.engine() == os.getpid()


class TestPurging:
    def test_a_folder_that_no_engine_made_is_refused_and_left_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "objects.db").write_text("mine")
        (tmp_path / "engine.lock").write_text("")
        with pytest.raises(ForeignFolder, match="Nothing was deleted"):
            DataFolder(tmp_path).purge()
        assert (tmp_path / "objects.db").read_text() == "mine"

    def test_only_what_the_engine_made_goes_and_links_are_not_followed(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "precious").write_text("mine")
        folder = DataFolder(tmp_path / "data")
        folder.create()
        folder.objects.write_text("")
        folder.credentials.mkdir()
        (folder.credentials / "away").symlink_to(outside)
        folder.pods.symlink_to(outside)
        (folder.path / "notes.txt").write_text("mine")
        assert folder.purge() == ["notes.txt", "pods"]
        assert sorted(os.listdir(folder.path)) == ["notes.txt", "pods"]
        assert (outside / "precious").read_text() == "mine"

    def test_nothing_is_left_where_nobody_added_anything(self, tmp_path: Path) -> None:
        folder = DataFolder(tmp_path / "data")
        folder.create()
        assert folder.purge() == []
        assert not folder.path.exists()

    def test_a_folder_from_before_there_was_a_mark_is_known_by_its_database(self, tmp_path: Path) -> None:
        folder = DataFolder(tmp_path)
        with folder.lock():
            pass
        header = bytearray(b"SQLite format 3\0".ljust(100, b"\0"))
        header[68:72] = APPLICATION_ID.to_bytes(4, "big")
        folder.objects.write_bytes(header)
        folder.purge()
        assert not tmp_path.exists()

    def test_a_link_to_an_engines_folder_is_refused(self, tmp_path: Path) -> None:
        folder = DataFolder(tmp_path / "data")
        folder.create()
        (tmp_path / "link").symlink_to(folder.path)
        with pytest.raises(ForeignFolder, match="is a link"):
            DataFolder(tmp_path / "link").purge()
        assert folder.mark.exists()


class TestTakingAFolder:
    def test_one_with_other_things_in_it_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(ForeignFolder, match=r"holds thesis\.tex.*--folder"):
            DataFolder(tmp_path).create()
        assert os.listdir(tmp_path) == ["thesis.tex"]

    def test_one_that_everybody_could_read_is_closed_with_all_that_is_in_it(self, tmp_path: Path) -> None:
        folder = DataFolder(tmp_path)
        tmp_path.chmod(0o755)
        folder.create()
        folder.objects.write_text("")
        folder.objects.chmod(0o644)
        tmp_path.chmod(0o755)
        folder.create()
        assert tmp_path.stat().st_mode & 0o777 == 0o700
        assert folder.objects.stat().st_mode & 0o777 == 0o600

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that is somebody else's")
    def test_one_of_another_user_is_refused(self, tmp_path: Path) -> None:
        os.chown(tmp_path, 4711, 4711)
        with pytest.raises(ForeignFolder, match="uid 4711"):
            DataFolder(tmp_path).create()


def test_the_database_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        connection = _open(tmp_path / "objects.db")
        connection.execute("INSERT INTO objects VALUES ('secrets', '', '', 1, x'00')")
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("objects.db", "objects.db-wal", "objects.db-shm"), 0o600)
