"""Strategic merge patch: a merge patch that knows which lists are merged item by item, and by which key.

What a list is, its schema says (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`). Directives in a patch
say the rest: `$patch: delete|replace`, `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST` and `$retainKeys`. The
order of a merged list is the patch's for the items it names, and the server's for the others.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.kube.patches import MalformedPatch, PatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Object = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_REMOVE = "$deleteFromPrimitiveList/"


def strategic_merge(document: Object, patch: Object, schema: Object, types: Mapping[str, Object]) -> Object:
    """The document with the patch merged in; neither is changed.

    :param schema: the document's, in the words of OpenAPI; `{"$ref": NAME}` stands for one of `types`.
    :raises MalformedPatch: a directive that is not understood.
    :raises PatchError: an item of a list without the key that it is found by.
    """
    return _Merge(types).objects(copy.deepcopy(document), copy.deepcopy(patch), schema)


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge; the values it is given are its own to change."""

    types: Mapping[str, Object]

    def objects(self, old: Object, patch: Object, schema: Object) -> Object:
        match patch.pop(_DIRECTIVE, None):
            case None:
                pass
            case "replace":
                return patch
            case "delete":
                return {}
            case other:
                raise MalformedPatch(f"{_DIRECTIVE}: {other!r} is none of delete, replace")
        _retain(old, patch)
        orders = {key: patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
        for key, value in patch.items():
            if key.startswith(_REMOVE):
                name = key.removeprefix(_REMOVE)
                if isinstance(old.get(name), list):
                    gone = _list(key, value)
                    old[name] = [item for item in old[name] if item not in gone]
            elif value is None:
                old.pop(key, None)
            elif isinstance(value, dict) and isinstance(old.get(key), dict):
                old[key] = self.objects(old[key], value, self._member(schema, key))
            elif isinstance(value, list) and isinstance(old.get(key), list):
                old[key] = self._lists(key, old[key], value, self._member(schema, key), orders.pop(_ORDER + key, None))
            else:
                kept = _plain(value)
                if kept is _NOTHING:
                    old.pop(key, None)
                else:
                    old[key] = kept
        for key, order in orders.items():
            name = key.removeprefix(_ORDER)
            if isinstance(old.get(name), list):
                member = self._member(schema, name)
                by = member.get("x-kubernetes-patch-merge-key", "")
                old[name] = _ordered(old[name], _keys(_list(key, order), by), _keys(old[name], by), by)
        return old

    def _member(self, schema: Object, name: str) -> Object:
        schema = self._resolved(schema)
        return self._resolved(schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {})

    def _resolved(self, schema: Object) -> Object:
        while "$ref" in schema:
            schema = self.types[schema["$ref"]]
        return schema

    def _lists(self, name: str, old: list[Any], patch: list[Any], schema: Object, order: Any) -> list[Any]:
        if "merge" not in schema.get("x-kubernetes-patch-strategy", "").split(","):
            kept: list[Any] = _plain(patch)
            return kept
        by = schema.get("x-kubernetes-patch-merge-key", "")
        before = _keys(old, by)
        if by:
            merged, patch = self._items(name, old, patch, schema.get("items", {}), by)
        else:
            merged = list(dict.fromkeys([*old, *patch]))
        if merged is patch:
            return patch
        wanted = _keys(patch, by)
        if order is not None:
            wanted_by_order = _keys(_list(_ORDER + name, order), by)
            _check_order(name, wanted, wanted_by_order)
            wanted = wanted_by_order
        return _ordered(merged, wanted, before, by)

    def _items(
        self, name: str, old: list[Any], patch: list[Any], schema: Object, by: str
    ) -> tuple[list[Any], list[Any]]:
        """The merged list, and the items of the patch that are no directives; one and the same when it replaces all."""
        rest: list[Any] = []
        gone: list[Any] = []
        replaces = False
        for item in patch:
            match item.get(_DIRECTIVE) if isinstance(item, dict) else None:
                case None:
                    rest.append(item)
                case "delete":
                    gone += _keys([item], by)
                case "replace":
                    replaces = True
                case other:
                    raise MalformedPatch(f"{name}: {_DIRECTIVE}: {other!r} is none of delete, replace")
        if replaces:
            kept: list[Any] = _plain(rest)
            return kept, kept
        merged = [item for item, key in zip(old, _keys(old, by), strict=True) if key not in gone]
        for item, key in zip(rest, _keys(rest, by), strict=True):
            found = _keys(merged, by)
            if key in found:
                merged[found.index(key)] = self.objects(merged[found.index(key)], item, schema)
            else:
                merged.append(_plain(item))
        return merged, rest


_NOTHING = object()


def _plain(value: Any) -> Any:
    """A new value without nulls and directives; `_NOTHING` for one that is nothing but a directive."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _NOTHING
        members = {key: _plain(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in members.items() if item is not _NOTHING and not key.startswith("$")}
    if isinstance(value, list):
        return [item for item in map(_plain, value) if item is not _NOTHING]
    return value


def _retain(old: Object, patch: Object) -> None:
    if _RETAIN not in patch:
        return
    kept = _list(_RETAIN, patch.pop(_RETAIN))
    for key, value in patch.items():
        if value is not None and not key.startswith((_ORDER, _REMOVE)) and key not in kept:
            raise MalformedPatch(f"{_RETAIN} does not name {key!r}, which the patch sets")
    for key in [key for key in old if key not in kept]:
        del old[key]


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedPatch(f"{name} is not a list")
    return value


def _keys(items: list[Any], by: str) -> list[Any]:
    """What items of a merged list are known by: a field of each, or themselves."""
    if not by:
        return list(items)
    for item in items:
        if not isinstance(item, dict) or by not in item:
            raise PatchError(f"an item of a list that is merged by {by!r} does not have it")
    return [item[by] for item in items]


def _check_order(name: str, keys: list[Any], order: list[Any]) -> None:
    """An order, where there is one, names what the patch sets, in the patch's own order."""
    rest = iter(order)
    if order and not all(any(key == one for one in rest) for key in keys):
        raise PatchError(f"the order of {name} in the patch does not match {_ORDER}{name}")


def _ordered(items: list[Any], wanted: list[Any], before: list[Any], by: str) -> list[Any]:
    """Items the patch names in its order, the others in the order they had, and between both the order they had."""
    named = sorted(
        (item for item in items if _keys([item], by)[0] in wanted), key=lambda i: wanted.index(_keys([i], by)[0])
    )
    others = [item for item in items if _keys([item], by)[0] not in wanted]
    result: list[Any] = []
    while named and others:
        left, right = _keys([others[0], named[0]], by)
        comes_first = left in before and right in before and before.index(left) < before.index(right)
        result.append((others if comes_first else named).pop(0))
    return result + others + named
