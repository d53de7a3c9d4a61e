"""Structural schemas: what a field may be, which fields there are, and what they are when left out.

The schema of a CustomResourceDefinition and the generated one of a built-in kind go through the same three steps:
`prune` (unknown fields go, and are named), `default`, `validate`. Types and ranges are checked by jsonschema-rs;
pruning, defaults, list keys and rules are walks of our own over a compiled tree.

`api.structural` judges by the same schemas for people, offline: in words of its own, and without compiled code. Here
every write pays, and clients know the words of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson

from kuberay.api.expressions import Rule, RuleError, compile_rule
from kuberay.api.kubernetes import definitions
from kuberay.engine.apiserver import problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kuberay.engine.apiserver.problems import Problem
    from kuberay.engine.apiserver.storage import Object

OBJECT_META = {"$ref": "meta.v1.ObjectMeta"}
_TYPE_META = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_SAME_IN_JSON_SCHEMA = (
    *("enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
_INTEGER_RANGES = {"int32": (-(2**31), 2**31 - 1)}


@dataclass(slots=True)
class _Node:
    """One schema, compiled: what the walks need and nothing else."""

    properties: dict[str, _Node] = field(default_factory=dict)
    additional: _Node | None = None
    items: _Node | None = None
    is_object: bool = False
    preserves: bool = False
    nullable: bool = False
    default: bytes | None = None
    list_keys: tuple[str, ...] = ()
    is_set: bool = False
    rules: tuple[tuple[Rule, str], ...] = ()

    def child(self, name: str) -> _Node | None:
        return self.properties.get(name) or self.additional


class Schema:
    """A compiled schema. Compiling is put off until the first use: a kind nobody writes costs nothing."""

    def __init__(self, raw: Object, *, custom: bool) -> None:
        """`custom`: required fields, unique list keys and rules are enforced, which built-in kinds do in their own
        validation instead."""
        self.raw = raw
        self._custom = custom
        self._named: dict[str, _Node] = {}

    @cached_property
    def _root(self) -> _Node:
        return self._compile(self.raw)

    @cached_property
    def _validator(self) -> Any:
        document = self._json_schema(self.raw)
        document["definitions"] = {name: self._json_schema(raw) for name, raw in definitions().items()}
        return jsonschema_rs.Draft4Validator(document, validate_formats=True)

    def prune(self, obj: Object) -> list[str]:
        """Remove fields that the schema does not know, and nulls that it does not allow; name the former."""
        unknown: list[str] = []
        _prune(obj, self._root, "", unknown)
        return unknown

    def default(self, obj: Object) -> None:
        """Fill in the defaults, in place."""
        _default(obj, self._root)

    def validate(self, obj: Object, old: Object | None = None) -> list[Problem]:
        """Everything that is wrong with a pruned and defaulted object; rules only when the rest is right."""
        if not self._validator.is_valid(obj):
            found = [_problem(error) for error in self._validator.iter_errors(obj)]
            return sorted(found, key=lambda problem: problem.field)
        if not self._custom:
            return []
        return list(_check_lists(obj, self._root, "")) or list(_check_rules(obj, old, self._root, ""))

    def _compile(self, raw: Object) -> _Node:
        if "$ref" in raw:
            name = raw["$ref"]
            if name not in self._named:
                self._named[name] = node = _Node()
                self._fill(node, definitions()[name])
            return self._named[name]
        node = _Node()
        self._fill(node, raw)
        return node

    def _fill(self, node: _Node, raw: Object) -> None:
        properties = raw.get("properties", {})
        if raw.get("x-kubernetes-embedded-resource"):
            properties = {**_TYPE_META, "metadata": OBJECT_META, **properties}
        node.properties = {name: self._compile(value) for name, value in properties.items()}
        additional = raw.get("additionalProperties")
        node.additional = self._compile(additional) if isinstance(additional, dict) else None
        node.items = self._compile(raw["items"]) if isinstance(raw.get("items"), dict) else None
        node.is_object = raw.get("type") == "object" or bool(properties)
        node.preserves = bool(raw.get("x-kubernetes-preserve-unknown-fields")) or additional is True
        node.nullable = bool(raw.get("nullable"))
        if self._custom:
            node.default = orjson.dumps(raw["default"]) if "default" in raw else None
            node.is_set = raw.get("x-kubernetes-list-type") == "set"
            if raw.get("x-kubernetes-list-type") == "map":
                node.list_keys = tuple(raw.get("x-kubernetes-list-map-keys", ()))
            node.rules = tuple(
                (compile_rule(rule["rule"]), rule.get("message", f"failed rule: {rule['rule']}"))
                for rule in raw.get("x-kubernetes-validations", ())
            )

    def _json_schema(self, raw: Object) -> Object:
        """The schema in the words of JSON Schema."""
        if "$ref" in raw:
            return {"$ref": f"#/definitions/{raw['$ref']}"}
        plain: Object = {key: raw[key] for key in _SAME_IN_JSON_SCHEMA if key in raw}
        if raw.get("format") in ("date-time", "ipv4", "ipv6", "uri", "date", "uuid", "email", "hostname"):
            plain["format"] = raw["format"]
        if raw.get("x-kubernetes-int-or-string"):
            types = ["integer", "string"]
        elif raw.get("x-kubernetes-quantity"):
            types = ["string", "number"]
        else:
            types = [raw["type"]] if "type" in raw else []
        if types:
            plain["type"] = (
                types + ["null"] * bool(raw.get("nullable")) if len(types) > 1 or raw.get("nullable") else types[0]
            )
        if raw.get("nullable") and "enum" in plain:
            plain["enum"] = [*plain["enum"], None]
        if raw.get("format") in _INTEGER_RANGES:
            low, high = _INTEGER_RANGES[raw["format"]]
            plain["minimum"], plain["maximum"] = max(low, raw.get("minimum", low)), min(high, raw.get("maximum", high))
        if raw.get("required") and self._custom:
            plain["required"] = raw["required"]
        if "properties" in raw:
            plain["properties"] = {name: self._json_schema(value) for name, value in raw["properties"].items()}
        for key in ("items", "additionalProperties", "not"):
            if isinstance(raw.get(key), dict):
                plain[key] = self._json_schema(raw[key])
        for key in ("allOf", "anyOf", "oneOf"):
            if key in raw and not raw.get("x-kubernetes-int-or-string"):
                plain[key] = [self._json_schema(part) for part in raw[key]]
        return plain


def custom_schema(raw: Object) -> Schema:
    """The schema of a custom resource: its own fields beside the metadata every object has."""
    properties = {**raw.get("properties", {}), **_TYPE_META, "metadata": OBJECT_META}
    return Schema({**raw, "type": "object", "properties": properties}, custom=True)


def builtin_schema(definition: str) -> Schema:
    """The schema of a built-in kind, by the name of its definition."""
    return Schema({"$ref": definition}, custom=False)


def check_rules(raw: Object, path: str) -> Iterator[Problem]:
    """Rules of a schema that this server cannot evaluate."""
    for number, rule in enumerate(raw.get("x-kubernetes-validations", ())):
        try:
            compile_rule(rule.get("rule", ""))
        except RuleError as error:
            yield problems.invalid(f"{path}.x-kubernetes-validations[{number}].rule", rule.get("rule"), str(error))
    for name, value in raw.get("properties", {}).items():
        yield from check_rules(value, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            yield from check_rules(raw[key], f"{path}.{key}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _prune(value: Any, node: _Node, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        for name in list(value):
            child = node.child(name)
            if child is None:
                if node.is_object and not node.preserves:
                    unknown.append(_below(path, name))
                    del value[name]
            elif value[name] is None:
                if not child.nullable:
                    del value[name]
            elif isinstance(value[name], dict | list):
                _prune(value[name], child, _below(path, name), unknown)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _prune(item, node.items, f"{path}[{index}]", unknown)


def _default(value: Any, node: _Node) -> None:
    if isinstance(value, dict):
        for name, child in node.properties.items():
            if child.default is not None and name not in value:
                value[name] = orjson.loads(child.default)
        for name, item in value.items():
            next_node = node.child(name)
            if next_node is not None and isinstance(item, dict | list):
                _default(item, next_node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            _default(item, node.items)


def _check_lists(value: Any, node: _Node, path: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from _check_lists(item, child, _below(path, name))
    elif isinstance(value, list) and node.items is not None:
        if node.list_keys or node.is_set:
            seen: set[bytes] = set()
            for index, item in enumerate(value):
                key = {k: item[k] for k in node.list_keys if k in item} if node.list_keys else item
                text = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
                if text in seen:
                    yield problems.duplicate(f"{path}[{index}]", key)
                seen.add(text)
        for index, item in enumerate(value):
            yield from _check_lists(item, node.items, f"{path}[{index}]")


def _check_rules(value: Any, old: Any, node: _Node, path: str) -> Iterator[Problem]:
    for rule, message in node.rules:
        if rule.uses_old and old is None:
            continue
        try:
            holds = rule.holds(value, old)
        except RuleError as error:
            holds, message = False, f"{error} evaluating rule: {rule.text}"
        if not holds:
            yield problems.invalid(path, value if not isinstance(value, dict | list) else _kind(value), message)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = node.child(name)
            if child is not None:
                yield from _check_rules(item, before.get(name), child, _below(path, name))
    elif isinstance(value, list) and node.items is not None:
        earlier = _by_keys(old, node.list_keys)
        for index, item in enumerate(value):
            match = earlier.get(_keys(item, node.list_keys)) if earlier else None
            yield from _check_rules(item, match, node.items, f"{path}[{index}]")


def _keys(item: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(item.get(key)) for key in keys)


def _by_keys(old: Any, keys: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    """Items of the old list by their keys: only a list that is a map tells which item was which."""
    return {_keys(item, keys): item for item in old} if keys and isinstance(old, list) else {}


def _kind(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array"


def _problem(error: Any) -> Problem:
    """A finding of jsonschema-rs in the words of Kubernetes."""
    path = ""
    for part in error.instance_path:
        path = f"{path}[{part}]" if isinstance(part, int) else _below(path, part)
    match type(error.kind).__name__:
        case "Required":
            return problems.required(_below(path, error.kind.property))
        case "Type":
            return problems.wrong_type(path, error.instance, " or ".join(error.kind.types))
        case "Enum":
            return problems.unsupported(path, error.instance, error.kind.options)
    shown = error.instance if not isinstance(error.instance, dict | list) else _kind(error.instance)
    return problems.invalid(path, shown, f"{path} in body: {error.message}")
