"""Who may talk to the server: bearer tokens, and the kubeconfig that carries one."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import yaml

from kuberay.engine.apiserver.certificates import write_private
from kuberay.engine.apiserver.server import User

if TYPE_CHECKING:
    from pathlib import Path

_SHORTEST = 32


class Tokens:
    """Tokens and their users. Only digests are kept, so a look-up takes the same time for a near miss."""

    def __init__(self) -> None:
        self._users: dict[bytes, User] = {}

    def add(self, token: str, user: User) -> None:
        self._users[_digest(token)] = user

    def remove(self, token: str) -> None:
        self._users.pop(_digest(token), None)

    def user_of(self, authorization: str) -> User | None:
        """The user of an `Authorization` header."""
        scheme, _, token = authorization.partition(" ")
        return self._users.get(_digest(token.strip())) if scheme.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def ensure_token(path: Path) -> str:
    """The token of a file, made when there is none; readable by its owner only."""
    if path.exists():
        token = path.read_text().strip()
        if len(token) >= _SHORTEST:
            return token
    token = new_token()
    write_private(path, token.encode())
    return token


class ServiceAccounts:
    """The credentials of Pods: a token for each account that one of them runs as, good for as long as the server runs.

    Who has a token may do everything here; the user's name tells who did it.
    """

    def __init__(self, tokens: Tokens, authority: bytes) -> None:
        self._tokens = tokens
        self._authority = authority
        self._issued: dict[tuple[str, str], str] = {}

    def files(self, namespace: str, account: str) -> dict[str, bytes]:
        """What a Pod finds below `/var/run/secrets/kubernetes.io/serviceaccount`."""
        token = self._issued.get((namespace, account))
        if token is None:
            token = self._issued[namespace, account] = new_token()
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            self._tokens.add(token, User(f"system:serviceaccount:{namespace}:{account}", groups))
        return {"token": token.encode(), "ca.crt": self._authority, "namespace": namespace.encode()}


def kubeconfig(*, server: str, authority: bytes, token: str, name: str = "kuberay-local") -> dict[str, Any]:
    """A kubeconfig with one cluster, user and context of that name.

    :param server: the address of the API server, `https://127.0.0.1:PORT`.
    :param authority: the certificate to trust, as PEM.
    """
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, config: dict[str, Any]) -> None:
    """Write a kubeconfig that only its owner can read."""
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
