"""Objects around a cluster as the caches hold them, of which little more matters than that they are there."""

# ruff: noqa: RUF012 (a Struct makes a new list or dict for each instance)

from __future__ import annotations

from typing import Any

from kuberay.api.core import Metadata, Slim


class PartialObject(Slim, frozen=True, kw_only=True):
    """Any object, without its contents: what a Secret holds never enters the cache."""

    metadata: Metadata = Metadata()


class Taint(Slim, frozen=True, kw_only=True):
    """What keeps Pods away from a Node, or tells something of it."""

    key: str = ""


class NodeSpec(Slim, frozen=True, kw_only=True):
    """The part of a Node's spec that decisions read."""

    taints: list[Taint] = []


class Node(Slim, frozen=True, kw_only=True):
    """A machine."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()


class Ingress(Slim, frozen=True, kw_only=True):
    """An Ingress, with what it says: it is brought back when somebody changes it."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}


class NetworkPolicy(Slim, frozen=True, kw_only=True):
    """A NetworkPolicy, with what it says: it is brought back when somebody changes it."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}
