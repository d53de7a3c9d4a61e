"""What a user is told whose machine does not allow namespaces, whose environment lacks Ray, or who asks for more."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kuberay.engine.node import unavailable
from kuberay.engine.node.helper import advice
from kuberay.engine.node.images import RayEnvironment


def told(number: int, settings: dict[str, str] | None = None, *, as_root: bool = False) -> str:
    return advice.explain("making a user namespace", OSError(number, "no"), settings or {}, as_root=as_root)


class TestNamespaces:
    @pytest.mark.parametrize(
        ("settings", "command"),
        [
            ({"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces=15000"),
            ({"kernel/unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"),
            (
                {"kernel/apparmor_restrict_unprivileged_userns": "1"},
                "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ),
        ],
    )
    def test_a_setting_that_forbids_them_is_named_with_its_remedy(self, settings: dict[str, str], command: str) -> None:
        assert command in told(errno.EPERM, settings)

    def test_settings_that_allow_them_are_not_blamed(self) -> None:
        message = told(errno.EPERM, {"user/max_user_namespaces": "1000", "kernel/unprivileged_userns_clone": "1"})
        assert "sysctl" not in message
        assert "--privileged" in message

    def test_root_is_not_sent_after_settings_for_others(self) -> None:
        assert "unprivileged" not in told(errno.EPERM, {"kernel/unprivileged_userns_clone": "0"}, as_root=True)

    def test_a_kernel_without_them_is_told_from_one_that_forbids_them(self) -> None:
        assert "CONFIG_USER_NS" in told(errno.EINVAL)
        assert "limit" in told(errno.ENOSPC)

    def test_always_says_what_failed(self) -> None:
        for number in (errno.EPERM, errno.EINVAL, errno.ENOSPC, errno.EIO):
            assert "making a user namespace failed (no)" in told(number)


class TestImages:
    def test_an_image_means_the_ray_that_is_installed(self) -> None:
        ray = RayEnvironment(Path("/env"), "2.60.0")
        assert ray.problem("rayproject/ray:2.52.0") is None
        assert ray.notice("rayproject/ray:2.52.0").startswith(
            "rayproject/ray:2.52.0 is not pulled: runs on Ray 2.60.0 of this environment"
        )

    def test_without_ray_the_remedy_is_named(self) -> None:
        assert "pip install 'kuberay[local]'" in (RayEnvironment(Path("/env"), None).problem("ray") or "")

    def test_its_programs_come_first_whatever_path_is_asked_for(self) -> None:
        ray = RayEnvironment(Path("/env"), "2.60.0")
        assert ray.search_path("/home/ray/bin") == "/env/bin:/home/ray/bin"
        assert ray.search_path(None).startswith("/env/bin:")


class TestWhatIsNotAvailable:
    @pytest.mark.parametrize(
        ("spec", "named"),
        [
            ({"hostNetwork": True}, "hostNetwork"),
            ({"activeDeadlineSeconds": 5}, "activeDeadlineSeconds"),
            ({"securityContext": {"runAsUser": 0}}, "runAsUser"),
            ({"containers": [{"securityContext": {"runAsGroup": 5}}]}, "runAsGroup"),
            ({"containers": [{"terminationMessagePath": "/tmp/end"}]}, "terminationMessagePath"),
        ],
    )
    def test_is_said(self, spec: dict[str, Any], named: str) -> None:
        (sentence,) = unavailable.differences({"spec": spec})
        assert sentence.startswith(f"{named} is not available on a local node: ")

    def test_an_ordinary_pod_asks_for_nothing_special(self) -> None:
        container = {"terminationMessagePath": "/dev/termination-log", "securityContext": {}}
        spec = {"containers": [container], "hostNetwork": False, "securityContext": {}}
        assert list(unavailable.differences({"spec": spec})) == []
