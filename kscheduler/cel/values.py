"""CEL's values at run time.

Most are Python's own: None, bool, int (64 bits), float, str, bytes, list and type objects. The rest are classes of this
module, and those of `library`. Values are never changed, except for the accumulators of loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

from kscheduler.cel import budget, types
from kscheduler.cel.faults import Cancelled, EvaluationError, no_such_overload
from kscheduler.cel.gofmt import format_float

Value: TypeAlias = Any

MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1
MAX_UINT64 = (1 << 64) - 1


class Uint(int):
    """An unsigned integer. As a key of a map it is the same as the int."""

    __slots__ = ()


class Opaque:
    """A value of a type that Kubernetes adds. Subclasses set `cel_type`, what `same` compares and what `%v` prints."""

    __slots__ = ()
    cel_type: types.Type
    go_type: str
    hashable = True  # whether Go can use it as a key of a map

    def same(self, other: Value) -> bool:
        """Return whether two values are equal. Raises EvaluationError if they cannot be compared."""
        raise NotImplementedError


class Optional:
    """A value that may be absent."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @property
    def has_value(self) -> bool:
        return self._value is not _ABSENT

    @property
    def value(self) -> Value:
        if self._value is _ABSENT:
            raise EvaluationError("optional.none() dereference")
        return self._value


_ABSENT: Final = object()
NONE: Final = Optional(_ABSENT)


class Map:
    """A map. Keys that are numbers are equal across their types, as far as no precision is lost; booleans are not."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[Any, Value]) -> None:
        self.entries = entries  # by `key_of`

    def find(self, key: Value) -> tuple[Value, bool]:
        """Return the value of a key, and whether there is one."""
        if type(key) not in _KEYS:
            self._refuse(key)
            return None, False
        value = self.entries.get(key_of(key), _ABSENT)
        return (None, False) if value is _ABSENT else (value, True)

    def _refuse(self, key: Value) -> None:
        """Fail as Go does if it cannot even look for such a key."""
        if self.entries:
            check_hashable(key)

    def __contains__(self, key: Value) -> bool:
        return Map.find(self, key)[1]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Value]:
        return iter([key_back(key) for key in self.entries])


class DeviceMap(Map):
    """A map of the device, in which only texts are looked for."""

    __slots__ = ()

    def _refuse(self, key: Value) -> None:
        pass


class MapWithDefault(DeviceMap):
    """A map in which every key is found; what is not there is empty."""

    __slots__ = ()

    def find(self, key: Value) -> tuple[Value, bool]:
        value, found = super().find(key)
        return (value, True) if found else (EMPTY_MAP, True)


class Accumulator(list[Value]):
    """A list that a loop appends to."""

    __slots__ = ()


class MapAccumulator(Map):
    """A map that a loop inserts into."""

    __slots__ = ()


class _BoolKey:
    """Stands for a boolean among the keys of a map, where True must not be 1."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


PLAIN = frozenset({str, bool, int, Uint, float, bytes})  # two values of one of these types are equal as in Python
_KEYS = frozenset({str, bool, int, Uint, float, type(None)})
_TRUE_KEY, _FALSE_KEY = _BoolKey(True), _BoolKey(False)
EMPTY_MAP: Final = Map({})


def check_hashable(value: Value) -> None:
    """Fail as Go does if it cannot use a value as a key: it gives up the evaluation."""
    if isinstance(value, bytes) or (isinstance(value, Opaque) and not value.hashable):
        raise Cancelled(f"internal error: runtime error: hash of unhashable type {go_type_of(value)}")


def key_of(value: Value) -> Any:
    """Return what stands for a value among the keys of a map."""
    if value is True:
        return _TRUE_KEY
    if value is False:
        return _FALSE_KEY
    return value


def key_back(key: Any) -> Value:
    """Return the value that a key of a map stands for."""
    return key.value if type(key) is _BoolKey else key


# --- types ----------------------------------------------------------------------------------------------------------

_TYPES: dict[type, types.Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: types.LIST,
    Accumulator: types.LIST,
    Map: types.MAP,
    DeviceMap: types.MAP,
    MapWithDefault: types.MAP,
    MapAccumulator: types.MAP,
    types.Type: types.TYPE,
    Optional: types.OPTIONAL,
}
_GO_TYPES: dict[type, str] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    list: "*types.baseList",
    Accumulator: "*types.mutableList",
    Map: "*types.baseMap",
    DeviceMap: "*types.baseMap",
    MapWithDefault: "cel.mapper",
    MapAccumulator: "*types.mutableMap",
    types.Type: "*types.Type",
    Optional: "*types.Optional",
}


