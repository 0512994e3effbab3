"""Durations in Go's notation: "15s", "1m30s", "1.5h", "300ms". They are exact to the nanosecond, as in Go.

A number without a unit is refused, as in kube-scheduler; only "0" is allowed.
"""

from __future__ import annotations

import re
from functools import total_ordering

NANOSECONDS: dict[str, int] = {  # unit -> nanoseconds
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
MAX_NANOSECONDS = 2**63 - 1  # about 292 years: Go counts in a signed 64-bit integer

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+", re.ASCII)


@total_ordering
class Duration:
    """An immutable duration. `str()` gives Go's normal form, e.g. "1m30s" for "90s".

    It is not a dataclass, because msgspec would then encode it as a mapping, while a duration is a string in the file.
    """

    __slots__ = ("_nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self._nanoseconds = nanoseconds

    @property
    def nanoseconds(self) -> int:
        return self._nanoseconds

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse Go's notation. Raises ValueError, which says what is wrong with `text`."""
        if text in ("0", "+0", "-0"):
            return cls(0)
        if not _WHOLE.fullmatch(text):
            raise ValueError(f'expected a duration such as "15s" or "1m30s", got {_quoted(text)}')
        total = sum(_nanoseconds(number, unit) for number, unit in _PART.findall(text))
        if total > MAX_NANOSECONDS:
            raise ValueError(f"expected a duration of at most 292 years, got {_quoted(text)}")
        return cls(-total if text.startswith("-") else total)

    @classmethod
    def of_seconds(cls, seconds: float) -> Duration:
        return cls(round(seconds * 1e9))

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self._nanoseconds == other._nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self._nanoseconds < other._nanoseconds

    def __hash__(self) -> int:
        return hash(self._nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({self})"

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        sign = "-" if self.nanoseconds < 0 else ""
        return sign + _magnitude(abs(self.nanoseconds))


def _nanoseconds(number: str, unit: str) -> int:
    """Return the whole nanoseconds of a number and a unit such as "1.5" and "h"; smaller fractions are cut off."""
    whole, _, fraction = number.partition(".")
    scale = NANOSECONDS[unit]
    return int(whole or "0") * scale + (int(fraction) * scale // 10 ** len(fraction) if fraction else 0)


def _magnitude(ns: int) -> str:
    """Return Go's normal form of a non-negative duration: one unit below a second, else hours, minutes and seconds."""
    if ns == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if ns < NANOSECONDS[unit] * 1000:
            return _decimal(ns, NANOSECONDS[unit]) + unit
    hours, rest = divmod(ns, NANOSECONDS["h"])
    minutes, rest = divmod(rest, NANOSECONDS["m"])
    seconds = _decimal(rest, NANOSECONDS["s"]) + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(ns: int, scale: int) -> str:
    """Return `ns / scale` without rounding and without trailing zeros."""
    whole, rest = divmod(ns, scale)
    if not rest:
        return str(whole)
    digits = len(str(scale)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
