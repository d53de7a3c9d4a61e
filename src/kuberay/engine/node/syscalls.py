"""The few Linux calls that Python 3.11 has no name for, each with an error that says which call failed.

Only the helper process makes them. They go through libc, so that no system call number has to be known.
"""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_FLAG_NAMES = {
    CLONE_NEWNS: "mount",
    CLONE_NEWUTS: "UTS",
    CLONE_NEWIPC: "IPC",
    CLONE_NEWUSER: "user",
    CLONE_NEWPID: "PID",
    CLONE_NEWNET: "network",
}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _namespaces(flags: int) -> str:
    return ", ".join(name for flag, name in _FLAG_NAMES.items() if flags & flag) or "any"


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones; a new PID namespace is for children only."""
    _check(_libc.unshare(flags), f"unshare ({_namespaces(flags)} namespace)")


def setns(fd: int, flags: int = 0) -> None:
    """Enter the namespace `fd` stands for."""
    _check(_libc.setns(fd, flags), f"setns ({_namespaces(flags)} namespace)")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind or remount, as `flags` say."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind) or None,
        ctypes.c_ulong(flags),
        os.fsencode(data) or None,
    )
    _check(result, f"mount of {kind or source} on {target}")


def bind(source: str, target: str) -> None:
    """Show the tree at `source` at `target` too, with everything that is mounted below it."""
    mount(source, target, flags=MS_BIND | MS_REC)


def umount(target: str, flags: int = MNT_DETACH) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), f"umount of {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    _check(_libc.pivot_root(os.fsencode(new_root), os.fsencode(put_old)), f"pivot_root to {new_root}")


def sethostname(name: str) -> None:
    raw = os.fsencode(name)
    _check(_libc.sethostname(raw, ctypes.c_size_t(len(raw))), f"sethostname to {name}")


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends, however it ends."""
    result = _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    _check(result, "prctl (PR_SET_PDEATHSIG)")
