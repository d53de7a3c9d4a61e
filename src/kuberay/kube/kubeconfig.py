"""Finds out how to reach the cluster the way controllers do: kubeconfig files, or the Pod's own service account.

Files are checked by hand rather than decoded into types: who is told "users[1].user.token must be text" in which file
can mend it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from kuberay.kube.access import Access, Material, Token
from kuberay.kube.errors import ConfigError
from kuberay.kube.exec_plugin import API_VERSIONS, ExecPlugin
from kuberay.kube.proxies import checked, proxy_for

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load(
    path: str | Path | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The access that the user means: `path`, else `KUBECONFIG`, else the Pod's own account, else `~/.kube/config`.

    The order is that of controller-runtime: a file that an image happens to have at home does not lead a Pod astray.

    :param context: the context to use; without it the file's `current-context`.
    :raises ConfigError: there is none, or it cannot be used; names file and field, and what to do.
    """
    environ = os.environ if environ is None else environ
    if path is not None:
        return _from_files([Path(path)], context, environ, must_exist=True)
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if listed:
        return _from_files(listed, context, environ)
    # Not `Path.home`, which fails where the image knows nothing of the user: a Pod needs no home.
    own = (home or Path(os.path.expanduser("~"))) / ".kube" / "config"
    is_pod = context is None and bool(environ.get("KUBERNETES_SERVICE_HOST"))
    if is_pod and ((service_account / "token").is_file() or not own.exists()):
        return in_cluster(environ=environ, service_account=service_account)
    if own.exists():
        return _from_files([own], context, environ)
    raise ConfigError(
        f"no way to a cluster is configured: there is no {own}, KUBECONFIG is not set, and this is not a Pod; "
        "name a kubeconfig file"
    )


