"""Kubernetes' library of quantities."""

from __future__ import annotations

from collections.abc import Callable

from kscheduler.api.exact_quantity import Format, Quantity, QuantityError
from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from kscheduler.cel.values import Opaque, Value


class QuantityValue(Opaque):
    """A quantity. As in Go, `==` fails if the one on its right was computed, as by `add`."""

    __slots__ = ("is_computed", "quantity")
    cel_type = QUANTITY
    go_type = "cel.Quantity"

    def __init__(self, quantity: Quantity, *, is_computed: bool = False) -> None:
        self.quantity = quantity
        self.is_computed = is_computed

    def same(self, other: Value) -> bool:
        if not isinstance(other, QuantityValue) or other.is_computed:
            raise no_such_overload()
        return self.quantity.compare(other.quantity) == 0

    def __str__(self) -> str:
        return str(self.quantity)


def _parse(text: str) -> QuantityValue:
    try:
        return QuantityValue(Quantity.parse(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return left.quantity.compare(right.quantity)


def _as_integer(value: QuantityValue) -> int:
    number = value.quantity.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _computed(operation: Callable[[Quantity, Quantity], Quantity]) -> Callable[[Value, Value], QuantityValue]:
    def compute(left: QuantityValue, right: QuantityValue | int) -> QuantityValue:
        other = right.quantity if isinstance(right, QuantityValue) else Quantity.of(right, Format.DECIMAL_EXPONENT)
        try:
            return QuantityValue(operation(left.quantity, other), is_computed=True)
        except QuantityError as error:
            raise EvaluationError(str(error)) from None

    return compute


_add, _subtract = _computed(Quantity.add), _computed(Quantity.subtract)
_Q = QUANTITY

FUNCTIONS = (
    Function("quantity", (overload("string_to_quantity", (STRING,), _Q, _parse),)),
    Function("isQuantity", (overload("is_quantity_string", (STRING,), BOOL, _is_quantity),)),
    Function("sign", (overload("quantity_sign", (_Q,), INT, lambda value: value.quantity.sign),)),
    Function(
        "isGreaterThan",
        (method("quantity_is_greater_than", (_Q, _Q), BOOL, lambda left, right: _compare(left, right) == 1),),
    ),
    Function(
        "isLessThan",
        (method("quantity_is_less_than", (_Q, _Q), BOOL, lambda left, right: _compare(left, right) == -1),),
    ),
    Function("compareTo", (method("quantity_compare_to", (_Q, _Q), INT, _compare),)),
    Function(
        "asApproximateFloat",
        (method("quantity_get_float", (_Q,), DOUBLE, lambda value: value.quantity.approximate()),),
    ),
    Function("asInteger", (method("quantity_get_int", (_Q,), INT, _as_integer),)),
    Function(
        "isInteger",
        (method("quantity_is_integer", (_Q,), BOOL, lambda value: value.quantity.as_int64() is not None),),
    ),
    Function(
        "add",
        (method("quantity_add", (_Q, _Q), _Q, _add), method("quantity_add_int", (_Q, INT), _Q, _add)),
    ),
    Function(
        "sub",
        (method("quantity_sub", (_Q, _Q), _Q, _subtract), method("quantity_sub_int", (_Q, INT), _Q, _subtract)),
    ),
)
