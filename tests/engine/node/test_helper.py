"""The helper process with real namespaces: what a container sees, how it ends, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kuberay.engine.errors import NodeUnavailable
from kuberay.engine.node.errors import HelperGone, HelperRefused, StartFailed
from kuberay.engine.node.helper.mounts import Mount
from kuberay.engine.node.remote import Command, Exit, Helper, MemoryVolume

if TYPE_CHECKING:
    from tests.engine.node.conftest import Sandboxes

pytestmark = pytest.mark.namespaces


class TestAContainer:
    async def test_is_the_first_process_of_its_own_pid_namespace(self, sandboxes: Sandboxes) -> None:
        _, output = await sandboxes.run("echo $$; ls -d /proc/[0-9]* | head -1")
        assert output == "1\n/proc/1\n"

    async def test_has_the_pods_host_name_and_address(self, sandboxes: Sandboxes) -> None:
        code = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('8.8.8.8', 53))"
        _, output = await sandboxes.run(f'hostname; {sys.executable} -c "{code}; print(s.getsockname()[0])"')
        assert output == "pod-0\n10.244.0.5\n"

    async def test_sees_only_the_environment_it_is_given(self, sandboxes: Sandboxes) -> None:
        sandbox = await sandboxes.create()
        container = await sandboxes.start(sandbox, "/usr/bin/env", env={"A": "1"})
        assert set((await container.output()).split()) - {"PWD=/"} == {"A=1"}

    async def test_starts_in_its_working_directory_even_when_the_host_lacks_it(self, sandboxes: Sandboxes) -> None:
        _, output = await sandboxes.run("pwd", cwd="/home/ray/made-up")
        assert output == "/home/ray/made-up\n"
        assert not _exists("/home/ray/made-up")

    async def test_shares_the_network_but_not_the_processes_of_its_pod(self, sandboxes: Sandboxes) -> None:
        sandbox = await sandboxes.create()
        first = await sandboxes.start(sandbox, "echo up; exec sleep 60")
        assert await first.line() == "up"
        second = await sandboxes.start(sandbox, "cat /proc/[0-9]*/comm")
        assert "sleep" not in await second.output()


class TestEnding:
    async def test_reports_the_exit_code(self, sandboxes: Sandboxes) -> None:
        assert (await sandboxes.run("exit 3"))[0] == Exit(code=3)

    async def test_reports_a_signal_as_a_runtime_does(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), "exec sleep 60")
        await container.process.kill()
        ended = await container.process.wait()
        assert (ended.signal, ended.status) == (signal.SIGKILL, 137)

    async def test_a_trapped_sigterm_is_the_containers_own_business(self, sandboxes: Sandboxes) -> None:
        script = "trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done"
        container = await sandboxes.start(await sandboxes.create(), script)
        await container.line()
        await container.process.send_signal(signal.SIGTERM)
        assert (await container.process.wait()).status == 4

    async def test_takes_everything_the_container_started_with_it(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), "setsid sleep 60 & echo up; exec sleep 60")
        await container.line()
        await container.process.kill()
        # The pipe ends only when the background process has gone too.
        assert await container.result() == (Exit(signal=signal.SIGKILL), "")

    async def test_a_command_that_does_not_exist_says_so(self, helper: Helper, tmp_path: Path) -> None:
        await helper.create_sandbox("s", address="10.244.0.5", hostname="h")
        with pytest.raises(StartFailed, match=r"exec: 'no-such-command': No such file"):
            await helper.start_container("s", Command(["no-such-command"], {}), stage=str(tmp_path), stdio=(0, 1, 2))

    async def test_signalling_a_process_that_has_ended_does_nothing(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), "exit 0")
        await container.process.wait()
        await container.process.kill()


class TestMounts:
    async def test_a_folder_appears_where_the_host_has_none(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        volume = tmp_path / "volume"
        volume.mkdir()
        (volume / "file").write_text("content")
        mounts = [Mount(str(volume), path) for path in ("/made-up/a", "/usr/made-up/b", "/var/run/secrets/x/c")]
        _, output = await sandboxes.run("cat /made-up/a/file /usr/made-up/b/file /run/secrets/x/c/file", mounts=mounts)
        assert output == "contentcontentcontent"
        assert not _exists("/made-up")
        assert not _exists("/usr/made-up")

    async def test_what_the_host_has_beside_it_stays_visible(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        mounts = [Mount(str(tmp_path), "/made-up")]
        _, output = await sandboxes.run("ls -A / | grep -v made-up", mounts=mounts)
        expected = sorted(os.listdir("/"))
        assert sorted(output.splitlines()) == expected

    async def test_a_mount_below_another_mount_lands_in_it(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        outer, inner = tmp_path / "outer", tmp_path / "inner"
        outer.mkdir()
        inner.mkdir()
        (inner / "file").write_text("inner")
        mounts = [Mount(str(inner), "/data/below"), Mount(str(outer), "/data", own=True)]
        _, output = await sandboxes.run("cat /data/below/file; echo new > /data/file", mounts=mounts)
        assert output == "inner"
        assert (outer / "file").read_text() == "new\n"

    async def test_a_mount_below_somebody_elses_folder_leaves_that_folder_alone(
        self, sandboxes: Sandboxes, tmp_path: Path
    ) -> None:
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        theirs.mkdir()
        ours.mkdir()
        (theirs / "seen").touch()
        mounts = [Mount(str(theirs), "/data"), Mount(str(ours), "/data/below")]
        _, output = await sandboxes.run("ls /data", mounts=mounts)
        assert output.split() == ["below", "seen"]
        assert os.listdir(theirs) == ["seen"]

    async def test_read_only_is_enforced(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        ended, output = await sandboxes.run("touch /ro/file", mounts=[Mount(str(tmp_path), "/ro", readonly=True)])
        assert ended.code != 0
        assert "Read-only file system" in output

    async def test_a_file_can_be_mounted_over_a_link(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        file = tmp_path / "resolv.conf"
        file.write_text("nameserver 10.244.0.1\n")
        _, output = await sandboxes.run("cat /etc/resolv.conf", mounts=[Mount(str(file), "/etc/resolv.conf")])
        assert output == "nameserver 10.244.0.1\n"

    async def test_memory_volumes_are_shared_by_the_pod_and_bounded(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        (tmp_path / "shm").mkdir()
        sandbox = await sandboxes.create(memory=[MemoryVolume(str(tmp_path / "shm"), 1 << 20)])
        mounts = [Mount(str(tmp_path / "shm"), "/dev/shm", own=True)]
        first = await sandboxes.start(sandbox, "echo hello > /dev/shm/file", mounts=mounts)
        assert await first.result() == (Exit(), "")
        second = await sandboxes.start(sandbox, "cat /dev/shm/file; head -c 2M /dev/zero > /dev/shm/big", mounts=mounts)
        ended, output = await second.result()
        assert output.startswith("hello\n")
        assert "No space left" in output
        assert ended.code != 0
        assert os.listdir(tmp_path / "shm") == []  # the host sees an empty folder

    async def test_a_folder_over_a_file_is_an_error_that_names_the_path(
        self, sandboxes: Sandboxes, tmp_path: Path
    ) -> None:
        with pytest.raises(StartFailed, match="/etc/passwd: a folder and a file"):
            await sandboxes.run("true", mounts=[Mount(str(tmp_path), "/etc/passwd")])

    async def test_the_host_sees_none_of_it(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        before = _mounts()
        container = await sandboxes.start(await sandboxes.create(), "echo up; exec sleep 60")
        await container.line()
        assert _mounts() == before
        assert "kuberay0" not in [name for _, name in socket.if_nameindex()]


class TestJoining:
    async def test_runs_beside_the_containers_own_command(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        mounts = [Mount(str(tmp_path), "/made-up")]
        container = await sandboxes.start(await sandboxes.create(), "echo up; exec sleep 60", mounts=mounts)
        await container.line()
        reading, writing = os.pipe()
        script = "tr '\\0' ' ' < /proc/1/cmdline; ls -d /made-up; exit 5"
        joined = await sandboxes.helper.join_container(
            container.process, Command(["/bin/sh", "-c", script], {}), stdio=(writing, writing, writing)
        )
        os.close(writing)
        assert (await joined.wait()).status == 5
        assert os.read(reading, 1000) == b"sleep 60 /made-up\n"
        os.close(reading)

    async def test_is_refused_when_the_container_has_ended(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), "true")
        await container.process.wait()
        with pytest.raises(StartFailed):
            await sandboxes.helper.join_container(container.process, Command(["true"], {}), stdio=(0, 1, 2))


# Asks by datagram and connects, every tenth of a second; a line for every three rounds in a row that were answered.
WATCH = """
import socket, time
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(0.8)
while True:
    for _ in range(3):
        asking.sendto(b"who?", ("10.244.0.1", 53))
        asking.recv(9)
        socket.create_connection(("10.244.0.1", 443), 0.8).close()
        time.sleep(0.1)
    print("reached", flush=True)
