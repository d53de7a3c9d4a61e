"""Resource quantities (`500m`, `1Gi`, `2e3`), exact to a billionth.

Floats lose what users wrote, and the text of a quantity is compared, hashed and shown: so a quantity is an integer
of billionths plus the notation it was written in, and prints exactly as Kubernetes would print it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

_NANO = 10**9
# Kubernetes caps binary amounts silently (`8Ei` is one less than it says), and no others.
_LARGEST_BINARY = (2**63 - 1) * _NANO
_TEXT = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# Far outside what a quantity can hold on either side; bounds the size of the integers in between.
_LARGEST_EXPONENT = 100


class Notation(Enum):
    """How a quantity was written, and so how it is printed."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount. Equal amounts are equal whatever their notation: `1Ki == 1024`."""

    nano: int = 0
    notation: Notation = field(default=Notation.DECIMAL, compare=False)

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        # Kubernetes prints small and fractional binary amounts as decimals rather than round them.
        if self.notation is Notation.BINARY and abs(self.nano) >= 1024 * _NANO and not self.nano % _NANO:
            return _binary_text(self.nano // _NANO)
        return _decimal_text(self.nano, self.notation)

    def __int__(self) -> int:
        """The smallest integer that is not less: who asks for 0.1 of a thing needs a whole one."""
        return -(-self.nano // _NANO)

    def __float__(self) -> float:
        return self.nano / _NANO

    def __bool__(self) -> bool:
        return self.nano != 0

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __add__(self, other: Quantity) -> Quantity:
        """The sum, in the notation of the first part that is not zero."""
        return Quantity(self.nano + other.nano, self.notation if self.nano else other.notation)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.notation if self.nano else other.notation)

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.notation)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.notation)

    @property
    def milli(self) -> int:
        """Thousandths, rounded up; the unit of CPU requests."""
        return -(-self.nano // 10**6)


ZERO = Quantity()


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a quantity: a number with an optional suffix is wanted, such as 500m, 2, 1.5Gi or 1e3"
        )
    sign, number, suffix = match.groups()
    whole, _, fraction = number.partition(".")
    digits = int(whole + fraction) * _NANO
    power = -len(fraction)
    notation = Notation.DECIMAL
    if suffix in _DECIMAL:
        power += _DECIMAL[suffix]
    elif suffix in _BINARY:
        notation = Notation.BINARY
        digits <<= 10 * _BINARY.index(suffix)
    else:
        notation = Notation.EXPONENT
        exponent = int(suffix[1:])
        if abs(exponent) > _LARGEST_EXPONENT:
            raise ValueError(f"{text!r} is not a quantity: its exponent is beyond {_LARGEST_EXPONENT}")
        power += exponent
    # Rounded away from zero: whoever asks for some of a resource gets some of it.
    nano = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    if notation is Notation.BINARY:
        nano = min(nano, _LARGEST_BINARY)
    return Quantity(-nano if sign == "-" else nano, notation)


def parse(value: str | int | float) -> Quantity:
    """The quantity a user wrote; JSON and YAML numbers are taken as their text.

    :raises ValueError: not a quantity; the message shows the text.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a quantity: text or a number is wanted")
    if isinstance(value, str) and len(value) > 128:
        raise ValueError(f"{value[:32]!r}... is not a quantity: it is {len(value)} characters long")
    return _parse(value if isinstance(value, str) else repr(value))


def _decimal_text(nano: int, notation: Notation) -> str:
    """The shortest integer times a power of a thousand; where no suffix reaches, an exponent does."""
    exponent = -9
    while not nano % 1000:
        nano //= 1000
        exponent += 3
    if exponent == 0:
        return str(nano)
    if notation is Notation.EXPONENT or exponent not in _DECIMAL_BY_EXPONENT:
        return f"{nano}e{exponent}"
    return f"{nano}{_DECIMAL_BY_EXPONENT[exponent]}"


def _binary_text(amount: int) -> str:
    power = 0
    while power < len(_BINARY) - 1 and not amount % 1024:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY[power]}"
