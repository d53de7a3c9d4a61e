from __future__ import annotations

import base64
import pwd
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberay.kube.access import Access, Token
from kuberay.kube.errors import ConfigError
from kuberay.kube.http import HttpTransport
from kuberay.kube.kubeconfig import in_cluster, load


def config(**changes: Any) -> dict[str, Any]:
    """A kubeconfig; `cluster`, `user` and `context` change the fields of the only one of each."""
    cluster = {"server": "https://one:6443", **changes.pop("cluster", {})}
    user = {"token": "s3cret", **changes.pop("user", {})}
    context = {"cluster": "c", "user": "u", **changes.pop("context", {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": context}],
        **changes,
    }


def plugin(**fields: Any) -> dict[str, Any]:
    """A kubeconfig whose user has an exec plugin."""
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never", **fields}
    return config(user={"token": "", "exec": exec_})


def write(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


class TestWhichOneIsMeant:
    def test_the_file_that_is_named(self, tmp_path: Path) -> None:
        file = write(tmp_path / "config", config())
        access = load(file, environ={"KUBECONFIG": "/nonexistent"}, home=tmp_path)
        assert (access.server, access.namespace) == ("https://one:6443", "default")

    def test_the_files_of_the_environment_of_which_the_first_counts(self, tmp_path: Path) -> None:
        first = write(tmp_path / "1", {"current-context": "y"})
        second = write(tmp_path / "2", config(context={"namespace": "from-2"}))
        third = {"contexts": [{"name": "y", "context": {"cluster": "c", "user": "u", "namespace": "from-3"}}]}
        paths = [tmp_path / "missing", first, second, write(tmp_path / "3", {**config(), **third})]
        environ = {"KUBECONFIG": ":".join(map(str, paths))}
        assert load(environ=environ, home=tmp_path).namespace == "from-3"
        assert load(environ=environ, home=tmp_path, context="x").namespace == "from-2"

    def test_the_users_own_file(self, tmp_path: Path) -> None:
        write(tmp_path / ".kube" / "config", config())
        assert load(environ={}, home=tmp_path).server == "https://one:6443"

    def test_the_pods_own_account(self, tmp_path: Path) -> None:
        for name, content in (("token", "t1"), ("ca.crt", "pem"), ("namespace", "ray")):
            (tmp_path / name).write_text(content)
        environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        access = load(environ=environ, home=tmp_path, service_account=tmp_path)
        assert (access.server, access.namespace) == ("https://[fd00::1]:443", "ray")
        assert access.token is not None
        assert access.token.value() == "t1"

    def test_a_pods_own_account_rather_than_a_file_that_is_at_its_home(self, tmp_path: Path) -> None:
        write(tmp_path / ".kube" / "config", config())
        account = tmp_path / "account"
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        assert load(environ=environ, home=tmp_path, service_account=account).server == "https://one:6443"
        account.mkdir()
        for name in ("token", "ca.crt"):
            (account / name).write_text("x")
        assert load(environ=environ, home=tmp_path, service_account=account).server == "https://10.0.0.1:443"
        assert load(environ=environ, home=tmp_path, service_account=account, context="x").server == "https://one:6443"

    def test_a_pods_own_account_although_its_image_does_not_know_the_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
        for name in ("token", "ca.crt"):
            (tmp_path / name).write_text("x")
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        assert load(environ=environ, service_account=tmp_path).server == "https://10.0.0.1:443"
        with pytest.raises(ConfigError, match=r"there is no ~/\.kube/config"):
            load(environ={})
        with pytest.raises(ConfigError, match="~/config"):
            load("~/config", environ={})

    def test_a_pod_without_account_is_told_why(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="automountServiceAccountToken"):
            in_cluster(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, service_account=tmp_path)
        with pytest.raises(ConfigError, match="automountServiceAccountToken"):
            load(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, home=tmp_path, service_account=tmp_path)

    def test_none_at_all(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="name a kubeconfig file"):
            load(environ={}, home=tmp_path)


class TestWhatAFileCanSay:
    def test_relative_paths_are_relative_to_the_file(self, tmp_path: Path) -> None:
        fields = {"client-certificate": "c.crt", "client-key": "../c.key"}
        file = write(tmp_path / "d" / "config", config(cluster={"certificate-authority": "ca.crt"}, user=fields))
        access = load(file)
        assert access.authority is not None
        assert access.certificate is not None
        assert access.key is not None
        assert [each.file for each in (access.authority, access.certificate, access.key)] == [
            tmp_path / "d" / "ca.crt",
            tmp_path / "d" / "c.crt",
            tmp_path / "d" / ".." / "c.key",
        ]

    def test_data_wins_over_files(self, tmp_path: Path) -> None:
        fields = {"certificate-authority": "x", "certificate-authority-data": base64.b64encode(b"pem").decode()}
        access = load(write(tmp_path / "config", config(cluster=fields)))
        assert access.authority is not None
        assert access.authority.data == b"pem"

    def test_how_to_connect(self, tmp_path: Path) -> None:
        fields = {
            "server": "https://gateway/clusters/7/",
            "insecure-skip-tls-verify": True,
            "tls-server-name": "api.internal",
            "proxy-url": "http://proxy:3128",
        }
        access = load(write(tmp_path / "config", config(cluster=fields)))
        assert (access.server, access.insecure) == ("https://gateway/clusters/7", True)
        assert (access.server_name, access.proxy) == ("api.internal", "http://proxy:3128")

    def test_whom_to_act_as(self, tmp_path: Path) -> None:
        user = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"]}
        assert load(write(tmp_path / "config", config(user=user))).headers == (
            ("impersonate-user", "jane"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
        )

    def test_a_name_and_password(self, tmp_path: Path) -> None:
        user = {"token": "", "username": "jane", "password": "pass"}
        access = load(write(tmp_path / "config", config(user=user)))
        assert access.headers == (("authorization", "Basic " + base64.b64encode(b"jane:pass").decode()),)
        assert access.token is None

    def test_as_someone_else_with_particulars(self, tmp_path: Path) -> None:
        user = {"as": "jane", "as-user-extra": {"Reason": ["a", "b"], "acme.com/project": ["p"]}}
        assert load(write(tmp_path / "config", config(user=user))).headers[1:] == (
            ("impersonate-extra-reason", "a"),
            ("impersonate-extra-reason", "b"),
            ("impersonate-extra-acme.com%2Fproject", "p"),
        )

    def test_a_plugin(self, tmp_path: Path) -> None:
        fields = {"args": ["get-token"], "env": [{"name": "PROFILE", "value": "dev"}], "installHint": "get it"}
        file = write(tmp_path / "config", plugin(**fields))
        found = load(file, environ={"HOME": "/h"}).plugin
        assert found is not None
        assert (found.command, found.args, found.env) == ("login", ("get-token",), (("PROFILE", "dev"),))
        assert (found.install_hint, found.environ, found.cluster) == ("get it", {"HOME": "/h"}, None)
        assert str(file) in found.origin

    def test_a_plugin_beside_the_file(self, tmp_path: Path) -> None:
        found = load(write(tmp_path / "config", plugin(command="bin/login"))).plugin
        assert found is not None
        assert found.command == str(tmp_path / "bin" / "login")

    def test_a_plugin_that_wants_to_know_the_cluster(self, tmp_path: Path) -> None:
        (tmp_path / "ca.crt").write_text("pem")
        content = plugin(provideClusterInfo=True)
        extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
        content["clusters"][0]["cluster"] |= {"certificate-authority": "ca.crt", "extensions": [extension]}
        found = load(write(tmp_path / "config", content)).plugin
        assert found is not None
        assert found.cluster == {
            "server": "https://one:6443",
            "certificate-authority-data": base64.b64encode(b"pem").decode(),
            "config": {"audience": "x"},
        }

    def test_a_proxy_of_the_file_wins_over_that_of_the_environment(self, tmp_path: Path) -> None:
        environ = {"HTTPS_PROXY": "http://env:1"}
        file = write(tmp_path / "config", config())
        assert load(file, environ=environ).proxy == "http://env:1"
        write(file, config(cluster={"proxy-url": "http://file:1"}))
        assert load(file, environ=environ).proxy == "http://file:1"

    def test_nobody(self, tmp_path: Path) -> None:
        access = load(write(tmp_path / "config", config(context={"user": ""})))
        assert (access.token, access.certificate, access.headers) == (None, None, ())


class TestBadFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a: [", "is not YAML: there is a mistake at line"),
            ("[]", "must hold fields such as clusters"),
            ("", "current-context is not set"),
            (config(**{"current-context": 7}), "current-context must be text"),
            (config(**{"current-context": "y"}), "there is no context 'y'; choose one of 'x'"),
            (config(clusters="c"), "clusters must be a list"),
            (config(users=[{"user": {}}]), r"users\[0\] must have a name"),
            (config(users=[{"name": "u", "user": "me"}]), r"users\[0\].user must hold fields"),
            (config(context={"cluster": "z"}), r"contexts\[0\].context.cluster is 'z', and clusters has no such entry"),
            (config(context={"user": "z"}), r"contexts\[0\].context.user is 'z', .* use one of 'u'"),
            (config(cluster={"server": ""}), r"clusters\[0\].cluster: server '' is not an address"),
            (config(cluster={"server": "one:6443"}), "server 'one:6443' is not an address such as https"),
            (config(cluster={"server": "https://one:port"}), "server 'https://one:port' is not an address such as"),
            (config(cluster={"server": "https://[::1"}), "server .* is not an address such as"),
            (config(cluster={"server": "https://one\n"}), "server .* is not an address such as"),
            (config(cluster={"server": "https://me:s3cret@one"}), "server 'one' is not an address such as"),
            (config(cluster={"server": "https://:s3cret@one"}), "server 'one' is not an address such as"),
            (config(cluster={"server": 7}), r"clusters\[0\].cluster.server must be text"),
            (config(cluster={"insecure-skip-tls-verify": "yes"}), "insecure-skip-tls-verify must be true or false"),
            (
                config(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "x"}),
                "exclude each other; remove one",
            ),
            (config(cluster={"certificate-authority-data": "%"}), "certificate-authority-data is not base64"),
            (
                config(cluster={"proxy-url": "ftp://p"}),
                r"proxy-url names a proxy of a kind \(ftp\) that is not supported; use http, https or socks5",
            ),
            (config(cluster={"proxy-url": "http:///x"}), "proxy-url names a proxy without a host"),
            (config(cluster={"proxy-url": "http://me:s3cret@p:x"}), "proxy-url names a proxy whose address cannot be"),
            (config(user={"client-certificate": "x"}), "client-key is missing"),
            (config(user={"as-groups": "dev"}), "as-groups must be a list of texts"),
            (config(user={"as-user-extra": {"a": "b"}}), r"users\[0\].user.as-user-extra.a must be a list of texts"),
            (
                config(user={"auth-provider": {"name": "gcp"}}),
                r"auth-provider is not supported; use an exec plugin in its place \(gke-gcloud-auth-plugin\)",
            ),
            (
                config(user={"auth-provider": {"name": "oidc", "config": {"id-token": "s3cret"}}}),
                r"auth-provider is not supported; .* \(kubectl oidc-login\), a token",
            ),
            (config(user={"auth-provider": "gcp"}), r"users\[0\].user.auth-provider must hold fields"),
            (config(user={"exec": "aws"}), r"users\[0\].user.exec must hold fields"),
            (plugin(command=""), r"users\[0\].user.exec.command is missing"),
            (
                plugin(apiVersion="client.authentication.k8s.io/v1alpha1"),
                r"exec.apiVersion is .*/v1 or .*v1beta1 is wan",
            ),
            (plugin(interactiveMode="Always"), "interactiveMode is Always, but there is nobody to ask"),
            (plugin(interactiveMode=""), "interactiveMode is ''; Never or IfAvailable is wanted"),
            (plugin(env={"A": "b"}), r"exec.env must be a list of fields"),
            (plugin(env=[{"name": "a", "value": 7}]), r"exec.env\[0\].value must be text"),
        ],
    )
    def test_the_message_names_file_and_field_and_what_to_do(self, tmp_path: Path, content: Any, message: str) -> None:
        file = write(tmp_path / "config", content)
        with pytest.raises(ConfigError, match=message) as failed:
            load(file, environ={"HTTPS_PROXY": "http://proxy:1", "HTTP_PROXY": "http://proxy:1"})
        assert str(file) in str(failed.value)
        assert "s3cret" not in str(failed.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"there is no kubeconfig file .*nowhere"):
            load(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match=r"KUBECONFIG names .*nowhere, but there is no such file"):
            load(environ={"KUBECONFIG": str(tmp_path / "nowhere")}, home=tmp_path)

    def test_a_mistake_next_to_a_token_does_not_show_it(self, tmp_path: Path) -> None:
        file = write(tmp_path / "config", 'users:\n- name: u\n  user: {token: "s3cret" oops}\n')
        with pytest.raises(ConfigError, match="line 3") as failed:
            load(file)
        assert "s3cret" not in str(failed.value)

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot read kubeconfig file"):
            load(tmp_path)


RUBBISH = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=5),
    st.builds(list),  # a new one each time: it may be spoiled further
    st.builds(dict),
    st.builds(lambda: [{}]),
    st.just("%"),
)


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A kubeconfig with something wrong at a place or two."""
    content: Any = plugin(args=["a"], env=[{"name": "A", "value": "b"}], provideClusterInfo=True)
    content["users"][0]["user"] |= {"token": "s3cret", "as-groups": ["g"], "as-user-extra": {"a": ["b"]}, "as": "me"}
    content["clusters"][0]["cluster"] |= {"proxy-url": "http://p:1", "certificate-authority-data": "eA=="}
    for _ in range(draw(st.integers(1, 3))):
        at = content
        while True:
            places = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
            if not places:
                break
            place = draw(st.sampled_from(places))
            if not isinstance(at[place], dict | list) or draw(st.booleans()):
                at[place] = draw(RUBBISH)
                break
            at = at[place]
    return content


@given(spoiled())
@settings(max_examples=100, deadline=None)
def test_whatever_is_in_a_file_it_can_be_used_or_is_refused_in_words(content: Any) -> None:
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "config", content)
        try:
            HttpTransport(load(file, environ={}))
        except ConfigError as error:
            said = str(error)
    assert not said or (str(file) in said and "s3cret" not in said)


class TestTokenFiles:
    def test_are_read_again_every_minute(self, tmp_path: Path) -> None:
        now = 0.0
        file = tmp_path / "token"
        file.write_text("one\n")
        token = Token(file=file, clock=lambda: now)
        assert token.value() == "one"
        file.write_text("two")
        assert token.value() == "one"
        now = 60.0
        assert token.value() == "two"

    def test_are_read_again_after_a_refusal(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one")
        token = Token(file=file, clock=lambda: 0.0)
        token.value()
        file.write_text("two")
        token.refused()
        assert token.value() == "two"

    def test_that_vanish_or_are_empty_for_a_moment_leave_the_last_token(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one")
        token = Token(file=file, clock=lambda: 0.0)
        token.value()
        file.write_text("")
        token.refused()
        assert token.value() == "one"
        file.unlink()
        token.refused()
        assert token.value() == "one"

    @pytest.mark.parametrize(("content", "message"), [(None, "cannot read the token"), ("", "is empty")])
    def test_that_were_never_there_are_an_error(self, tmp_path: Path, content: str | None, message: str) -> None:
        file = tmp_path / "token"
        if content is not None:
            file.write_text(content)
        with pytest.raises(ConfigError, match=message):
            Token(file=file).value()


@pytest.mark.parametrize("other", [{"token": "t"}, {"tokenFile": "t"}, plugin()["users"][0]["user"]])
def test_two_ways_to_log_in_are_an_error(tmp_path: Path, other: dict[str, Any]) -> None:
    user = {"token": None, "username": "me", "password": "s3cret", **other}
    with pytest.raises(ConfigError, match=r"a username and (token|tokenFile|exec); remove one of them"):
        load(write(tmp_path / "config", config(user=user)))


def test_a_certificate_may_be_broken_into_lines(tmp_path: Path) -> None:
    encoded = base64.encodebytes(b"certificate" * 20).decode()
    assert encoded.count("\n") > 1
    access = load(write(tmp_path / "config", config(cluster={"certificate-authority-data": encoded})))
    assert access.authority is not None
    assert access.authority.data == b"certificate" * 20


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    access = load(
        write(
            tmp_path / "config",
            config(
                cluster={"proxy-url": "http://me:s3cret@proxy"},
                user={
                    "token": None,
                    "username": "me",
                    "password": "s3cret",
                    "client-certificate": "c",
                    "client-key-data": base64.b64encode(b"s3cret").decode(),
                },
            ),
        )
    )
    assert "s3cret" not in repr(access)
    assert isinstance(access, Access)