"""
SERVE = "import socket; s = socket.create_server(('', 8000)); print('up', flush=True); s.accept()[0].sendall(b'hello')"


class TestTheNetwork:
    async def test_the_engine_reaches_a_pod(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), f'exec {sys.executable} -c "{SERVE}"')
        assert await container.line() == "up"
        sock = await sandboxes.helper.connect("10.244.0.5", 8000)
        assert await asyncio.get_running_loop().sock_recv(sock, 100) == b"hello"
        sock.close()

    async def test_pods_reach_each_other(self, sandboxes: Sandboxes) -> None:
        server = await sandboxes.start(await sandboxes.create("10.244.0.5"), f'exec {sys.executable} -c "{SERVE}"')
        assert await server.line() == "up"
        code = "import socket; print(socket.create_connection(('10.244.0.5', 8000)).recv(100).decode())"
        client = await sandboxes.start(await sandboxes.create("10.244.0.6"), f'{sys.executable} -c "{code}"')
        assert await client.result() == (Exit(), "hello\n")

    async def test_a_pod_reaches_the_engine_at_an_address_of_the_bridge(self, sandboxes: Sandboxes) -> None:
        helper = sandboxes.helper
        await helper.add_address("10.96.0.1")
        with await helper.listen("10.96.0.1", 443) as listener:
            code = "import socket; print(socket.create_connection(('10.96.0.1', 443)).recv(100).decode())"
            client = await sandboxes.start(await sandboxes.create(), f'{sys.executable} -c "{code}"')
            loop = asyncio.get_running_loop()
            accepted, _ = await loop.sock_accept(listener)
            await loop.sock_sendall(accepted, b"from the engine")
            accepted.close()
            assert await client.result() == (Exit(), "from the engine\n")
        await helper.remove_address("10.96.0.1")
        with pytest.raises(HelperRefused):
            await helper.listen("10.96.0.1", 443)

    async def test_an_address_is_free_as_soon_as_its_sandbox_is_gone(self, sandboxes: Sandboxes) -> None:
        sandbox = await sandboxes.create("10.244.0.5")
        await sandboxes.helper.remove_sandbox(sandbox)
        await sandboxes.helper.remove_sandbox(sandbox)  # safe to repeat
        again = await sandboxes.start(await sandboxes.create("10.244.0.5"), f'exec {sys.executable} -c "{SERVE}"')
        assert await again.line() == "up"
        (await sandboxes.helper.connect("10.244.0.5", 8000)).close()

    async def test_a_pod_keeps_its_way_to_the_engine_while_others_come_and_go(self, sandboxes: Sandboxes) -> None:
        helper = sandboxes.helper
        bystander = await sandboxes.create("10.244.0.5")
        with await helper.receive_datagrams("10.244.0.1", 53) as names, await helper.listen("10.244.0.1", 443) as api:
            answering = [asyncio.create_task(_echo(names)), asyncio.create_task(_accept(api))]
            watching = await sandboxes.start(bystander, f"exec {sys.executable} -c {shlex.quote(WATCH)}")
            for _ in range(3):
                for number in (3, 9):  # below the bystander's address and above it
                    other = await sandboxes.create(f"10.244.0.{number}")
                    assert await watching.line() == "reached"
                    await helper.remove_sandbox(other)
                    assert await watching.line() == "reached"
            for task in answering:
                task.cancel()

    async def test_a_pod_made_again_is_reached_at_once_by_those_who_knew_the_old_one(
        self, sandboxes: Sandboxes
    ) -> None:
        code = "import socket; s = socket.create_server(('', 8000)); print('up', flush=True)\nwhile True: s.accept()"
        neighbour = await sandboxes.create("10.244.0.6")
        call = "import socket; socket.create_connection(('10.244.0.5', 8000), 0.9)"
        for _ in range(3):
            sandbox = await sandboxes.create("10.244.0.5")
            server = await sandboxes.start(sandbox, f"exec {sys.executable} -c {shlex.quote(code)}")
            assert await server.line() == "up"
            client = await sandboxes.start(neighbour, f"{sys.executable} -c {shlex.quote(call)}")
            assert await client.result() == (Exit(), "")
            await sandboxes.helper.remove_sandbox(sandbox)

    async def test_what_is_out_of_reach_is_refused_at_once(self, sandboxes: Sandboxes) -> None:
        code = "import socket; print(socket.socket().connect_ex(('8.8.8.8', 53)))"
        _, output = await sandboxes.run(f'{sys.executable} -c "{code}"')
        assert int(output) in (errno.ENETUNREACH, errno.EHOSTUNREACH)

    async def test_removing_a_sandbox_kills_what_is_left_in_it(self, sandboxes: Sandboxes) -> None:
        sandbox = await sandboxes.create()
        container = await sandboxes.start(sandbox, "exec sleep 60")
        await sandboxes.helper.remove_sandbox(sandbox)
        assert (await container.process.wait()).signal == signal.SIGKILL

    async def test_two_engines_can_use_the_same_addresses(self, sandboxes: Sandboxes, tmp_path: Path) -> None:
        other = await Helper.start(pods=IPv4Network("10.244.0.0/16"))
        try:
            await sandboxes.create("10.244.0.5")
            await other.create_sandbox("other", address="10.244.0.5", hostname="other")
        finally:
            await other.close()


ENGINE = """
import asyncio, os, sys
from kuberay.engine.node.remote import Command, Helper
async def main():
    helper = await Helper.start()
    await helper.create_sandbox("s", address="10.244.0.5", hostname="h")
    os.mkdir(sys.argv[1])
    command = Command(["sleep", "4242"], {"PATH": "/usr/bin:/bin"})
    await helper.start_container("s", command, stage=sys.argv[1], stdio=(0, 1, 2))
    print(helper.pid, os.readlink(f"/proc/{helper.pid}/ns/net"), os.readlink(f"/proc/{helper.pid}/ns/mnt"), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class TestWhenTheEngineIsKilled:
    def test_no_process_and_so_no_mount_and_no_namespace_is_left(self, tmp_path: Path) -> None:
        engine = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(tmp_path / "stage")], stdout=subprocess.PIPE, text=True
        )
        with engine:
            assert engine.stdout is not None
            keeper, *namespaces = engine.stdout.readline().split()
            assert namespaces[0] in _namespaces_in_use()
            family = _descendants(int(keeper))
            assert len(family) >= 2  # the helper and the container
            engine.kill()
        _wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in [int(keeper), *family]))
        assert not set(namespaces) & _namespaces_in_use()

    async def test_the_engine_notices_when_the_helper_is_killed(self, sandboxes: Sandboxes) -> None:
        container = await sandboxes.start(await sandboxes.create(), "exec sleep 60")
        os.kill(sandboxes.helper.pid, signal.SIGKILL)
        await sandboxes.helper.wait_gone()
        with pytest.raises(HelperGone):
            await container.process.wait()
        with pytest.raises(HelperGone):
            await sandboxes.helper.create_sandbox("x", address="10.244.0.9", hostname="x")


