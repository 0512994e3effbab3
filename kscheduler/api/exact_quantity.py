"""Kubernetes quantities with their exact value and their format, as `resource.Quantity` of apimachinery keeps them.

`api.quantity` turns the amounts of pods and nodes into plain integers. Devices need more: capacities that are compared
below a thousandth, sums that are written back in the format they were given in, and CEL's quantity library.

A value is `unscaled * 10^exponent`. Parsing rounds it away from zero to billionths (n). Go computes with an int64 as
long as that holds the number, and with a big decimal afterwards; `big` says which of the two, because `AsInt64` refuses
a big decimal even if it is a small integer. Everything is bounded: a text such as "1e2000000000" is never written out.
"""

from __future__ import annotations

import decimal
import enum
import functools
import re
from typing import Final

__all__ = ["Format", "Quantity", "QuantityError"]


class QuantityError(ValueError):
    """A text that is no quantity, or a result that is too large to compute. The words are apimachinery's."""


class Format(enum.Enum):
    DECIMAL_SI = "DecimalSI"  # 12M
    BINARY_SI = "BinarySI"  # 12Mi
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_NANO = -9  # the exponent that parsing rounds to
_INT64_DIGITS = 18  # every number of so many decimal digits fits int64
_BINARY_DIGITS = 14  # the same, less what the suffix Ki, Mi, ... takes
_INTERPRETER_DIGITS = 4000  # int(text) and str(int) refuse more than 4,300
_MULTIPLIED_AT_ONCE = frozenset({1, 2, 3, 6, 9})  # powers of ten for which Go has a case of their own
_MAX_SHIFT = 200_000  # most zeros that are ever appended to a number
_CACHE_SIZE, _CACHED_LENGTH = 16_384, 64
_POWERS = tuple(10**exponent for exponent in range(64))

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_SPLIT = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
WRONG_FORMAT: Final = f"quantities must match the regular expression '{_SPLIT}'"
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_TEN = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_1024 = {exponent // 10: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}


class Quantity:
    """An exact amount. It is immutable; equal and ordered by value, whatever the format."""

    __slots__ = ("_text", "big", "exponent", "format", "unscaled")

    def __init__(
        self, unscaled: int, exponent: int, form: Format, *, big: bool = False, text: str | None = None
    ) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.format = form
        self.big = big
        self._text = text  # what String() prints, once it is known

    @staticmethod
    def parse(text: str) -> Quantity:
        """Parse a quantity. Raises QuantityError with the words of apimachinery."""
        return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)

    @staticmethod
    def served(raw: str | int | float) -> Quantity:
        """Parse a field of an API object: JSON has it as text, which may be padded with blanks, or as a number."""
        return Quantity.parse(str(raw).strip())

    @staticmethod
    def of(units: int, form: Format = Format.DECIMAL_SI) -> Quantity:
        """Return so many units. Numbers beyond int64 are kept as Go's big decimals."""
        return Quantity(units, 0, form, big=not _MIN_INT64 <= units <= _MAX_INT64)

    # --- questions --------------------------------------------------------------------------------------------------

    @property
    def sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    @property
    def is_zero(self) -> bool:
        return self.unscaled == 0

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1, as `Cmp`."""
        if self.exponent == other.exponent:
            return (self.unscaled > other.unscaled) - (self.unscaled < other.unscaled)
        return _compare(self, other)

    def as_int64(self) -> int | None:
        """Return the number if Go's `AsInt64` would: an integer that fits int64 and was not computed as a decimal."""
        if self.big or self.exponent < 0:
            return None
        return _shifted_int64(self.unscaled, self.exponent)

    def value(self) -> int:
        """Return whole units as an int64, rounded away from zero; what does not fit is as odd as Go's `Value`."""
        if not self.big:
            if self.exponent >= 0:
                return self._shifted_value()
            units = -(-abs(self.unscaled) // _power(-self.exponent))
            return units if self.unscaled >= 0 else -units
        if self.exponent >= 0:
            return _wrapped(self.unscaled * _power(self.exponent)) if self.exponent <= _MAX_SHIFT else 0
        power = _power(-self.exponent)
        if self.unscaled >= _MAX_INT64 or -self.exponent > _INT64_DIGITS:
            return _wrapped(-(-self.unscaled // power))
        # Go takes the low 64 bits of what is below an int64, and rounds up from there.
        low = _wrapped(abs(self.unscaled))
        low = _wrapped(-low) if self.unscaled < 0 else low
        units, rest = divmod(abs(low), power)
        return (units if low >= 0 else -units) + (1 if rest else 0)

    def _shifted_value(self) -> int:
        """Return an int64 times a power of ten. On overflow Go returns 0, but the low bits for some powers."""
        shifted = _shifted_int64(self.unscaled, self.exponent)
        if shifted is not None:
            return shifted
        if self.exponent in _MULTIPLIED_AT_ONCE and self.unscaled != _MIN_INT64:
            return _wrapped(self.unscaled * _power(self.exponent))
        return 0

    def approximate(self) -> float:
        """Return the nearest float that Go's `AsApproximateFloat64` finds, infinite if there is none."""
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = float("inf") if self.unscaled > 0 else float("-inf")
        return base if self.exponent == 0 else base * _power_as_float(self.exponent)

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def add(self, other: Quantity) -> Quantity:
        """Return the sum, in this one's format unless this one is zero. Raises QuantityError if it is too large."""
        return _sum(self, other, other.unscaled)

    def subtract(self, other: Quantity) -> Quantity:
        """Return the difference, with the format as in `add`. Raises QuantityError if it is too large."""
        return _sum(self, other, -other.unscaled)

    def multiply(self, other: Quantity) -> Quantity:
        """Return the product, in this one's format, as a big decimal, which Go makes of both."""
        return Quantity(self.unscaled * other.unscaled, self.exponent + other.exponent, self.format, big=True)

    # --- Python's protocols -----------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Return the canonical text, byte for byte as Go's `String`."""
        if self._text is None:
            self._text = _canonical(self)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        if self.unscaled == 0:
            return 0
        digits, zeros = _without_zeros(self.unscaled)
        return hash((digits, zeros + self.exponent))


# --- parsing --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _parse_cached(text: str) -> Quantity:
    return _parse(text)


def _parse(text: str) -> Quantity:
    match = _FORM.fullmatch(text)
    if not text or match is None:
        raise QuantityError(WRONG_FORMAT)
    if text == "0":
        return Quantity(0, 0, Format.DECIMAL_SI, text=text)
    sign, zeros_and_number, fraction, suffix = match.groups(default="")
    number = zeros_and_number.lstrip("0") or "0"
    power, form = _interpret(suffix)
    quick = _parse_int64(sign, number, fraction, power, form, text)
    if quick is not None:
        return quick
    if not zeros_and_number and not fraction:
        raise QuantityError(WRONG_NUMBER)
    return _parse_big(sign, zeros_and_number + fraction, len(fraction), power, form)


def _interpret(suffix: str) -> tuple[int, Format]:
    """Return the suffix's power (of two if the format is binary, else of ten) and the format it stands for."""
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1].lstrip("+-0")) > _INT64_DIGITS + 1:
        raise QuantityError(WRONG_SUFFIX)
    exponent = int(match[1])
    if not _MIN_INT64 <= exponent <= _MAX_INT64:
        raise QuantityError(WRONG_SUFFIX)
    return _int32(exponent), Format.DECIMAL_EXPONENT


def _parse_int64(sign: str, number: str, fraction: str, power: int, form: Format, text: str) -> Quantity | None:
    """Parse what Go computes without big numbers, or return None.

    A text that looks canonical is kept as what is printed, though some, such as "1.500" or "+1", are not.
    """
    factor, exponent = 1, power
    if form is Format.BINARY_SI:
        if fraction or _BINARY_DIGITS - len(number) - power * 3 // 10 < 0:
            return None
        factor, exponent = 1 << power, 0
    elif len(number) + len(fraction) > _INT64_DIGITS:
        return None
    exponent = _int32(exponent - len(fraction))
    if exponent < _NANO:
        return None
    digits = number + fraction
    value = int(digits)
    if form is Format.BINARY_SI:
        kept = value & 7 != 0
    else:
        kept = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    unscaled = -value * factor if sign == "-" else value * factor
    return Quantity(unscaled, exponent, form, text=text if kept else None)


def _parse_big(sign: str, digits: str, places: int, power: int, form: Format) -> Quantity:
    unscaled, exponent = _to_int(digits), -places
    if form is Format.BINARY_SI:
        unscaled <<= power
    else:
        exponent = _int32(exponent + power)
    if unscaled:
        unscaled, exponent = _rounded_to_nano(unscaled, exponent)
    magnitude = Quantity(unscaled, exponent, form, big=True)
    if form is Format.BINARY_SI:
        if magnitude > _LARGEST_BINARY:
            unscaled, exponent = _MAX_INT64, 0
        if unscaled and magnitude < _ONE:
            form = Format.DECIMAL_SI
    return Quantity(-unscaled if sign == "-" else unscaled, exponent, form, big=True)


def _rounded_to_nano(unscaled: int, exponent: int) -> tuple[int, int]:
    """Round a positive number up to billionths. A number too long to write out keeps its exponent."""
    surplus = _NANO - exponent
    if surplus <= 0:
        return (unscaled * _power(-surplus), _NANO) if -surplus <= _MAX_SHIFT else (unscaled, exponent)
    if surplus > _digits_at_most(unscaled):
        return 1, _NANO
    return -(-unscaled // _power(surplus)), _NANO


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _sum(first: Quantity, second: Quantity, addend: int) -> Quantity:
    """Return first + addend * 10^(second's exponent), with Go's rules for the format and for int64."""
    form = first.format if first.unscaled else second.format
    if not first.big and not second.big:
        # The least int64 has no opposite: in Go it stays what it is when it is subtracted.
        in_int64 = addend if addend <= _MAX_INT64 else _MIN_INT64
        small = _sum_int64(first.unscaled, first.exponent, in_int64, second.exponent)
        if small is not None:
            return Quantity(small[0], small[1], form)
    exponent = min(first.exponent, second.exponent)
    total = _shifted(first.unscaled, first.exponent - exponent) + _shifted(addend, second.exponent - exponent)
    return Quantity(total, exponent, form, big=True)


def _sum_int64(first: int, first_exponent: int, second: int, second_exponent: int) -> tuple[int, int] | None:
    if second == 0:
        return first, first_exponent
    if first == 0:
        return second, second_exponent
    exponent = min(first_exponent, second_exponent)
    a: int | None = first
    b: int | None = second
    if first_exponent != second_exponent:
        a = _shifted_int64(first, first_exponent - exponent)
        b = _shifted_int64(second, second_exponent - exponent)
    if a is None or b is None or not _MIN_INT64 <= a + b <= _MAX_INT64:
        return None
    return a + b, exponent


def _compare(first: Quantity, second: Quantity) -> int:
    """Compare two numbers of different exponents without writing out their zeros, unless they are about equal."""
    if first.sign != second.sign or first.unscaled == 0:
        return (first.sign > second.sign) - (first.sign < second.sign)
    gap = first.exponent - second.exponent
    if gap > _digits_at_most(second.unscaled):
        return first.sign
    if -gap > _digits_at_most(first.unscaled):
        return -first.sign
    a = first.unscaled * _power(gap) if gap > 0 else first.unscaled
    b = second.unscaled * _power(-gap) if gap < 0 else second.unscaled
    return (a > b) - (a < b)


def _shifted(unscaled: int, zeros: int) -> int:
    if unscaled == 0:
        return 0
    if zeros > _MAX_SHIFT:
        raise QuantityError(f"a sum of quantities would need more than {_MAX_SHIFT} digits")
    return unscaled * _power(zeros)


def _shifted_int64(unscaled: int, zeros: int) -> int | None:
    """Return unscaled * 10^zeros if it fits int64. Zero needs no power at all."""
    if zeros == 0 or unscaled == 0:
        return unscaled
    if zeros > _INT64_DIGITS:
        return None
    shifted = unscaled * _power(zeros)
    return shifted if _MIN_INT64 <= shifted <= _MAX_INT64 else None


# --- texts ----------------------------------------------------------------------------------------------------------


def _canonical(quantity: Quantity) -> str:
    """Return the canonical text. A power without a suffix of its own is left out, which is what Go prints, too."""
    if quantity.unscaled == 0:
        return "0"
    if quantity.format is Format.BINARY_SI:
        units = _units_shown_binary(quantity)
        if units is not None:
            power = 0
            is_smallest = units == _MIN_INT64 and not quantity.big  # Go cannot negate it, and so not shorten it
            while units % 1024 == 0 and not is_smallest:
                units //= 1024
                power += 1
            return _to_text(units) + _SUFFIX_OF_1024.get(power, "")
    digits, zeros = _without_zeros(quantity.unscaled)
    exponent = quantity.exponent + zeros
    padding = exponent % 3
    text = _to_text(digits) + "0" * padding
    exponent -= padding
    if quantity.format is Format.DECIMAL_EXPONENT:
        return f"{text}e{exponent}" if exponent else text
    return text + _SUFFIX_OF_TEN.get(exponent, "")


def _units_shown_binary(quantity: Quantity) -> int | None:
    """Return the units of a binary quantity, or None if it is shown as a decimal: small or not an integer."""
    if quantity.exponent >= 0:
        if quantity.exponent > _MAX_SHIFT:
            return None
        units = quantity.unscaled * _power(quantity.exponent)
    else:
        units, rest = divmod(quantity.unscaled, _power(-quantity.exponent))
        if rest:
            return None
    return units if abs(units) >= 1024 else None


def _without_zeros(unscaled: int) -> tuple[int, int]:
    """Return a number other than zero without its decimal zeros at the end, and how many they were."""
    if unscaled % 10:
        return unscaled, 0
    text = _to_text(unscaled)
    zeros = len(text) - len(text.rstrip("0"))
    return unscaled // _power(zeros), zeros


def _to_int(digits: str) -> int:
    return int(digits) if len(digits) <= _INTERPRETER_DIGITS else int(decimal.Decimal(digits))


def _to_text(number: int) -> str:
    if number.bit_length() <= 3 * _INTERPRETER_DIGITS:
        return str(number)
    return format(decimal.Decimal(number), "f")


def _digits_at_most(number: int) -> int:
    """Return an upper bound of the number of decimal digits, at most a few above it."""
    return number.bit_length() * 30103 // 100000 + 1


def _power(exponent: int) -> int:
    return _POWERS[exponent] if exponent < len(_POWERS) else int(10**exponent)


def _power_as_float(exponent: int) -> float:
    """Return 10^exponent as Go's `math.Pow10` does: the product of two table entries, hence not always the nearest."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    blocks, rest = divmod(abs(exponent), 32)
    high, low = float(f"1e{32 * blocks}"), float(f"1e{rest}")
    return high * low if exponent >= 0 else float(f"1e-{32 * blocks}") / low


def _wrapped(number: int) -> int:
    """Return the low 64 bits as a signed number."""
    return (number - _MIN_INT64) % (1 << 64) + _MIN_INT64


def _int32(number: int) -> int:
    """Return the low 32 bits as a signed number: Go keeps exponents so."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


_ONE = Quantity(1, 0, Format.DECIMAL_SI)
_LARGEST_BINARY = Quantity(_MAX_INT64, 0, Format.BINARY_SI)
