"""Rules of `x-kubernetes-validations`: the part of CEL that comparisons of fields need.

The embedded API server asks them when an object is written, offline checks when it is read: one rule, one reading.

Literals, lists, field access, `[]`, `has()`, `size()`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `!`, `&&`, `||`,
parentheses and the string tests `startsWith`, `endsWith`, `contains`, over `self` and `oldSelf`. A rule that needs
more does not compile, and the CustomResourceDefinition that holds it is refused: a rule is never skipped.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kuberay.kube.patches import same_json

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[["_Scope"], Any]


class RuleError(ValueError):
    """The rule cannot be compiled, or cannot be evaluated on this value."""


@dataclass(frozen=True, slots=True)
class _Scope:
    self: Any
    old: Any


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule. One that `uses_old` says something about changes only, so it is not asked at creation."""

    text: str
    uses_old: bool
    _evaluate: Evaluate

    def holds(self, value: Any, old: Any = None) -> bool:
        """Whether the value satisfies the rule.

        :raises RuleError: the rule asks for a field that is not there, or is not a claim.
        """
        result = self._evaluate(_Scope(value, old))
        if not isinstance(result, bool):
            raise RuleError(f"the rule {self.text!r} is not true or false")
        return result


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<symbol>&&|\|\||==|!=|<=|>=|[!<>().,\[\]-]))"
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": same_json,
    "!=": lambda a, b: not same_json(a, b),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, group: any(same_json(item, one) for one in group),
}
_STRING_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
}


def compile_rule(text: str) -> Rule:
    """:raises RuleError: the rule uses something that is not evaluated here; the message says what."""
    parser = _Parser(text)
    evaluate = parser.whole()
    return Rule(text, parser.uses_old, evaluate)


class _Parser:
    """Recursive descent; every method returns a closure."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._at = 0
        self.uses_old = False

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise RuleError(f"{text[position:].strip()[:20]!r} is not evaluated here")
            tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            position = match.end()
        return tokens

    def _peek(self) -> str:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")
        return token if kind in ("symbol", "name") else ""

    def _accept(self, *tokens: str) -> str:
        token = self._peek()
        if token and token in tokens:
            self._at += 1
            return token
        return ""

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise RuleError(f"{token!r} is wanted in {self._text!r}")

    def whole(self) -> Evaluate:
        evaluate = self._either()
        if self._at < len(self._tokens):
            raise RuleError(f"{self._tokens[self._at][1]!r} is not evaluated here")
        return evaluate

    def _either(self) -> Evaluate:
        left = self._both()
        while self._accept("||"):
            left = _or(left, self._both())
        return left

    def _both(self) -> Evaluate:
        left = self._comparison()
        while self._accept("&&"):
            left = _and(left, self._comparison())
        return left

    def _comparison(self) -> Evaluate:
        left = self._unary()
        while token := self._accept(*_COMPARISONS):
            left = _compare(_COMPARISONS[token], left, self._unary(), self._text)
        return left

    def _unary(self) -> Evaluate:
        if self._accept("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        if self._accept("-"):
            inner = self._unary()
            return lambda scope: -inner(scope)
        return self._member()

    def _member(self) -> Evaluate:
        value = self._primary()
        while True:
            if self._accept("."):
                value = self._field_or_method(value)
            elif self._accept("["):
                index = self._either()
                self._expect("]")
                value = _item(value, index)
            else:
                return value

    def _field_or_method(self, value: Evaluate) -> Evaluate:
        name = self._name()
        if not self._accept("("):
            return _item(value, lambda scope: name)
        if name == "size":
            self._expect(")")
            return lambda scope: len(value(scope))
        if name not in _STRING_TESTS:
            raise RuleError(f"the function {name}() is not evaluated here")
        argument = self._either()
        self._expect(")")
        return _compare(_STRING_TESTS[name], value, argument, self._text)

    def _name(self) -> str:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end")
        if kind != "name":
            raise RuleError(f"a name is wanted in {self._text!r}, found {token}")
        self._at += 1
        return token

    def _primary(self) -> Evaluate:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end")
        self._at += 1
        match kind:
            case "number":
                number = float(token) if "." in token else int(token)
                return lambda scope: number
            case "string":
                string = re.sub(r"\\(.)", r"\1", token[1:-1])
                return lambda scope: string
            case "name":
                return self._named(token)
        if token == "(":
            inner = self._either()
            self._expect(")")
            return inner
        if token == "[":
            return self._list()
        raise RuleError(f"{token!r} is not evaluated here")

    def _list(self) -> Evaluate:
        items: list[Evaluate] = []
        while not self._accept("]"):
            items.append(self._either())
            if self._peek() != "]":
                self._expect(",")
        return lambda scope: [item(scope) for item in items]

    def _named(self, name: str) -> Evaluate:
        match name:
            case "self":
                return lambda scope: scope.self
            case "oldSelf":
                self.uses_old = True
                return lambda scope: scope.old
            case "true" | "false" | "null":
                constant = {"true": True, "false": False, "null": None}[name]
                return lambda scope: constant
            case "has":
                self._expect("(")
                field = self._either()
                self._expect(")")
                return lambda scope: _present(field, scope)
            case "size":
                self._expect("(")
                value = self._either()
                self._expect(")")
                return lambda scope: len(value(scope))
        raise RuleError(f"{name!r} is not evaluated here")


class _Absent(RuleError):
    """A field that is not there."""


def _present(field: Evaluate, scope: _Scope) -> bool:
    try:
        field(scope)
    except _Absent:
        return False
    return True


def _item(value: Evaluate, key: Evaluate) -> Evaluate:
    def evaluate(scope: _Scope) -> Any:
        container, name = value(scope), key(scope)
        try:
            return container[name]
        except (KeyError, IndexError, TypeError):
            raise _Absent(f"no such key: {name}") from None

    return evaluate


def _compare(test: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate, text: str) -> Evaluate:
    def evaluate(scope: _Scope) -> bool:
        a, b = left(scope), right(scope)
        try:
            return test(a, b)
        except TypeError:
            raise RuleError(f"values that cannot be compared in {text!r}") from None

    return evaluate


def _or(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: left(scope) or right(scope)


def _and(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: left(scope) and right(scope)