class TestStarting:
    async def test_says_what_is_missing_when_namespaces_are_forbidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kuberay.engine.node.remote._BOOT", FORBIDDEN)
        with pytest.raises(NodeUnavailable, match="making network, mount, PID, IPC and UTS namespaces failed"):
            await Helper.start()

    async def test_a_helper_that_dies_at_once_is_an_error_and_not_a_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kuberay.engine.node.remote._BOOT", "raise SystemExit(1)")
        with pytest.raises(NodeUnavailable, match="did not start"):
            await Helper.start()

    def test_the_helper_imports_nothing_that_takes_time(self) -> None:
        code = "import sys; import kuberay.engine.node.helper.main; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert not {"asyncio", "msgspec", "pyroute2", "aiohttp", "subprocess", "threading"} & set(loaded)


FORBIDDEN = """
import sys
sys.path.insert(0, sys.argv[1])
from kuberay.engine.node import syscalls
def unshare(flags):
    if flags != syscalls.CLONE_NEWUSER:
        raise PermissionError(1, "unshare: Operation not permitted")
syscalls.unshare = unshare
from kuberay.engine.node.helper import main
main._enter_user_namespace = lambda: None
main.main(sys.argv[2:])
"""


async def _echo(names: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        question, asker = await loop.sock_recvfrom(names, 100)
        await loop.sock_sendto(names, question, asker)


async def _accept(listener: socket.socket) -> None:
    while True:
        (await asyncio.get_running_loop().sock_accept(listener))[0].close()


def _wait_until(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _exists(path: str) -> bool:
    return Path(path).exists()


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def _namespaces_in_use() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        for kind in ("net", "mnt"):
            try:
                found.add(os.readlink(process / "ns" / kind))
            except OSError:
                continue
    return found


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [grandchild for child in children for grandchild in _descendants(child)]
