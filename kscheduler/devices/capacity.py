"""How much of a device's capacities a request consumes, by the capacities' request policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kscheduler.api.devices import CapacityRange, DeviceCapacity
from kscheduler.api.exact_quantity import Format, Quantity
from kscheduler.api.objects import RawQuantity
from kscheduler.config.device_rules import DeviceRules
from kscheduler.devices.amounts import amount_of
from kscheduler.errors import InternalError

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_MILLI = 10**6  # billionths in a thousandth

_IMPOSSIBLE = "capacity request cannot be represented in the device's range arithmetic"
_NEGATIVE = "capacity value is negative"

Requests = Mapping[str, Quantity]  # capacity -> requested amount


class CapacityError(Exception):
    """An amount cannot be computed, or is negative; the text is kube-scheduler's."""


@dataclass(frozen=True, slots=True)
class Range:
    """Amounts from `min` to `max`, in steps counted from `min`. Absent bounds are None."""

    min: Quantity | None
    max: Quantity | None
    step: Quantity | None

    @staticmethod
    def parse(given: CapacityRange) -> Range:
        return Range(_parse(given.min), _parse(given.max), _parse(given.step))


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device, with the policy for requests if there is one."""

    value: Quantity
    limit: int  # the value as an amount
    has_policy: bool = False
    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] | None = None
    valid_range: Range | None = None

    @staticmethod
    def parse(given: DeviceCapacity) -> Capacity:
        """Raises QuantityError."""
        value = Quantity.served(given.value)
        policy = given.request_policy
        if policy is None:
            return Capacity(value, amount_of(value))
        values, valid_range = policy.valid_values, policy.valid_range
        return Capacity(
            value,
            amount_of(value),
            has_policy=True,
            default=_parse(policy.default),
            valid_values=None if values is None else tuple(Quantity.served(each) for each in values),
            valid_range=None if valid_range is None else Range.parse(valid_range),
        )


def _parse(raw: RawQuantity | None) -> Quantity | None:
    return None if raw is None else Quantity.served(raw)


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """How a release with its gates computes amounts."""

    fails_if_impossible: bool
    rounds_to_binary: bool
    allows_fractions: bool  # of min, max and step; else they are rounded up to integers

    @staticmethod
    def of(rules: DeviceRules, *, fractional: bool) -> CapacityRules:
        return CapacityRules(rules.impossible_amounts_fail, rules.rounds_to_binary_format, fractional)


def consumed_amounts(
    requests: Requests | None, capacities: Mapping[str, Capacity], rules: CapacityRules
) -> dict[str, Quantity] | None:
    """Return what a request consumes of each capacity of an unused device, or None if the device does not offer that.

    A device that lacks a requested capacity, or whose policies do not allow the amount, does not. Whether the amount
    is still there is not asked. Raises CapacityError.
    """
    if requests is not None and any(name not in capacities for name in requests):
        return None
    amounts: dict[str, Quantity] = {}
    for name, capacity in capacities.items():
        try:
            amount = _consumed(requests.get(name) if requests is not None else None, capacity, rules)
            if amount is not None and amount.sign < 0 and rules.fails_if_impossible:
                raise CapacityError(_NEGATIVE)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount is None:
            return None
        amounts[name] = amount
    for name, amount in amounts.items():
        if _violates_policy(amount, capacities[name], rules):
            return None
    return amounts


def _consumed(requested: Quantity | None, capacity: Capacity, rules: CapacityRules) -> Quantity | None:
    """Return the amount rounded up to one that the policy allows, as far as there is one."""
    if requested is None:
        return capacity.value if capacity.default is None else capacity.default
    if not capacity.has_policy:
        return requested
    if capacity.valid_range is not None and capacity.valid_range.min is not None:
        return _round_up(requested, capacity.valid_range.min, capacity.valid_range, rules)
    if capacity.valid_values is not None:
        return next((value for value in capacity.valid_values if requested <= value), requested)
    return requested


def _round_up(requested: Quantity, lowest: Quantity, valid: Range, rules: CapacityRules) -> Quantity | None:
    """Return the next step of the range; None for a step of zero, with which kube-scheduler crashes."""
    if requested < lowest:
        return lowest
    if valid.step is None:
        return requested
    form = Format.BINARY_SI if rules.rounds_to_binary else valid.step.format
    if _counts_in_milli(valid, rules):
        return _round_up_milli(requested, lowest, valid.step, form)
    if rules.fails_if_impossible and amount_of(requested) > _MAX_INT64 * 1000 * _MILLI:
        raise CapacityError(f"{_IMPOSSIBLE}: request {requested} exceeds MaxInt64")
    step, first = valid.step.value(), lowest.value()
    if step == 0:
        return None
    steps = _steps(_wrapped(requested.value() - first), step)
    if rules.fails_if_impossible and first >= 0 and steps > _quotient(_MAX_INT64 - first, step):
        raise CapacityError(f"{_IMPOSSIBLE}: rounding request {requested} up to the next step passes MaxInt64")
    return Quantity(_wrapped(first + step * steps), 0, form)


def _round_up_milli(requested: Quantity, lowest: Quantity, step: Quantity, form: Format) -> Quantity:
    wanted, first, size = _exact_milli(requested), _exact_milli(lowest), _exact_milli(step)
    if first is None or size is None:
        raise InternalError("the bounds of a range are not thousandths, though it is counted in them")
    if wanted is None:
        raise CapacityError(f"{_IMPOSSIBLE}: request {requested} is not a representable milli value")
    steps = _steps(wanted - first, size)
    if steps > _quotient(_MAX_INT64 - first, size):
        raise CapacityError(
            f"{_IMPOSSIBLE}: rounding request {requested} up to the next step passes the milli-value range"
        )
    milli = first + size * steps
    return Quantity(milli, -3, form) if milli % 1000 else Quantity(milli // 1000, 0, form)


def _violates_policy(amount: Quantity, capacity: Capacity, rules: CapacityRules) -> bool:
    if not capacity.has_policy or (capacity.default is not None and _is_identical(amount, capacity.default)):
        return False
    if capacity.valid_range is not None:
        return _violates_range(amount, capacity.valid_range, rules)
    return bool(capacity.valid_values) and amount not in (capacity.valid_values or ())


def _violates_range(amount: Quantity, valid: Range, rules: CapacityRules) -> bool:
    if valid.max is not None and amount > valid.max:
        return True
    if valid.step is None:
        return False
    if valid.min is None:
        return True  # kube-scheduler crashes
    if _counts_in_milli(valid, rules):
        wanted, first, step = _exact_milli(amount), _exact_milli(valid.min), _exact_milli(valid.step)
        return wanted is None or first is None or not step or (wanted - first) % step != 0
    size = valid.step.value()
    return size == 0 or _wrapped(amount.value() - valid.min.value()) % size != 0


def _is_identical(first: Quantity, second: Quantity) -> bool:
    """Compare as Go compares the structs: two notations of one value are not the same."""
    return (
        first.unscaled == second.unscaled
        and first.exponent == second.exponent
        and first.format is second.format
        and not first.big
        and not second.big
    )


# --- Go's integers ----------------------------------------------------------------------------------------------


def _counts_in_milli(valid: Range, rules: CapacityRules) -> bool:
    if not rules.allows_fractions:
        return False
    given = [each for each in (valid.min, valid.max, valid.step) if each is not None]
    if any(_exact_milli(each) is None for each in given):
        return False
    return valid.step is None or (_exact_milli(valid.step) or 0) >= 1


def _exact_milli(quantity: Quantity) -> int | None:
    """Return the thousandths, or None if they are not a whole number that fits int64."""
    milli, rest = divmod(amount_of(quantity), _MILLI)
    return milli if rest == 0 and _MIN_INT64 <= milli <= _MAX_INT64 else None


def _steps(distance: int, step: int) -> int:
    """Return how many steps cover the distance, rounded up."""
    whole = _quotient(distance, step)
    return whole if whole * step == distance else whole + 1


def _quotient(dividend: int, divisor: int) -> int:
    """Divide towards zero."""
    whole = abs(dividend) // abs(divisor)
    return whole if (dividend < 0) == (divisor < 0) else -whole


def _wrapped(number: int) -> int:
    return ((number - _MIN_INT64) & ((1 << 64) - 1)) + _MIN_INT64