def type_of(value: Value) -> types.Type:
    """Return the type of a value at run time, without the types of the items of lists and maps."""
    found = _TYPES.get(type(value))
    return found if found is not None else cast(types.Type, value.cel_type)


def go_type_of(value: Value) -> str:
    """Return the name that Go prints for the type of a value."""
    found = _GO_TYPES.get(type(value))
    return found if found is not None else str(value.go_type)


def is_instance(type_: types.Type, value: Value) -> bool:
    """Return whether a value can be an argument of a type. Of a list or a map only the first element is looked at."""
    if type_.is_dyn or type_.kind is types.Kind.PARAM:
        return True
    if type_of(value).name != type_.name:
        return False
    if type_.kind is types.Kind.LIST:
        return not value or is_instance(type_.parameters[0], value[0])
    if type_.kind is types.Kind.MAP:
        for key in value:
            return is_instance(type_.parameters[0], key) and is_instance(type_.parameters[1], value.find(key)[0])
    return True


# --- equality and order ---------------------------------------------------------------------------------------------

_PLAIN = frozenset({bool, int, Uint, float, str, bytes})
_NUMBERS = frozenset({int, Uint, float})


def equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal; values of different types are not. Raises EvaluationError if they cannot be
    compared, which only types of Kubernetes cannot.
    """
    left_type, right_type = type(left), type(right)
    if left_type is right_type and left_type in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if left_type in _NUMBERS:
        return right_type in _NUMBERS and _order_numbers(left, right) == 0
    if isinstance(left, list):
        return isinstance(right, list) and _equal_lists(left, right)
    if isinstance(left, Map):
        return isinstance(right, Map) and _equal_maps(left, right)
    if isinstance(left, Opaque):
        return left.same(right)
    if left_type is Optional:
        return right_type is Optional and _equal_optionals(left, right)
    if left_type is types.Type:
        return right_type is types.Type and left.name == right.name
    return False


def surely_equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal; what cannot be compared is not."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def perhaps_equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal; what cannot be compared is."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _equal_lists(left: list[Value], right: list[Value]) -> bool:
    budget.walk(len(left))
    return len(left) == len(right) and all(perhaps_equal(a, b) for a, b in zip(left, right, strict=True))


def _equal_maps(left: Map, right: Map) -> bool:
    if len(left) != len(right):
        return False
    budget.walk(len(left))
    for key in left:
        other, found = right.find(key)
        if not found or not perhaps_equal(left.find(key)[0], other):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional) -> bool:
    if not left.has_value or not right.has_value:
        return left.has_value == right.has_value
    return equal(left.value, right.value)


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1. Raises EvaluationError if the values are not ordered."""
    left_type, right_type = type(left), type(right)
    if left_type in _NUMBERS and right_type in _NUMBERS:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        return _order_numbers(left, right)
    if left_type is right_type and left_type in (str, bool, bytes):
        return int(left > right) - int(left < right)
    if left_type is right_type and hasattr(left, "compare"):
        return int(left.compare(right))
    raise no_such_overload()


def is_ordered(value: Value) -> bool:
    """Return whether values of this type can be compared with each other."""
    return type(value) in _PLAIN or type_of(value) in (types.DURATION, types.TIMESTAMP)


def _order_numbers(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; NaN is no different from anything but itself. Integers lose precision against doubles."""
    if left != left or right != right:
        return 1
    if type(left) is float and type(right) is not float:
        return _order_double(left, right)
    if type(right) is float and type(left) is not float:
        return -_order_double(right, left)
    return int(left > right) - int(left < right)


def _order_double(double: float, integer: int) -> int:
    if double < (0 if type(integer) is Uint else float(MIN_INT64)):
        return -1
    if double > float(MAX_UINT64 if type(integer) is Uint else MAX_INT64):
        return 1
    other = float(integer)
    return (double > other) - (double < other)


# --- sizes and texts ------------------------------------------------------------------------------------------------


def size_of(value: Value) -> int:
    """Return the size that costs are measured by: characters, elements or 1."""
    if isinstance(value, str | bytes | list | Map):
        return len(value)
    if type(value) is Optional and value.has_value:
        return size_of(value.value)
    return int(getattr(value, "size", 1))


def shown(value: Value) -> str:
    """Return a value as Go's %v prints it in errors."""
    if value is None:
        return "NULL_VALUE"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    if isinstance(value, list):
        budget.walk(len(value))
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Map):
        return "{" + ", ".join(f"{shown(key)}: {shown(value.find(key)[0])}" for key in value) + "}"
    if type(value) is Optional:
        return f"optional({shown(value.value)})" if value.has_value else "optional.none()"
    return str(int(value)) if isinstance(value, int) else str(value)
