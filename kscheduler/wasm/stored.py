"""Serializes compiled modules: imports and exports, followed by the engine library's own serialized code.

Imports and exports are stored because the library's C API must not be used to read them: it ends the process for a type
that it cannot name, such as a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kscheduler.errors import DecodeError
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.wasm.engine import ExternType, FaultKind, FuncType, GuestFault, Import, MemoryType, OtherType

# ("f", parameters, results), ("m", minimum, maximum), ("o", kind)
_Type = tuple[str, str, str] | tuple[str, int, int | None] | tuple[str, str]
_Stored = tuple[list[tuple[str, list[object]]], list[tuple[str, str, list[object]]], bytes]
_decode = msgpack_decoder(_Stored)


def pack(exports: Mapping[str, ExternType], imports: Sequence[Import], code: bytes) -> bytes:
    return msgspec.msgpack.encode(
        (
            [(name, _type(kind)) for name, kind in exports.items()],
            [(each.module, each.name, _type(each.type)) for each in imports],
            code,
        )
    )


def unpack(stored: bytes) -> tuple[dict[str, ExternType], list[Import], bytes]:
    """Return (exports, imports, code). Raises GuestFault for bytes that `pack` did not write."""
    try:
        exports, imports, code = _decode(stored)
        return (
            {name: _extern_type(kind) for name, kind in exports},
            [Import(module, name, _extern_type(kind)) for module, name, kind in imports],
            code,
        )
    except (DecodeError, KeyError, IndexError, TypeError) as error:
        raise GuestFault(FaultKind.BAD_MODULE, f"cannot be loaded: {error}") from None


def _type(kind: ExternType) -> _Type:
    if isinstance(kind, FuncType):
        return "f", kind.params, kind.results
    if isinstance(kind, MemoryType):
        return "m", kind.minimum_pages, kind.maximum_pages
    return "o", kind.kind


def _extern_type(stored: list[object]) -> ExternType:
    classes: dict[object, type[ExternType]] = {"f": FuncType, "m": MemoryType, "o": OtherType}
    return classes[stored[0]](*stored[1:])  # type: ignore[arg-type]  # checked by digest, as the code is
