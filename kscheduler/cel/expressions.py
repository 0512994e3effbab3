"""Compiled CEL expressions about devices: selectors, which a device matches or not, and derived attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kscheduler.api.devices import DeviceAttribute
from kscheduler.cel import budget, types
from kscheduler.cel.checker import Checker
from kscheduler.cel.derived import attribute_of, fault_of_derived
from kscheduler.cel.device import prepare
from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.environment import KUBERNETES_1_36, TYPE_NAMES, Environment
from kscheduler.cel.faults import Cancelled, CompileError, EvaluationError, SelectorError
from kscheduler.cel.frame import COST, DEVICE, MAX_COST, Evaluate, Frame
from kscheduler.cel.parser import parse
from kscheduler.cel.planner import Planner
from kscheduler.cel.reads import key_of_reads
from kscheduler.cel.source import Source
from kscheduler.cel.tree import Call, Comprehension, ListLiteral, Literal, Node, children, descendants
from kscheduler.cel.validators import validate
from kscheduler.cel.values import Optional, Value, go_type_of, type_of

MAX_ANSWERS = 256  # that a selector keeps; of devices that share none it keeps none any more

_USUAL_TEXT = 4096  # characters; devices with longer texts have their costs counted
_DEEP = 100  # from this depth of a tree on, more stack is asked for
_STACK = 50_000

# Functions whose results can be longer than their arguments, or whose cost grows with the square of them.
_GROWING = frozenset(
    {
        "replace", "join", "format", "strings.quote", "split", "find", "findAll", "contains", "_+_", "lists.range",
        "flatten", "sort", "@sortByAssociatedKeys", "distinct", "sets.contains", "sets.equivalent", "sets.intersects",
        "cel.@mapInsert", "getQuery", "validate", "slice", "reverse", "string", "url", "isSorted", "sum", "max", "min",
        "indexOf", "lastIndexOf", "includes",
    }
)  # fmt: skip


_ResultFault = Callable[[types.Type, Environment], str]  # words about a type that an expression cannot have, or ""


class _Expression:
    """One compiled expression about a device."""

    __slots__ = (
        "_counted",
        "_counted_slots",
        "_has_lists",
        "_is_cheap",
        "_is_deep",
        "_planner_input",
        "_quick",
        "_quick_slots",
        "expression",
    )

    def __init__(self, expression: str, environment: Environment, result_fault: _ResultFault) -> None:
        """Compile an expression. Raises SelectorError, also if `result_fault` has words about its type."""
        self.expression = expression
        self._has_lists = environment.has_list_attributes
        try:
            with _stack(len(expression) > _DEEP):
                root = _checked(expression, environment)
                if fault := result_fault(root.type, environment):
                    raise CompileError(fault)
                self._is_deep = _depth(root) > _DEEP
                self._planner_input = (root, environment)
                self._quick, self._quick_slots = self._plan(counted=False)
                self._is_cheap = _is_cheap(root)
                self._counted, self._counted_slots = (self._quick, 0) if self._is_cheap else self._plan(counted=True)
        except CompileError as error:
            raise SelectorError(str(error)) from None

    def _evaluate(self, device: DeviceView, *, count: bool = False) -> tuple[Value, int]:
        """Return the value for a device, and with `count` what that cost. Raises SelectorError."""
        try:
            prepared = prepare(device, has_lists=self._has_lists)
            count = count or prepared.longest > _USUAL_TEXT or not self._is_cheap
            evaluate, slots = (self._quick, self._quick_slots) if not count else self._counting()
            frame: Frame = [None] * slots
            frame[DEVICE], frame[COST] = prepared.value, 0
            budget.renew()
            if self._is_deep:
                with _stack(True):
                    result = evaluate(frame)
            else:
                result = evaluate(frame)
        except (EvaluationError, Cancelled) as error:
            raise SelectorError(str(error)) from None
        except Exception as error:  # a fault of ours, or no stack or memory is left: cel-go recovers from panics, too
            raise SelectorError(f"internal error: {type(error).__name__}: {error}") from error
        return result, frame[COST]

    def _counting(self) -> tuple[Evaluate, int]:
        if self._counted is self._quick:
            with _stack(self._is_deep):
                self._counted, self._counted_slots = self._plan(counted=True)
        return self._counted, self._counted_slots

    def _plan(self, *, counted: bool) -> tuple[Evaluate, int]:
        root, environment = self._planner_input
        planner = Planner(environment, counted=counted)
        return planner.plan(root), planner.slots


class Selector(_Expression):
    """An expression that a device matches or not."""

    __slots__ = ("_answers", "_is_quick", "_key_of", "_shared")

    def __init__(self, expression: str, environment: Environment = KUBERNETES_1_36) -> None:
        """Compile an expression. Raises SelectorError."""
        super().__init__(expression, environment, _fault_of_selector)
        self._is_quick = self._is_cheap and not self._is_deep
        # Answers for devices by what the expression reads of them; None: it is evaluated for each device.
        self._answers: dict[bytes, bool] | None = {} if self._is_quick else None
        self._shared = 0  # how often an answer was found there
        self._key_of = key_of_reads(self._planner_input[0])

    def matches(self, device: DeviceView) -> bool:
        """Return whether a device matches. Raises SelectorError if the expression fails for it."""
        answers = self._answers
        if answers is None:
            return self._matches(device)
        try:
            key = self._key_of(device)
        except (OverflowError, UnicodeEncodeError):  # a number or text that no apiserver stores
            return self._matches(device)
        answer = answers.get(key)
        if answer is not None:
            self._shared += 1
            return answer
        answer = self._matches(device)
        if len(answers) >= MAX_ANSWERS:
            if self._shared < MAX_ANSWERS:  # devices differ in what the expression reads
                self._answers = None
                return answer
            answers.clear()
            self._shared = 0
        answers[key] = answer
        return answer

    def _matches(self, device: DeviceView) -> bool:
        prepared = device.prepared[self._has_lists]
        if prepared is None or not self._is_quick or prepared.longest > _USUAL_TEXT:
            return self.evaluate(device)[0]
        frame: Frame = [None] * self._quick_slots
        frame[DEVICE] = prepared.value
        budget.renew()
        try:
            result = self._quick(frame)
        except (EvaluationError, Cancelled) as error:
            raise SelectorError(str(error)) from None
        except Exception as error:  # a fault of ours, or no stack or memory is left: cel-go recovers from panics, too
            raise SelectorError(f"internal error: {type(error).__name__}: {error}") from error
        return result if result is True or result is False else _to_bool(result)

    def evaluate(self, device: DeviceView, *, count: bool = False) -> tuple[bool, int]:
        """Return whether a device matches, and with `count` what that cost. Raises SelectorError."""
        result, cost = self._evaluate(device, count=count)
        return result if result is True or result is False else _to_bool(result), cost


class DerivedAttribute(_Expression):
    """An expression whose value counts as an attribute of the device."""

    __slots__ = ()

    def __init__(self, expression: str, environment: Environment) -> None:
        """Compile an expression. Raises SelectorError."""
        super().__init__(expression, environment, fault_of_derived)

    def value(self, device: DeviceView) -> DeviceAttribute:
        """Return the attribute of a device. Raises SelectorError if the expression fails for it."""
        try:
            return attribute_of(self._evaluate(device)[0])
        except EvaluationError as error:
            raise SelectorError(str(error)) from None


# --- compiling ------------------------------------------------------------------------------------------------------


def _checked(expression: str, environment: Environment) -> Node:
    source = Source(expression)
    try:
        root = parse(source)
        checker = Checker(source, environment.variables, TYPE_NAMES, environment.functions, environment.fields)
        checker.check(root)
        if not source.has_faults:
            validate(source, root)
        if source.has_faults:
            raise CompileError(source.faults())
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    return root


def _fault_of_selector(result: types.Type, environment: Environment) -> str:
    if result in (types.BOOL, environment.attribute):
        return ""
    return f"must evaluate to {types.BOOL} or the unknown type, not {result}"


def _depth(root: Node) -> int:
    """Return how deep a tree is, at most; every node of a macro counts."""
    depth, level = 0, [root]
    while level:
        depth += 1
        level = [part for node in level for part in children(node)]
    return depth


def _is_cheap(root: Node) -> bool:
    """Return whether evaluating an expression is certain to cost less than the limit.

    Without loops and without functions that make texts longer, no operation works on a text or list that is longer
    than what the expression and the device contain.
    """
    nodes = descendants(root)
    longest, patterns = _USUAL_TEXT, 0
    for node in nodes:
        if isinstance(node, Comprehension) and not (isinstance(node.range, ListLiteral) and not node.range.elements):
            return False
        if isinstance(node, Call):
            if node.function in _GROWING:
                return False
            patterns += node.function == "matches"
        elif isinstance(node, Literal) and isinstance(node.value, str | bytes):
            longest = max(longest, len(node.value))
    each = 2 + longest // 10 + len(nodes)
    return len(nodes) * each + patterns * (longest // 10 + 1) * (longest // 4 + 1) < MAX_COST


_UNCONVERTIBLE = {
    types.Kind.INT: "unsupported type conversion from 'int' to bool",
    types.Kind.UINT: "unsupported type conversion from 'uint' to bool",
    types.Kind.STRING: "unsupported native conversion from string to 'bool'",
    types.Kind.DOUBLE: "type conversion error from Double to 'bool'",
    types.Kind.BYTES: "type conversion error from Bytes to 'bool'",
    types.Kind.LIST: "type conversion error from list to 'bool'",
    types.Kind.MAP: "type conversion error from map to 'bool'",
    types.Kind.NULL: "type conversion error from 'null_type' to 'bool'",
    types.Kind.TYPE: "type conversion not supported for 'type'",
}


def _to_bool(result: object) -> bool:
    """Return a result, or what is in it if it is an optional. Raises SelectorError if that is no boolean."""
    value = result
    while type(value) is Optional and value.has_value:
        value = value.value
    if isinstance(value, bool):
        return value
    if type(value) is Optional:
        words = "optional.none() dereference"
    else:
        words = _UNCONVERTIBLE.get(type_of(value).kind) or (
            f"type conversion error from '{go_type_of(value).partition('.')[2]}' to 'bool'"
        )
    raise SelectorError(f"CEL result of type {type_of(result).name} could not be converted to bool: {words}")


@contextmanager
def _stack(is_needed: bool) -> Iterator[None]:
    """Allow deep recursion for a while: an expression of 10 KiB can be nested a thousand levels deep."""
    limit = sys.getrecursionlimit()
    if not is_needed or limit >= _STACK:
        yield
        return
    sys.setrecursionlimit(_STACK)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
