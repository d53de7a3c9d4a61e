from __future__ import annotations

import pytest

from kuberay.kube.errors import ConfigError
from kuberay.kube.proxies import proxy_for

PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


class TestWhichVariableCounts:
    @pytest.mark.parametrize(
        ("server", "environ", "proxy"),
        [
            ("https://api:6443", {}, None),
            ("https://api:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
            ("https://api:6443", {"https_proxy": "http://p:1"}, "http://p:1"),
            ("https://api:6443", {"HTTPS_PROXY": "http://up:1", "https_proxy": "http://low:1"}, "http://up:1"),
            ("https://api:6443", {"HTTP_PROXY": "http://p:1"}, None),
            ("http://api", {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "http://p:1"),
            ("https://api:6443", {"HTTPS_PROXY": "p:1"}, "http://p:1"),
            ("https://api:6443", {"HTTPS_PROXY": "https://me:pass@p:1"}, "https://me:pass@p:1"),
            ("https://api:6443", {"HTTPS_PROXY": "socks5://p:1080"}, "socks5://p:1080"),
            ("https://api:6443", {"HTTPS_PROXY": "socks5h://p"}, "socks5h://p"),
            ("https://api:6443", {"HTTPS_PROXY": " "}, None),
        ],
    )
    def test_by_the_scheme_of_the_server(self, server: str, environ: dict[str, str], proxy: str | None) -> None:
        assert proxy_for(server, environ) == proxy


class TestWhatGoesDirect:
    @pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1", "https://[::1]:6443"])
    def test_this_machine_always_does(self, server: str) -> None:
        assert proxy_for(server, PROXY) is None

    @pytest.mark.parametrize(
        ("server", "excluded", "direct"),
        [
            ("https://api.corp.com", "corp.com", True),
            ("https://corp.com", "corp.com", True),
            ("https://notcorp.com", "corp.com", False),
            ("https://api.corp.com", ".corp.com", True),
            ("https://corp.com", ".corp.com", False),
            ("https://api.corp.com", "*.corp.com", True),
            ("https://API.Corp.com.", "corp.COM", True),
            ("https://api.corp.com", "*", True),
            ("https://api.corp.com", "other.com, corp.com", True),
            ("https://api.corp.com:6443", "corp.com:6443", True),
            ("https://api.corp.com", "corp.com:443", True),
            ("https://api.corp.com:6443", "corp.com:443", False),
            ("https://10.96.0.1", "10.0.0.0/8", True),
            ("https://10.96.0.1", "10.96.0.1", True),
            ("https://10.96.0.1:443", "10.96.0.1:443", True),
            ("https://192.168.0.1", "10.0.0.0/8", False),
            ("https://[fd00::1]:6443", "fd00::/8", True),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
            ("https://10.96.0.1", "0.1", False),
        ],
    )
    def test_so_does_what_is_excluded(self, server: str, excluded: str, direct: bool) -> None:
        assert (proxy_for(server, {**PROXY, "NO_PROXY": excluded}) is None) is direct
        assert (proxy_for(server, {**PROXY, "no_proxy": excluded}) is None) is direct


class TestProxiesThatCannotBeUsed:
    @pytest.mark.parametrize(
        ("proxy", "message"),
        [
            ("socks4://me:s3cret@p:1", r"HTTPS_PROXY names a proxy of a kind \(socks4\) that is not supported"),
            ("http://", "HTTPS_PROXY names a proxy without a host"),
        ],
    )
    def test_are_named_without_their_password(self, proxy: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message) as failed:
            proxy_for("https://api:6443", {"HTTPS_PROXY": proxy})
        assert "s3cret" not in str(failed.value)

    def test_what_is_missing_for_a_socks_proxy_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kuberay.kube.socks.is_installed", lambda: False)
        with pytest.raises(ConfigError, match=r"HTTPS_PROXY .* pip install kuberay\[socks\]") as failed:
            proxy_for("https://api:6443", {"HTTPS_PROXY": "socks5://me:s3cret@p:1"})
        assert "s3cret" not in str(failed.value)
