"""What a call costs at run time: the tables of cel-go and of Kubernetes' libraries.

Reading a variable and each step from a value to a part of it cost 1, creating a list 10 and a map 30. `&&`, `||` and
`?:` are free, as are constants. Calls are here; what is not in the tables costs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kscheduler.cel import budget
from kscheduler.cel.faults import Cancelled, EvaluationError
from kscheduler.cel.values import Map, Opaque, Value, go_type_of, size_of

Cost = Callable[[Sequence[Value], Value], int]

LIST_COST, MAP_COST = 10, 30
_TRAVERSAL = 0.1  # of a character
_REGEX = 0.25  # of a character of a pattern


def cost_of(function: str, overload: str, *, has_later_costs: bool = False) -> int | Cost:
    """Return the cost of a call, or what computes it of arguments and result. `overload` is "" if several may fit."""
    if has_later_costs and overload in _LATER:
        return _LATER[overload]
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function) or _BY_STANDARD_OVERLOAD.get(overload) or 1


def _traversal(size: float) -> int:
    return math.ceil(size * _TRAVERSAL)


def _first(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(size_of(arguments[0]))


def _second(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(size_of(arguments[1]))


def _first_twice(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(size_of(arguments[0]) * 2)


def _result_twice(_arguments: Sequence[Value], result: Value) -> int:
    return _traversal(size_of(result) * 2)


def _smaller(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(min(size_of(arguments[0]), size_of(arguments[1])))


def equality(arguments: Sequence[Value], result: Value) -> int:
    """Return the cost of `==`."""
    return 1 if isinstance(arguments[0], Opaque) else _smaller(arguments, result)


def inequality(arguments: Sequence[Value], result: Value) -> int:
    """Return the cost of `!=`."""
    return _smaller(arguments, result)


def _both(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(size_of(arguments[0]) + size_of(arguments[1]))


def needs_result(cost: int | Cost) -> bool:
    """Return whether a cost is known only after the call."""
    return cost is _result_twice or cost is _new_list


def _in_list(arguments: Sequence[Value], _result: Value) -> int:
    return size_of(arguments[1])


def _contains(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(size_of(arguments[0])) * _traversal(size_of(arguments[1]))


def _regex(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(1 + size_of(arguments[0])) * math.ceil(size_of(arguments[1]) * _REGEX)


def _walk(arguments: Sequence[Value], _result: Value) -> int:
    return _walk_value(arguments[0])


def _walk_value(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode()) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        budget.use(len(value))
        return sum(map(_walk_value, value))
    if isinstance(value, Map):
        return sum(_walk_value(key) + _walk_value(value.find(key)[0]) for key in value)
    return 1


def _contains_ip(arguments: Sequence[Value], _result: Value) -> int:
    return _traversal(2 * size_of(arguments[0]))


def _contains_ip_text(arguments: Sequence[Value], result: Value) -> int:
    return _contains_ip(arguments, result) + _traversal(size_of(arguments[1]))


def _contains_cidr(arguments: Sequence[Value], result: Value) -> int:
    return _contains_ip(arguments, result) + _first(arguments, result) + 1


def _contains_cidr_text(arguments: Sequence[Value], result: Value) -> int:
    return _contains_cidr(arguments, result) + _traversal(size_of(arguments[1]))


def _validate(arguments: Sequence[Value], _result: Value) -> int:
    pattern = getattr(arguments[0], "pattern_size", 0)
    return _traversal(1 + size_of(arguments[1])) * math.ceil(pattern * _REGEX)


# --- libraries with a cost of their own -----------------------------------------------------------------------------


def _allocated(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


def _sets(factor: int) -> Cost:
    def cost(arguments: Sequence[Value], _result: Value) -> int:
        return 1 + size_of(arguments[0]) * size_of(arguments[1]) * factor

    return cost


def _new_list(_arguments: Sequence[Value], result: Value) -> int:
    return _allocated(1, size_of(result))


def _flatten(arguments: Sequence[Value], _result: Value) -> int:
    depth = int(arguments[1]) if len(arguments) == 2 else 1
    return _allocated(depth, size_of(arguments[0]))


def _compared_with_itself(index: int) -> Cost:
    def cost(arguments: Sequence[Value], _result: Value) -> int:
        elements = arguments[index]
        if not isinstance(elements, list):
            raise Cancelled(_not_a_list(elements))
        factor = 2.0
        if elements and isinstance(elements[0], str | bytes):
            factor += _TRAVERSAL
        return _allocated(factor, len(elements) ** 2)

    return cost


# Types that, of all that Go wants of a list, have a method to add.
_ADDED = (int, str, float, bytes)


def _not_a_list(value: Value) -> str:
    """Return the words of the panic that ends an evaluation in Go when the costs of such a call are computed."""
    name = "*types.Err" if isinstance(value, EvaluationError) else go_type_of(value)
    has_add = isinstance(value, _ADDED) and not isinstance(value, bool)
    has_add = has_add or name in ("types.Duration", "types.Timestamp")
    missing = "Contains" if has_add else "Add"
    return f"internal error: interface conversion: {name} is not traits.Lister: missing method {missing}"


_SORTED = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes")


def _one(_arguments: Sequence[Value], _result: Value) -> int:
    return 1


_BY_OVERLOAD: dict[str, Cost] = {
    "cidr_ip": _one,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_cidr_string": _contains_cidr_text,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _new_list,
    "lists_range": _new_list,
    "list_reverse": _new_list,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _compared_with_itself(0),
    **{f"list_{name}_sort": _compared_with_itself(0) for name in _SORTED},
    **{f"list_{name}_sortByAssociatedKeys": _compared_with_itself(1) for name in _SORTED},
}


_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("replace", "split"), _first_twice),
    "join": _result_twice,
    **dict.fromkeys(("find", "findAll"), _regex),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _first),
    "ip": _first,
    "ip.isCanonical": _first_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first),
    "validate": _validate,
}
_LATER: dict[str, Cost] = {"starts_with_string": _second, "ends_with_string": _second, "matches": _regex}
_INCLUDES = {"list_includes_dyn_dyn": _walk}  # in releases whose list library has `includes`

_COMPARED = ("less", "greater", "less_equals", "greater_equals")
_BY_STANDARD_OVERLOAD: dict[str, Cost] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _first),
    **dict.fromkeys(("strings_quote", "string_format"), _first),
    "in_list": _in_list,
    **{f"{name}_{type_}": _smaller for name in _COMPARED for type_ in ("string", "bytes")},
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "matches_string": _regex,
    "contains_string": _contains,
    **_INCLUDES,
}
