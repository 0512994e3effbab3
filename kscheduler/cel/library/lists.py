"""Functions of lists: Kubernetes' and those of cel-go's extension, version 3; `sets`; and the inserts of map macros."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from kscheduler.cel.faults import EvaluationError, no_such_overload
from kscheduler.cel.frame import MAX_COST
from kscheduler.cel.faults import COST_EXCEEDED, Cancelled
from kscheduler.cel.functions import Function, method, overload
from kscheduler.cel.library.operators import FUNCTIONS as OPERATORS
from kscheduler.cel.library.times import Duration
from kscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    list_of,
    map_of,
    parameter,
)
from kscheduler.cel.values import (
    Map,
    MapAccumulator,
    Uint,
    Value,
    compare,
    is_ordered,
    key_of,
    shown,
    surely_equal,
    type_of,
)

MAX_ATTRIBUTE_VALUES = 32  # resource.k8s.io: ResourceSliceMaxAttributeValuesPerDevice
MAX_RANGE = 1_000_000

_COMPARABLE = {
    "int": INT,
    "uint": UINT,
    "double": DOUBLE,
    "bool": BOOL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "string": STRING,
    "bytes": BYTES,
}
_ZERO: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_add = next(function.call for function in OPERATORS if function.name == "_+_")


# --- Kubernetes -----------------------------------------------------------------------------------------------------


def _is_sorted(values: list[Value]) -> bool:
    for value in values:
        if not is_ordered(value):
            raise no_such_overload()
    return all(_order_or_none(a, b) != 1 for a, b in zip(values, values[1:], strict=False))


def _order_or_none(left: Value, right: Value) -> int | None:
    try:
        return compare(left, right)
    except EvaluationError:
        return None


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        assert _add is not None
        return functools.reduce(_add, values, zero)

    return total


def _extreme(name: str, replaced_if: int) -> Callable[[list[Value]], Value]:
    def find(values: list[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values:
            if not is_ordered(value):
                raise no_such_overload()
            if _order_or_none(best, value) == replaced_if:
                best = value
        return best

    return find


def _index_of(values: list[Value], item: Value) -> int:
    return next((index for index, value in enumerate(values) if surely_equal(value, item)), -1)


def _last_index_of(values: list[Value], item: Value) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if surely_equal(values[index], item)), -1)


def _includes(target: Value, item: Value) -> bool:
    if isinstance(target, list):
        return any(surely_equal(value, item) for value in target)
    return surely_equal(target, item)


def _includes_few(target: Value, item: Value) -> bool:
    if not isinstance(target, list):
        return surely_equal(target, item)
    for index, value in enumerate(target):
        if index >= MAX_ATTRIBUTE_VALUES:
            raise EvaluationError(
                f"'includes' function cannot be applied to lists longer than {MAX_ATTRIBUTE_VALUES} values"
            )
        if surely_equal(value, item):
            return True
    return False


# --- cel-go's extension ---------------------------------------------------------------------------------------------


def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Value, depth: Value = 1) -> list[Value]:
    if not isinstance(values, list):
        raise EvaluationError(f"no such overload: {type_of(values)}.flatten()")
    if type(depth) is not int:
        raise EvaluationError(f"no such overload: {type_of(values)}.flatten({type_of(depth)})")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            flat.extend(_flatten(value, depth - 1))
        else:
            flat.append(value)
    return flat


def _sort(values: list[Value]) -> list[Value]:
    return _sort_by(values, values)


def _sort_by(values: list[Value], keys: list[Value]) -> list[Value]:
    if not isinstance(values, list):
        raise EvaluationError("no such overload: @sortByAssociatedKeys")
    if not isinstance(keys, list) or len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if not is_ordered(keys[0]):
        raise EvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = functools.cmp_to_key(lambda a, b: _order_or_none(keys[a], keys[b]) or 0)
    return [values[index] for index in sorted(range(len(keys)), key=order)]


def _range_unlimited(count: int) -> list[int]:
    # A longer list would cost more than a selector may cost.
    if count > MAX_COST:
        raise Cancelled(COST_EXCEEDED)
    return list(range(count))


def _range(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not any(surely_equal(value, other) for other in unique):
            unique.append(value)
    return unique


# --- sets -----------------------------------------------------------------------------------------------------------


def _in(value: Value, values: Iterable[Value]) -> bool:
    return any(surely_equal(value, other) for other in values)


def _set_contains(values: list[Value], parts: list[Value]) -> bool:
    return all(_in(part, values) for part in parts)


def _set_equivalent(left: list[Value], right: list[Value]) -> bool:
    return _set_contains(left, right) and _set_contains(right, left)


def _set_intersects(left: list[Value], right: list[Value]) -> bool:
    return any(_in(value, right) for value in left)


# --- macros of maps -------------------------------------------------------------------------------------------------


def _insert(target: Map, key: Value, value: Value) -> Map:
    if Map.find(target, key)[1]:
        raise EvaluationError(f"insert failed: key {shown(key)} already exists")
    if type(target) is MapAccumulator:
        target.entries[key_of(key)] = value
        return target
    return Map({**target.entries, key_of(key): value})


def _insert_all(target: Map, more: Map) -> Map:
    for key in more:
        target = _insert(target, key, Map.find(more, key)[0])
    return target


_T, _A = parameter("T"), parameter("A")
_LIST = list_of(_T)
_MAP = map_of(parameter("K"), parameter("V"))

FUNCTIONS = (
    Function(
        "isSorted",
        tuple(
            method(f"list_{name}_is_sorted_bool", (list_of(each),), BOOL, _is_sorted)
            for name, each in _COMPARABLE.items()
        ),
    ),
    Function(
        "sum",
        tuple(
            method(f"list_{name}_sum_{name}", (list_of(_COMPARABLE[name]),), _COMPARABLE[name], _sum(zero))
            for name, zero in _ZERO.items()
        ),
    ),
    *(
        Function(
            function,
            tuple(
                method(f"list_{name}_{function}_{name}", (list_of(each),), each, _extreme(function, replaced_if))
                for name, each in _COMPARABLE.items()
            ),
        )
        for function, replaced_if in (("max", -1), ("min", 1))
    ),
    Function("indexOf", (method("list_a_index_of_int", (list_of(_A), _A), INT, _index_of),)),
    Function("lastIndexOf", (method("list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of),)),
    Function("slice", (method("list_slice", (_LIST, INT, INT), _LIST, _slice),)),
    Function(
        "flatten",
        (
            method("list_flatten", (list_of(_LIST),), _LIST, _flatten),
            method("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten),
        ),
        unchecked=True,
    ),
    Function(
        "sort",
        tuple(method(f"list_{each.name}_sort", (list_of(each),), list_of(each)) for each in _COMPARABLE.values()),
        _sort,
    ),
    Function(
        "@sortByAssociatedKeys",
        tuple(
            method(f"list_{each.name}_sortByAssociatedKeys", (_LIST, list_of(each)), _LIST)
            for each in _COMPARABLE.values()
        ),
        _sort_by,
    ),
    Function("reverse", (method("list_reverse", (_LIST,), _LIST, lambda values: values[::-1]),)),
    Function("distinct", (method("list_distinct", (_LIST,), _LIST, _distinct),)),
    Function("sets.contains", (overload("list_sets_contains_list", (_LIST, _LIST), BOOL, _set_contains),)),
    Function("sets.equivalent", (overload("list_sets_equivalent_list", (_LIST, _LIST), BOOL, _set_equivalent),)),
    Function("sets.intersects", (overload("list_sets_intersects_list", (_LIST, _LIST), BOOL, _set_intersects),)),
    Function(
        "cel.@mapInsert",
        (
            overload("@mapInsert_map_key_value", (_MAP, parameter("K"), parameter("V")), _MAP, _insert),
            overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
        ),
    ),
)
UNLIMITED_RANGE = Function("lists.range", (overload("lists_range", (INT,), list_of(INT), _range_unlimited),))
LIMITED_RANGE = Function("lists.range", (overload("lists_range", (INT,), list_of(INT), _range),))
INCLUDES_FEW = Function("includes", (method("dra_includes_dyn_dyn", (DYN, DYN), BOOL, _includes_few),))
INCLUDES = Function("includes", (method("list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes),))
