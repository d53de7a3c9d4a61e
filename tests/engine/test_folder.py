from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.errors import AlreadyRunning, EngineError
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
        pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()}.*kubectl .*apply -f FILE.*kuberay local down"),
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
