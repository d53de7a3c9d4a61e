"""Label and field selectors: what the `-l` and `--field-selector` of kubectl mean.

Parsed once into requirements, then matched without parsing again. The same code filters the embedded API server's
lists and watches and the operator's caches, so the two cannot disagree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_SYMBOLS = frozenset(["==", "!=", *"=!<>(),"])
_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")


class SelectorError(ValueError):
    """Text or an object that is not a selector; the message shows it."""


class Operator(Enum):
    """How the value of a label is tested."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One test of one label. An absent label is "not in" every set."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER:
                return value is not None and _is_integer(value) and int(value) > int(self.values[0])
            case Operator.LESS:
                return value is not None and _is_integer(value) and int(value) < int(self.values[0])

    def __str__(self) -> str:
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case Operator.NOT_IN if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({','.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of its requirements; without any it matches everything. `str()` is its text for a query."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """The selector of a query or of `kubectl -l`: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

        :raises SelectorError: not a selector; the message shows the text.
        """
        return cls(tuple(_parse_labels(text)))

    @classmethod
    def from_dict(cls, selector: Mapping[str, Any] | None) -> Self:
        """The selector of a `LabelSelector` object. An empty one matches everything, an absent one nothing.

        :raises SelectorError: a field of it is not what it has to be.
        """
        if selector is None:
            return cls(matches_nothing=True)
        labels = selector.get("matchLabels") or {}
        requirements = [_checked(selector, k, Operator.IN, (v,)) for k, v in sorted(labels.items())]
        requirements += [_from_expression(selector, e) for e in selector.get("matchExpressions") or ()]
        return cls(tuple(requirements))

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Self:
        """The selector that wants exactly these labels; what a Service's `spec.selector` means."""
        return cls(tuple(Requirement(k, Operator.IN, (v,)) for k, v in sorted(labels.items())))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        if self.matches_nothing:
            return False
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __str__(self) -> str:
        if self.matches_nothing:
            raise SelectorError("a selector that matches nothing has no text")
        return ",".join(str(requirement) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldTest:
    """One test of one field, by its dotted path."""

    path: str
    value: str
    equal: bool = True


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Tests of fields such as `metadata.name` and `status.phase`; which fields a kind offers is the server's affair."""

    tests: tuple[FieldTest, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The selector of a query: `a.b=c,d!=e`; a backslash escapes a comma, an equals sign or itself in a value.

        :raises SelectorError: not a selector; the message shows the text.
        """
        return cls(tuple(_field_test(text, term) for term in _unescaped_split(text) if term))

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that are tested, for the server to say which of them it does not know."""
        return tuple(test.path for test in self.tests)

    def value_of(self, path: str) -> str | None:
        """The one value that a field must have, if the selector says so; lets a server read one object, not all."""
        return next((test.value for test in self.tests if test.path == path and test.equal), None)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields, by dotted path, is selected; an absent field is empty text."""
        return all((fields.get(test.path, "") == test.value) is test.equal for test in self.tests)

    def __str__(self) -> str:
        return ",".join(f"{t.path}{'=' if t.equal else '!='}{_escaped(t.value)}" for t in self.tests)


def _parse_labels(text: str) -> Iterator[Requirement]:
    tokens = _tokens(text)
    position = 0

    def peek() -> str:
        return tokens[position] if position < len(tokens) else ""

    def take() -> str:
        nonlocal position
        token = peek()
        position += 1
        return token

    def word(what: str) -> str:
        token = take()
        if not token or token in _SYMBOLS:
            raise SelectorError(f"cannot read label selector {text!r}: {what} is wanted, found {token or 'the end'!r}")
        return token

    def values() -> tuple[str, ...]:
        if take() != "(":
            raise SelectorError(f"cannot read label selector {text!r}: a list such as (a,b) is wanted after 'in'")
        found = []
        while True:
            found.append("" if peek() in (",", ")") else word("a value"))
            closing = take()
            if closing == ")":
                return tuple(sorted(set(found)))
            if closing != ",":
                raise SelectorError(f"cannot read label selector {text!r}: ',' or ')' is wanted in a list")

    def requirement() -> Requirement:
        if peek() == "!":
            take()
            return _checked(text, word("a label"), Operator.DOES_NOT_EXIST)
        key = word("a label")
        match peek():
            case "" | ",":
                return _checked(text, key, Operator.EXISTS)
            case "=" | "==" | "!=":
                operator = Operator.NOT_IN if take() == "!=" else Operator.IN
                return _checked(text, key, operator, ("" if peek() in ("", ",") else word("a value"),))
            case "in" | "notin":
                operator = Operator.IN if take() == "in" else Operator.NOT_IN
                return _checked(text, key, operator, values())
            case ">" | "<":
                operator = Operator.GREATER if take() == ">" else Operator.LESS
                return _checked(text, key, operator, (word("a number"),))
            case other:
                wanted = f"one of = == != in notin is wanted after {key!r}, found {other!r}"
                raise SelectorError(f"cannot read label selector {text!r}: {wanted}")

    while position < len(tokens):
        yield requirement()
        if position < len(tokens) and (take() != "," or position == len(tokens)):
            raise SelectorError(f"cannot read label selector {text!r}: requirements are joined by single commas")


def _tokens(text: str) -> list[str]:
    return [match.group(1) for match in _TOKEN.finditer(text)]


def _from_expression(selector: object, expression: Mapping[str, Any]) -> Requirement:
    key, name, values = expression.get("key"), expression.get("operator"), tuple(expression.get("values") or ())
    try:
        operator = Operator(name)
    except ValueError:
        operator = Operator.GREATER
    if operator in (Operator.GREATER, Operator.LESS):
        raise SelectorError(f"label selector {selector}: operator {name!r} is none of In, NotIn, Exists, DoesNotExist")
    wants_values = operator in (Operator.IN, Operator.NOT_IN)
    if wants_values != bool(values):
        raise SelectorError(f"label selector {selector}: {name} {'needs' if wants_values else 'takes no'} values")
    return _checked(selector, key, operator, values)


def _checked(source: object, key: Any, operator: Operator, values: tuple[Any, ...] = ()) -> Requirement:
    if not is_label_key(key):
        raise SelectorError(f"label selector {source!r}: {key!r} is not a label key")
    for value in values:
        if not is_label_value(value):
            raise SelectorError(f"label selector {source!r}: {value!r} is not a label value")
    if operator in (Operator.GREATER, Operator.LESS) and not _is_integer(values[0]):
        raise SelectorError(f"label selector {source!r}: {values[0]!r} is not an integer")
    return Requirement(key, operator, values)


def is_label_key(key: object) -> bool:
    """Whether this may be the key of a label: `name` or `dns.prefix/name`."""
    if not isinstance(key, str):
        return False
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: object) -> bool:
    """Whether this may be the value of a label: empty, or at most 63 characters of `A-Za-z0-9_.-`."""
    return isinstance(value, str) and (not value or _NAME.fullmatch(value) is not None)


def _is_integer(value: str) -> bool:
    return re.fullmatch(r"[0-9]{1,19}", value) is not None


def _unescaped_split(text: str) -> list[str]:
    return [term.strip() for term in re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL)]


def _field_test(text: str, term: str) -> FieldTest:
    match = re.fullmatch(r"([^=!\\]+?)\s*(!=|==|=)\s*(.*)", term, re.DOTALL)
    if match is None:
        raise SelectorError(f"cannot read field selector {text!r}: {term!r} is not field=value or field!=value")
    path, operator, value = match.groups()
    if re.search(r"(?<!\\)(?:\\\\)*=", value):
        raise SelectorError(f"cannot read field selector {text!r}: an equals sign in a value is written \\=")
    return FieldTest(path, _unescaped(text, value), equal=operator != "!=")


def _unescaped(text: str, value: str) -> str:
    plain = re.sub(r"\\([\\,=])", r"\1", value)
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![\\,=])", value):
        raise SelectorError(f"cannot read field selector {text!r}: a backslash stands only before \\ , or =")
    return plain


def _escaped(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
