"""Quantities as whole numbers of billionths, in which sums and comparisons are exact and cheap."""

from __future__ import annotations

from kscheduler.api.exact_quantity import Quantity
from kscheduler.api.objects import RawQuantity

_NANO = 9  # decimal places; parsing rounds quantities to as many
_MAX_ZEROS = 200  # of a number such as 1e2000000000, which is then as good as infinite
_POWERS: list[int] = [10**zeros for zeros in range(_MAX_ZEROS + 1)]


def amount_of(quantity: Quantity) -> int:
    return quantity.unscaled * _POWERS[min(quantity.exponent + _NANO, _MAX_ZEROS)]


def parse_amount(raw: RawQuantity) -> int:
    """Parse a quantity of an API object. Raises QuantityError."""
    return amount_of(Quantity.served(raw))
