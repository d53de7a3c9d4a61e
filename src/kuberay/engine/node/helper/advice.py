"""What to tell a user whose machine does not allow the namespaces that Pods need, and what to do about it."""

from __future__ import annotations

import errno

_SETTINGS = {
    # setting: (value that forbids, what to set instead)
    "user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "user/max_net_namespaces": ("0", "sysctl -w user.max_net_namespaces=15000"),
    "user/max_pid_namespaces": ("0", "sysctl -w user.max_pid_namespaces=15000"),
    "user/max_mnt_namespaces": ("0", "sysctl -w user.max_mnt_namespaces=15000"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def read_settings() -> dict[str, str]:
    """The kernel settings that can forbid namespaces, as far as this kernel has them."""
    found = {}
    for name in _SETTINGS:
        try:
            with open(f"/proc/sys/{name}") as setting:
                found[name] = setting.read().strip()
        except OSError:
            continue
    return found


def explain(step: str, problem: OSError, settings: dict[str, str], *, as_root: bool) -> str:
    """One message: what failed, the likely reason, and the command that helps."""
    what = f"this machine does not let Pods run: {step} failed ({problem.strerror or problem})."
    blocking = [
        f"{name.replace('/', '.')} is {value}: run `{_SETTINGS[name][1]}` as root"
        for name, value in settings.items()
        if value == _SETTINGS[name][0] and not (as_root and name.startswith("kernel/"))
    ]
    if blocking:
        return f"{what} {'; '.join(blocking)}, or run kuberay as root."
    if problem.errno == errno.ENOSPC:
        return f"{what} A limit on namespaces is reached: raise the user.max_*_namespaces settings (sysctl -a)."
    if problem.errno in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EAFNOSUPPORT):
        return (
            f"{what} The kernel lacks it: it needs namespaces (CONFIG_USER_NS, CONFIG_NET_NS, CONFIG_PID_NS), "
            "bridges (CONFIG_BRIDGE) and veth pairs (CONFIG_VETH)."
        )
    if problem.errno in (errno.EPERM, errno.EACCES):
        return (
            f"{what} Something outside the kernel's settings forbids it, most often a container: give it the "
            "capability SYS_ADMIN and an unmasked /proc (docker run --privileged), or run kuberay on the host."
        )
    return what
