"""Children of the helper: what they do between `fork` and `exec`, and how their failure becomes a message.

A child that fails before it has become something else says why over a pipe that closes by itself on `exec`.
"""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kuberay.engine.node import syscalls
from kuberay.engine.node.helper.mounts import Mount, Root

if TYPE_CHECKING:
    from collections.abc import Callable

    from kuberay.engine.node.helper.sandbox import Namespaces

T = TypeVar("T")
_MOST_OPEN_FILES = 1 << 20
_READY = b"\0"


class ChildFailed(Exception):
    """A child could not do its part; the message is its own."""


def in_child(work: Callable[[], None], then: Callable[[int], T]) -> T:
    """Do `work` in a child, and `then` with the child's pid while it still lives in what it made."""
    from_child, tell = os.pipe2(os.O_CLOEXEC)
    until, release = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(release)
        _run(work, tell)
        os.write(tell, _READY)
        os.read(until, 1)
        os._exit(0)
    os.close(tell)
    os.close(until)
    try:
        answer = _read_all(from_child, _READY)
        if answer != _READY:
            raise ChildFailed(answer.decode(errors="replace"))
        return then(pid)
    finally:
        os.close(release)
        os.close(from_child)
        os.waitpid(pid, 0)


def start(namespaces: Namespaces, request: dict[str, Any], stdio: list[int]) -> int:
    """Start a command in a new PID and mount namespace of a Pod; returns its pid.

    The intermediate process ends at once: the command becomes a child of this process, which is init here.
    """

    def arrange() -> None:
        root = Root(request["stage"])
        root.mount_proc()
        for mount in request["mounts"]:
            root.attach(Mount(**mount))
        root.make_folder(request["cwd"])
        root.enter()

    return _spawn(namespaces, syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS, arrange, request, stdio)


def join(namespaces: Namespaces, request: dict[str, Any], stdio: list[int]) -> int:
    """Start a command beside a container's own, in the same namespaces; returns its pid."""
    return _spawn(namespaces, 0, lambda: None, request, stdio)


def _spawn(
    namespaces: Namespaces, unshared: int, arrange: Callable[[], None], request: dict[str, Any], stdio: list[int]
) -> int:
    from_child, tell = os.pipe2(os.O_CLOEXEC)
    middle = os.fork()
    if middle == 0:
        _run(lambda: _enter(namespaces, unshared), tell)
        pid = os.fork()
        if pid:
            os.write(tell, b"%d\n" % pid)
            os._exit(0)
        _run(lambda: _become(arrange, request, stdio), tell)
    os.close(tell)
    try:
        first, _, problem = _read_all(from_child, b"").partition(b"\n")
    finally:
        os.close(from_child)
        os.waitpid(middle, 0)
    if not first.isdigit():
        raise ChildFailed((first + problem).decode(errors="replace"))
    if problem:
        os.waitpid(int(first), 0)
        raise ChildFailed(problem.decode(errors="replace"))
    return int(first)


def _enter(namespaces: Namespaces, unshared: int) -> None:
    namespaces.enter()
    if unshared:
        syscalls.unshare(unshared)
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)


def _become(arrange: Callable[[], None], request: dict[str, Any], stdio: list[int]) -> NoReturn:
    arrange()
    os.setsid()
    os.chdir(request["cwd"])
    os.umask(0o022)
    _allow_open_files()
    # What Python ignores for itself, a command expects to be able to die from.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for target, descriptor in enumerate(stdio):
        os.dup2(descriptor, target, inheritable=True)
    argv = request["argv"]
    try:
        os.execvpe(argv[0], argv, request["env"])
    except OSError as problem:
        raise OSError(problem.errno, f"exec: {argv[0]!r}: {problem.strerror}") from problem


def _allow_open_files() -> None:
    """Raise the limit as far as we may: Ray opens tens of thousands of files, and `ulimit -n` needs the room."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_OPEN_FILES, max(hard, _MOST_OPEN_FILES)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _run(work: Callable[[], None], tell: int) -> None:
    """Do the child's work; whatever goes wrong ends the child with its reason, never a second parent."""
    try:
        work()
    except BaseException as problem:
        text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        os.write(tell, text.encode(errors="replace") or type(problem).__name__.encode())
        os._exit(127)


def _read_all(descriptor: int, until: bytes) -> bytes:
    found = b""
    while chunk := os.read(descriptor, 4096):
        found += chunk
        if until and found.endswith(until):
            break
    return found
