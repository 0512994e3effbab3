"""What a planned loop and its variables do when they are evaluated.

A loop (a comprehension in CEL) has slots in the frame: what it accumulates, and one or two variables. A step that fails
does not end the loop: the error is what it has accumulated, until a later step replaces it or it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Final

from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.frame import Evaluate, Frame
from kscheduler.cel.values import Accumulator, Map, MapAccumulator, Value, go_type_of

_UNSET: Final = object()  # in the slot of what a loop accumulates, until it is first read


def variable(slot: int, start: Evaluate | None) -> Evaluate:
    """Return what reads a variable. What a loop accumulates is only started when it is read first."""

    def read_element(frame: Frame) -> Value:
        return frame[slot]

    def read_accumulated(frame: Frame) -> Value:
        value = frame[slot]
        if value is _UNSET and start is not None:
            try:
                value = start(frame)
            except EvaluationError as error:
                value = error
            frame[slot] = value
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read_element if start is None else read_accumulated


def accumulating(start: Evaluate) -> Evaluate:
    """Return what starts an accumulator: in place of an empty list or map one that can grow."""

    def begin(frame: Frame) -> Value:
        value = start(frame)
        if isinstance(value, list) and not value:
            return Accumulator()
        if isinstance(value, Map) and not value:
            return MapAccumulator({})
        return value

    return begin


def loop(
    range_: Evaluate,
    slots: tuple[int, int, int],
    test: Evaluate | None,
    step: Evaluate,
    result: Evaluate,
    *,
    has_two_variables: bool,
) -> Evaluate:
    """Return a loop over the elements of a list, or the keys of a map; the third slot is not read.

    `has_two_variables`: over index and element of a list, or key and value of a map.
    """
    accumulated, first, second = slots

    def run(frame: Frame) -> Value:
        elements = range_(frame)
        pairs: Iterable[tuple[Value, Value]]
        if not has_two_variables:
            if not isinstance(elements, list | Map):
                raise EvaluationError(f"got '{go_type_of(elements)}', expected iterable type")
            pairs = zip(elements, repeat(None), strict=False)  # calls no function for an element
        elif isinstance(elements, list):
            pairs = list(enumerate(elements))
        elif isinstance(elements, Map):
            pairs = [(key, Map.find(elements, key)[0]) for key in elements]
        else:
            raise EvaluationError(f"unsupported comprehension range type: {go_type_of(elements)}")
        frame[accumulated] = _UNSET
        for frame[first], frame[second] in pairs:
            if test is not None and not _goes_on(test, frame):
                break
            try:
                frame[accumulated] = step(frame)
            except EvaluationError as error:
                frame[accumulated] = error
        return _finished(result(frame))

    return run


def _finished(value: Value) -> Value:
    """Return a result that no loop changes any more."""
    if type(value) is Accumulator:
        return list(value)
    if type(value) is MapAccumulator:
        return Map(dict(value.entries))
    return value


def _goes_on(test: Evaluate, frame: Frame) -> bool:
    try:
        return test(frame) is not False
    except EvaluationError:
        return True
