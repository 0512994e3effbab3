"""Functions of optional values. `or` and `orValue` are evaluated by the planner."""

from __future__ import annotations

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.library.times import Duration, Timestamp
from kscheduler.cel.types import BOOL, list_of, optional_of, parameter
from kscheduler.cel.values import NONE, Map, Optional, Value, shown


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if isinstance(value, bool | int | float):
        return value == 0
    if isinstance(value, str | bytes | list | Map):
        return len(value) == 0
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    return isinstance(value, Timestamp) and str(value) == "0001-01-01T00:00:00Z"


def _first(values: list[Value]) -> Optional:
    return Optional(values[0]) if values else NONE


def _last(values: list[Value]) -> Optional:
    return Optional(values[-1]) if values else NONE


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if type(value) is not Optional:
            raise EvaluationError(f"value {shown(value)} is not optional")
    return [value.value for value in values if value.has_value]


def _not_called(*_arguments: Value) -> Value:
    raise no_such_overload()


_V = parameter("V")
_OPTIONAL, _LIST, _OPTIONALS = optional_of(_V), list_of(_V), list_of(optional_of(_V))

FUNCTIONS = (
    Function("optional.of", (overload("optional_of", (_V,), _OPTIONAL, Optional),)),
    Function("optional.ofNonZeroValue", (overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, _of_non_zero),)),
    Function("optional.none", (overload("optional_none", (), _OPTIONAL, lambda: NONE),)),
    Function("value", (method("optional_value", (_OPTIONAL,), _V, lambda optional: optional.value),)),
    Function("hasValue", (method("optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: optional.has_value),)),
    Function("or", (method("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, _not_called),)),
    Function("orValue", (method("optional_orValue_value", (_OPTIONAL, _V), _V, _not_called),)),
    Function("first", (method("list_first", (_LIST,), _OPTIONAL, _first),)),
    Function("last", (method("list_last", (_LIST,), _OPTIONAL, _last),)),
    Function("optional.unwrap", (overload("optional_unwrap", (_OPTIONALS,), _LIST, _unwrap),)),
    Function("unwrapOpt", (method("optional_unwrapOpt", (_OPTIONALS,), _LIST, _unwrap),)),
)
