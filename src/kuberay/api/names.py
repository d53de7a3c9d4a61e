"""What Kubernetes accepts as a name, a label key or a label value.

Each function returns what is wrong in words, or `None`; whoever calls it knows the field.
"""

from __future__ import annotations

import re

from kuberay.api.problems import shown

_LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253


def dns_1123_label(name: str) -> str | None:
    """A name that may start with a digit: `2-workers`."""
    if len(name) > LABEL_LENGTH:
        return _too_long(name, LABEL_LENGTH)
    if not _LABEL_1123.match(name):
        return (
            f"{shown(name)} is not a DNS-1123 label: lower case letters, digits and '-' only, "
            "starting and ending with a letter or digit"
        )
    return None


def dns_1035_label(name: str) -> str | None:
    """A name that must start with a letter, as names of Services do: `my-cluster`."""
    if len(name) > LABEL_LENGTH:
        return _too_long(name, LABEL_LENGTH)
    if not _LABEL_1035.match(name):
        return (
            f"{shown(name)} is not a DNS-1035 label: lower case letters, digits and '-' only, "
            "starting with a letter and ending with a letter or digit"
        )
    return None


def dns_1123_subdomain(name: str) -> str | None:
    """Labels joined by dots, as most objects are named: `example.com`."""
    if len(name) > SUBDOMAIN_LENGTH:
        return _too_long(name, SUBDOMAIN_LENGTH)
    if not _SUBDOMAIN_1123.match(name):
        return (
            f"{shown(name)} is not a DNS-1123 subdomain: lower case letters, digits, '-' and '.' only, "
            "each part starting and ending with a letter or digit"
        )
    return None


def qualified_name(key: str) -> str | None:
    """The key of a label or annotation: a name, or `example.com/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and (wrong := dns_1123_subdomain(prefix)):
        return f"prefix {wrong}"
    if len(name) > LABEL_LENGTH:
        return _too_long(name, LABEL_LENGTH)
    if not _QUALIFIED.match(name):
        return (
            f"{shown(key)} is not a qualified name: letters, digits, '-', '_' and '.' only, starting and ending with a "
            "letter or digit, with an optional DNS prefix and '/'"
        )
    return None


def label_value(value: str) -> str | None:
    """The value of a label, which may be empty."""
    if len(value) > LABEL_LENGTH:
        return _too_long(value, LABEL_LENGTH)
    if value and not _QUALIFIED.match(value):
        return (
            f"{shown(value)} is not a label value: letters, digits, '-', '_' and '.' only, "
            "starting and ending with a letter or digit"
        )
    return None


def _too_long(text: str, limit: int) -> str:
    return f"{shown(text)} has {len(text)} characters, at most {limit} are allowed"
