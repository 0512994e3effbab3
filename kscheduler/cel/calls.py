"""What a planned call does when it is evaluated: closures over the closures of its operands.

An operand that fails raises EvaluationError. Where costs are counted, a call costs what it costs in cel-go.
"""

from __future__ import annotations

from kscheduler.cel import costs
from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.frame import Evaluate, Frame, spend
from kscheduler.cel.functions import Implementation, Overload
from kscheduler.cel.values import PLAIN, Optional, Value, equal, is_instance, surely_equal, type_of


def guarded(name: str, overloads: tuple[Overload, ...]) -> Implementation:
    """Return a call of the first overload that fits the arguments that come; it fails if none does."""
    candidates = [(each.arguments, each.call) for each in overloads if each.call is not None]

    def call(*arguments: Value) -> Value:
        for expected, implementation in candidates:
            if len(expected) == len(arguments) and all(map(is_instance, expected, arguments)):
                return implementation(*arguments)
        found = ", ".join(type_of(argument).name for argument in arguments)
        raise EvaluationError(f"no such overload: {name}({found})")

    return call


def call_of(call: Implementation, operands: list[Evaluate]) -> Evaluate:
    """Return a call whose costs are not counted."""
    if len(operands) == 1:
        only = operands[0]
        return lambda frame: call(only(frame))
    if len(operands) == 2:
        left, right = operands
        return lambda frame: call(left(frame), right(frame))
    return lambda frame: call(*[operand(frame) for operand in operands])


def charged(evaluate: Evaluate, cost: int) -> Evaluate:
    """Return an operation that costs something even if it fails."""

    def charging(frame: Frame) -> Value:
        try:
            value = evaluate(frame)
        except EvaluationError:
            spend(frame, cost)
            raise
        spend(frame, cost)
        return value

    return charging


def counted_call(
    call: Implementation, operands: list[Evaluate], cost: int | costs.Cost, *, stops_early: bool = False
) -> Evaluate:
    """Return a call that costs something.

    As in cel-go, all operands are evaluated even if one has failed, and the call costs something even then; calls of
    three operands and those that `stops_early` are not made, and free, once an operand has failed, but for the last.
    """
    stops_early = stops_early or len(operands) > 2
    is_late = costs.needs_result(cost)

    def charge(frame: Frame, arguments: list[Value], result: Value) -> None:
        spend(frame, cost if isinstance(cost, int) else cost(arguments, result))

    def counted(frame: Frame) -> Value:
        arguments: list[Value] = []
        fault: EvaluationError | None = None
        for operand in operands:
            if fault is not None and stops_early:
                raise fault
            try:
                arguments.append(operand(frame))
            except EvaluationError as error:
                fault = fault or error
                arguments.append(error)
        if fault is not None:
            charge(frame, arguments, fault)
            raise fault
        if not is_late:
            charge(frame, arguments, None)
            return call(*arguments)
        try:
            result = call(*arguments)
        except EvaluationError as error:
            charge(frame, arguments, error)
            raise
        charge(frame, arguments, result)
        return result

    return counted


def equality(left: Evaluate, right: Evaluate) -> Evaluate:
    """Return == whose costs are not counted."""

    def compare(frame: Frame) -> Value:
        a, b = left(frame), right(frame)
        return a == b if type(a) is type(b) and type(a) in PLAIN else equal(a, b)

    return compare


def unequal(left: Value, right: Value) -> bool:
    return not surely_equal(left, right)


def alternative(optional: Evaluate, otherwise: Evaluate, *, unwrap: bool, checks: bool) -> Evaluate:
    """or and orValue: the other operand is only evaluated if there is no value."""

    def choose(frame: Frame) -> Value:
        value = optional(frame)
        if type(value) is not Optional:
            if checks:
                raise no_such_overload()
            return value
        if value.has_value:
            return value.value if unwrap else value
        return otherwise(frame)

    return choose


def logical(terms: list[Evaluate], *, decisive: bool) -> Evaluate:
    """Return && or ||: the first term with the decisive value decides, even after errors."""

    def decide(frame: Frame) -> Value:
        fault: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as error:
                fault = fault or error
                continue
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                fault = fault or no_such_overload()
        if fault is not None:
            raise fault
        return not decisive

    return decide
