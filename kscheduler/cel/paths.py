"""Reads parts of values: fields and keys of maps, elements of lists, each perhaps optional.

A path starts at a value and takes steps. Where a step is optional, the rest of the path is, too, and the result is an
optional value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.frame import Evaluate, Frame, spend
from kscheduler.cel.values import NONE, Map, Optional, Uint, Value, go_type_of, shown, type_of

_KEYS = frozenset({str, bool, int, Uint, float})


class Step(NamedTuple):
    """A step of a path. Its key is known, or computed in each evaluation."""

    key: Value
    compute: Evaluate | None = None
    is_optional: bool = False
    is_test: bool = False  # only whether there is something is asked; it is the last step


class Path:
    """Where a value is read: from a source, or from the one or the other path."""

    __slots__ = ("branches", "is_device", "source", "steps")

    def __init__(self, source: Evaluate, branches: tuple[Path, Path] | None = None, *, is_device: bool = False) -> None:
        self.source = source  # of a path with branches: the condition
        self.branches = branches
        self.is_device = is_device  # the source is the variable `device`
        self.steps: list[Step] = []

    def take(self, step: Step) -> None:
        """Append a step, in both branches if there are branches."""
        if self.branches is None:
            self.steps.append(step)
        else:
            for branch in self.branches:
                branch.take(step)


def resolver(path: Path, *, counted: bool) -> Evaluate:
    """Return what reads the path's value. `counted`: each step costs 1."""
    if path.branches is not None:
        first, second = (resolver(branch, counted=counted) for branch in path.branches)
        return _choice(path.source, first, second)
    if not path.steps:
        return path.source
    names = [step.key for step in path.steps if step.compute is None and not step.is_optional and not step.is_test]
    if not counted and path.is_device and len(names) == len(path.steps):
        quick = _device_reader(names)
        if quick is not None:
            return quick
    return _walk(path.source, tuple(path.steps), counted=counted)


def _choice(condition: Evaluate, first: Evaluate, second: Evaluate) -> Evaluate:
    def choose(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            return first(frame)
        if chosen is False:
            return second(frame)
        raise no_such_overload()

    return choose


def _device_reader(names: list[Any]) -> Evaluate | None:
    """Return the reader of device.FIELD or device.attributes[DOMAIN].ID, the paths of nearly all selectors."""
    if len(names) == 1 and names[0] in ("driver", "allowMultipleAllocations"):
        field = names[0]
        return lambda frame: frame[0].entries[field]
    if len(names) == 3 and names[0] in ("attributes", "capacity") and all(isinstance(name, str) for name in names):
        field, domain, key = names

        def read(frame: Frame) -> Value:
            try:
                return frame[0].entries[field].entries[domain].entries[key]
            except KeyError:
                raise EvaluationError(f"no such key: {key}") from None

        return read
    return None


def _walk(source: Evaluate, steps: tuple[Step, ...], *, counted: bool) -> Evaluate:
    def walk(frame: Frame) -> Value:
        value = source(frame)
        optional = type(value) is Optional
        if optional:
            if not value.has_value:
                return value
            value = value.value
        for key, compute, is_optional, is_test in steps:
            optional = optional or is_optional
            if compute is not None:
                key = compute(frame)
                if type(key) not in _KEYS:
                    raise EvaluationError(f"invalid qualifier type: {go_type_of(key)}")
            if is_test and not optional:
                value, is_present = _part_if_present(value, key)[1], True
            elif optional:
                value, is_present = _part_if_present(value, key)
            else:
                if counted:
                    spend(frame, 1)
                value = _part(value, key)
                continue
            if counted and (is_present or is_test):
                spend(frame, 1)
            if not is_present:
                return NONE
        return Optional(value) if optional else value

    return walk


def _part(value: Value, key: Value) -> Value:
    """Return what is at a key. Raises EvaluationError if nothing is."""
    if isinstance(value, Map):
        part, found = value.find(key)
        if found:
            return part
    elif isinstance(value, list):
        index = index_of(key)
        if 0 <= index < len(value):
            return value[index]
        raise EvaluationError(f"index out of bounds: {shown(key)}")
    raise EvaluationError(f"no such key: {shown(key)}")


def _part_if_present(value: Value, key: Value) -> tuple[Value, bool]:
    """Return what is at a key, and whether anything is. Raises EvaluationError if the key is no index of a list."""
    if isinstance(value, Map):
        return value.find(key)
    if isinstance(value, list):
        index = index_of(key)
        return (value[index], True) if 0 <= index < len(value) else (None, False)
    return None, False


def index_of(key: Value) -> int:
    """Return the index that a number is. Raises EvaluationError if it is none."""
    if type(key) is int:
        return key
    if type(key) is Uint and key < 1 << 63:
        return int(key)
    if type(key) is float and key.is_integer() and abs(key) < 1 << 63:
        return int(key)
    if type(key) in (float, Uint):
        raise EvaluationError(f"unsupported index value {shown(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_of(key)}' in list")
