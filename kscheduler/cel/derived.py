"""Attributes that requests derive from devices: which types an expression can have, and the attribute that it gives."""

from __future__ import annotations

from kscheduler.api.devices import DeviceAttribute
from kscheduler.cel import types
from kscheduler.cel.environment import Environment
from kscheduler.cel.faults import EvaluationError
from kscheduler.cel.library.semvers import Semver
from kscheduler.cel.types import Type
from kscheduler.cel.values import Optional, Uint, Value, go_type_of

_SCALARS = frozenset({types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, types.SEMVER})

# As Go prints the types of what is in values.
_GO_TYPES: dict[type, str] = {
    type(None): "structpb.NullValue",
    bool: "bool",
    int: "int64",
    Uint: "uint64",
    float: "float64",
    str: "string",
    bytes: "[]uint8",
    Semver: "semver.Version",
}
_OF_ELEMENTS = {bool: "bool", int: "int", str: "string", Semver: "semver"}  # as errors name them


def fault_of_derived(result: Type, environment: Environment) -> str:
    """Return why an expression of a type cannot be a derived attribute, "" if it can."""
    if result in _SCALARS or (result.kind is types.Kind.LIST and result.parameters[0] in _SCALARS):
        return ""
    return (
        "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
        f"not {result}"
    )


def attribute_of(value: Value) -> DeviceAttribute:
    """Return the attribute that has a value. Raises EvaluationError for values that no attribute has."""
    if isinstance(value, list):
        return _list_attribute([_content(element) for element in value])
    value = _content(value)
    if type(value) is bool:
        return DeviceAttribute(bool_value=value)
    if type(value) is int:
        return DeviceAttribute(int_value=value)
    if type(value) is str:
        return DeviceAttribute(string=value)
    if type(value) is Semver:
        return DeviceAttribute(version=str(value))
    raise EvaluationError(f"unsupported CEL return type: {_go_type(value)}")


def _list_attribute(values: list[Value]) -> DeviceAttribute:
    if not values:
        return DeviceAttribute(strings=[])
    kind = type(values[0])
    name = _OF_ELEMENTS.get(kind)
    if name is None:
        raise EvaluationError(f"unsupported list element type: {_go_type(values[0])}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            raise EvaluationError(f"expected list element at index {index} to be {name}, got {_go_type(value)}")
    if kind is bool:
        return DeviceAttribute(bools=values)
    if kind is int:
        return DeviceAttribute(ints=values)
    if kind is str:
        return DeviceAttribute(strings=values)
    return DeviceAttribute(versions=[str(value) for value in values])


def _content(value: Value) -> Value:
    """Return what Go has in a value: in an optional what is in it, in a type its name."""
    while type(value) is Optional and value.has_value and not isinstance(value.value, list):
        value = value.value
    return value.name if type(value) is Type else value


def _go_type(value: Value) -> str:
    if type(value) is Optional:
        return _go_type(value.value) if value.has_value else "<nil>"
    if isinstance(value, list) and value:  # of a device's attribute, most likely; a list of an expression is []ref.Val
        return f"[]{'cel.Semver' if type(value[0]) is Semver else _go_type(value[0])}"
    return _GO_TYPES.get(type(value)) or go_type_of(value)