def in_cluster(*, environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The access that every Pod has: as its service account, to the API server of its own cluster."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token, authority = service_account / "token", service_account / "ca.crt"
    for file in (token, authority):
        if not file.is_file():
            raise ConfigError(f"this Pod has no {file}: does it have automountServiceAccountToken: false?")
    namespace = service_account / "namespace"
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Access(
        server=server,
        origin="the Pod's service account",
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.is_file() else "default",
        authority=Material("the Pod's service account: ca.crt", file=authority),
        token=Token(file=token),
        proxy=proxy_for(server, environ),
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named part of a file: a cluster, user or context, with what is needed to talk about it."""

    file: Path
    where: str
    fields: Mapping[str, Any] = field(repr=False)

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{self.file}: {self.where}.{name} must be text")
        return value or ""

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{self.file}: {self.where}.{name} must be true or false")
        return bool(value)

    def texts(self, name: str) -> list[str]:
        value = self.fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ConfigError(f"{self.file}: {self.where}.{name} must be a list of texts")
        return value

    def path(self, name: str) -> Path | None:
        """A file that is named relative to the kubeconfig."""
        value = self.text(name)
        return self.file.parent / value if value else None

    def material(self, name: str) -> Material | None:
        """A certificate or key, given by `name-data` or as a file by `name`; the former wins, as for kubectl."""
        encoded = self.text(f"{name}-data")
        if encoded:
            try:
                data = base64.b64decode(re.sub(r"[\r\n]", "", encoded), validate=True)
            except (binascii.Error, ValueError) as error:
                raise ConfigError(f"{self.file}: {self.where}.{name}-data is not base64: {error}") from error
            return Material(f"{self.file}: {self.where}.{name}-data", data=data)
        file = self.path(name)
        return Material(f"{self.file}: {self.where}.{name}", file=file) if file else None

    def part(self, name: str) -> _Entry | None:
        """The fields of a field."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise ConfigError(f"{self.file}: {self.where}.{name} must hold fields")
        return _Entry(self.file, f"{self.where}.{name}", value) if value else None

    def parts(self, name: str) -> list[_Entry]:
        """A list of such."""
        value = self.fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise ConfigError(f"{self.file}: {self.where}.{name} must be a list of fields")
        return [_Entry(self.file, f"{self.where}.{name}[{number}]", each) for number, each in enumerate(value)]


@dataclass(slots=True)
class _Config:
    """Several files as one: of two that say the same thing, the first counts."""

    current: str = ""
    clusters: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)

    def add(self, file: Path) -> None:
        content = _read(file)
        current = content.get("current-context") or ""
        if not isinstance(current, str):
            raise ConfigError(f"{file}: current-context must be text")
        self.current = self.current or current
        for plural, singular, into in (
            ("clusters", "cluster", self.clusters),
            ("users", "user", self.users),
            ("contexts", "context", self.contexts),
        ):
            entries = content.get(plural) or []
            if not isinstance(entries, list):
                raise ConfigError(f"{file}: {plural} must be a list")
            for number, entry in enumerate(entries):
                where = f"{plural}[{number}]"
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise ConfigError(f"{file}: {where} must have a name")
                fields = entry.get(singular) or {}
                if not isinstance(fields, dict):
                    raise ConfigError(f"{file}: {where}.{singular} must hold fields")
                into.setdefault(entry["name"], _Entry(file, f"{where}.{singular}", fields))


def _from_files(
    files: list[Path], context: str | None, environ: Mapping[str, str], *, must_exist: bool = False
) -> Access:
    files = [Path(os.path.expanduser(file)).absolute() for file in files]
    config = _Config()
    found = [file for file in files if must_exist or file.exists()]
    if not found:
        raise ConfigError(f"KUBECONFIG names {', '.join(map(str, files))}, but there is no such file")
    for file in found:
        config.add(file)
    names = ", ".join(map(str, found))
    chosen = context or config.current
    if not chosen:
        raise ConfigError(f"{names}: current-context is not set; set it, or choose one of {_choice(config.contexts)}")
    selected = config.contexts.get(chosen)
    if selected is None:
        raise ConfigError(f"{names}: there is no context {chosen!r}; choose one of {_choice(config.contexts)}")
    cluster = _referred(selected, "cluster", config.clusters)
    user = _referred(selected, "user", config.users) if selected.text("user") else None
    return _access(cluster, user, selected.text("namespace") or "default", environ)


def _referred(context: _Entry, field_name: str, entries: Mapping[str, _Entry]) -> _Entry:
    name = context.text(field_name)
    entry = entries.get(name)
    if entry is None:
        raise ConfigError(
            f"{context.file}: {context.where}.{field_name} is {name!r}, and {field_name}s has no such entry; "
            f"use one of {_choice(entries)}"
        )
    return entry


def _access(cluster: _Entry, user: _Entry | None, namespace: str, environ: Mapping[str, str]) -> Access:
    server = cluster.text("server").rstrip("/")
    proxy = cluster.text("proxy-url")
    return Access(
        server=server,
        origin=f"{cluster.file}: {cluster.where}",
        namespace=namespace,
        authority=cluster.material("certificate-authority"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
        server_name=cluster.text("tls-server-name") or None,
        certificate=user.material("client-certificate") if user else None,
        key=user.material("client-key") if user else None,
        token=_token(user) if user else None,
        plugin=_plugin(user, cluster, environ) if user else None,
        headers=_headers(user) if user else (),
        proxy=checked(proxy, f"{cluster.file}: {cluster.where}.proxy-url") if proxy else proxy_for(server, environ),
    )


def _token(user: _Entry) -> Token | None:
    if user.fields.get("auth-provider"):
        raise ConfigError(
            f"{user.file}: {user.where}.auth-provider is not supported; use an exec plugin in its place "
            f"({_login_plugin(user)}), a token, a tokenFile or a client certificate"
        )
    token, file = user.text("token"), user.path("tokenFile")
    return Token(token, file=file) if token or file else None


def _login_plugin(user: _Entry) -> str:
    """The program that took the place of a provider."""
    provider = user.part("auth-provider")
    name = provider.text("name") if provider is not None else ""
    known = {"gcp": "gke-gcloud-auth-plugin", "azure": "kubelogin convert-kubeconfig", "oidc": "kubectl oidc-login"}
    return known.get(name, "such as aws, gke-gcloud-auth-plugin, kubelogin or kubectl oidc-login")


def _plugin(user: _Entry, cluster: _Entry, environ: Mapping[str, str]) -> ExecPlugin | None:
    exec_ = user.part("exec")
    if exec_ is None:
        return None
    origin = f"{exec_.file}: {exec_.where}"
    command, version, mode = exec_.text("command"), exec_.text("apiVersion"), exec_.text("interactiveMode")
    if not command:
        raise ConfigError(f"{origin}.command is missing")
    if version not in API_VERSIONS:
        raise ConfigError(f"{origin}.apiVersion is {version!r}; {' or '.join(API_VERSIONS)} is wanted")
    if mode == "Always":
        raise ConfigError(f"{origin}.interactiveMode is Always, but there is nobody to ask; use another way to log in")
    if mode not in ("Never", "IfAvailable", "") or (not mode and version == API_VERSIONS[0]):
        raise ConfigError(f"{origin}.interactiveMode is {mode!r}; Never or IfAvailable is wanted")
    if os.sep in command:  # else it is looked for on the PATH
        command = str(exec_.path("command"))
    return ExecPlugin(
        command=command,
        args=tuple(exec_.texts("args")),
        env=tuple((each.text("name"), each.text("value")) for each in exec_.parts("env")),
        api_version=version,
        cluster=_cluster_info(cluster) if exec_.flag("provideClusterInfo") else None,
        origin=origin,
        install_hint=exec_.text("installHint"),
        environ=environ,
    )


def _cluster_info(cluster: _Entry) -> dict[str, Any]:
    """What a plugin may want to know of the cluster, in the names of its own protocol."""
    authority = cluster.material("certificate-authority")
    content = authority.data if authority is not None else None
    if authority is not None and authority.file is not None:
        with contextlib.suppress(OSError):  # whoever connects says what is wrong with it
            content = authority.file.read_bytes()
    extensions = {each.text("name"): each.fields.get("extension") for each in cluster.parts("extensions")}
    info = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(content or b"").decode(),
        "proxy-url": cluster.text("proxy-url"),
        "config": extensions.get("client.authentication.k8s.io/exec"),
    }
    return {name: value for name, value in info.items() if value}


def _headers(user: _Entry) -> tuple[tuple[str, str], ...]:
    """Who to act as, and the old way to log in; ignoring the former would be to act with other rights than meant."""
    headers = []
    if user.text("username"):
        for other in ("token", "tokenFile", "exec"):
            if user.fields.get(other):
                raise ConfigError(f"{user.file}: {user.where} has a username and {other}; remove one of them")
        login = base64.b64encode(f"{user.text('username')}:{user.text('password')}".encode()).decode()
        headers.append(("authorization", f"Basic {login}"))
    if user.text("as"):
        headers.append(("impersonate-user", user.text("as")))
    if user.text("as-uid"):
        headers.append(("impersonate-uid", user.text("as-uid")))
    headers += [("impersonate-group", group) for group in user.texts("as-groups")]
    extra = user.part("as-user-extra")
    if extra is not None:
        for name in extra.fields:
            # Not everything can be the name of a header; the server decodes it, and sees it in lower case.
            header = f"impersonate-extra-{quote(str(name).lower(), safe='')}"
            headers += [(header, value) for value in extra.texts(name)]
    return tuple(headers)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError:
        raise ConfigError(f"there is no kubeconfig file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read kubeconfig file {file}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        # Not the parser's own text: it quotes the line, which may hold a token.
        raise ConfigError(f"kubeconfig file {file} is not YAML: there is a mistake{place}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"kubeconfig file {file} must hold fields such as clusters, users and contexts")
    return content


def _choice(entries: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in sorted(entries)) or "(there are none)"
