"""CEL's types, as the checker infers them and as values have them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Kind(enum.Enum):
    ANY = enum.auto()
    BOOL = enum.auto()
    BYTES = enum.auto()
    DOUBLE = enum.auto()
    DURATION = enum.auto()
    DYN = enum.auto()
    ERROR = enum.auto()
    INT = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()
    NULL = enum.auto()
    OPAQUE = enum.auto()
    PARAM = enum.auto()  # a type that is not known yet
    STRING = enum.auto()
    STRUCT = enum.auto()
    TIMESTAMP = enum.auto()
    TYPE = enum.auto()
    UINT = enum.auto()


@dataclass(frozen=True, slots=True)
class Type:
    """A type. `name` is that of its values at run time; equal types are the same type."""

    kind: Kind
    name: str
    parameters: tuple[Type, ...] = ()

    @property
    def is_dyn(self) -> bool:
        return self.kind is Kind.DYN or self.kind is Kind.ANY

    def shown(self) -> str:
        """Return the type as the errors of the checker name it."""
        special = _SHOWN.get(self.kind)
        if special is not None:
            return special
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(parameter.shown() for parameter in self.parameters)})"

    def __str__(self) -> str:
        if self.kind is Kind.PARAM:
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


_SHOWN: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}

ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
DYN: Final = Type(Kind.DYN, "dyn")
ERROR: Final = Type(Kind.ERROR, "error")
INT: Final = Type(Kind.INT, "int")
NULL: Final = Type(Kind.NULL, "null_type")
STRING: Final = Type(Kind.STRING, "string")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")
UINT: Final = Type(Kind.UINT, "uint")

QUANTITY: Final = Type(Kind.STRUCT, "kubernetes.Quantity")
SEMVER: Final = Type(Kind.STRUCT, "kubernetes.Semver")
URL: Final = Type(Kind.STRUCT, "kubernetes.URL")
FORMAT: Final = Type(Kind.STRUCT, "kubernetes.NamedFormat")
IP: Final = Type(Kind.OPAQUE, "net.IP")
CIDR: Final = Type(Kind.OPAQUE, "net.CIDR")
DEVICE: Final = Type(Kind.STRUCT, "kubernetes.DRADevice")
OPTIONAL: Final = Type(Kind.OPAQUE, "optional_type")


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(instance: Type) -> Type:
    return Type(Kind.TYPE, "type", (instance,))


def parameter(name: str) -> Type:
    return Type(Kind.PARAM, name)


def unwrapped_optional(type_: Type) -> tuple[Type, bool]:
    """Return the type of an optional's value, and whether the type was an optional."""
    if type_.kind is Kind.OPAQUE and type_.name == "optional_type" and type_.parameters:
        return type_.parameters[0], True
    return type_, False


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
