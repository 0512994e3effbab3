"""Formats figures for people: 12,345 · 93.2 % · 4.5 ms · 3 d 4 h · 1.5 TiB."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_TIMES = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def percent(share: float, digits: int = 1) -> str:
    """Format a share; 41.25 is 41.3 as in JavaScript, so that text and page show one figure."""
    rounded = Decimal(share * 100).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{rounded} %"


def seconds(value: float) -> str:
    """Format a duration with three significant digits in the unit that fits."""
    if value <= 0:
        return "0 s"
    size, unit = next(((size, unit) for size, unit in _TIMES if value >= size * 0.9995), _TIMES[-1])
    return f"{_three(value / size)} {unit}"


def amount(value: float, unit: str) -> str:
    """Format a capacity: bytes with binary prefixes (1.5 TiB), anything else with separated thousands."""
    if unit == "bytes":
        power = 0
        while value >= 1024 and power < len(_BYTES) - 1:
            value, power = value / 1024, power + 1
        return f"{_three(value)} {_BYTES[power]}"
    return f"{value:,.0f} {unit}"


def _three(value: float) -> str:
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if "e" in text else text
