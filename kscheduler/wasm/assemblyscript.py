"""The import `env.abort`, which every guest written in AssemblyScript has unless compiled with other options.

AssemblyScript calls it when an index is out of range, an assertion fails or memory is used up.
"""

from __future__ import annotations

from typing import NoReturn

from kscheduler.wasm.engine import FaultKind, FuncType, GuestFault, HostFunction, Instance

MODULE, ABORT = "env", "abort"
ABORT_TYPE = FuncType("iiii", "")
MAX_TEXT_BYTES = 512  # bytes of the message, and of the file's name
_U32 = 0xFFFF_FFFF


def abort_function() -> HostFunction:
    return HostFunction(MODULE, ABORT, ABORT_TYPE.params, ABORT_TYPE.results, _abort)


def _abort(instance: Instance, message: int, file: int, line: int, column: int) -> NoReturn:
    """Raise a GuestFault that ends the call, with the message and source position that the guest passes."""
    text, place = _text(instance, message) or "aborted", _text(instance, file)
    where = f" in {place}:{line & _U32}:{column & _U32}" if place else ""
    raise GuestFault(FaultKind.TRAP, f"abort: {text}{where}")


def _text(instance: Instance, address: int) -> str:
    """Read an AssemblyScript string: UTF-16, preceded by its size in bytes. "" for null or outside the memory."""
    address &= _U32
    if address < 4 or address > instance.memory_bytes:
        return ""
    size = min(int.from_bytes(instance.read(address - 4, 4), "little"), MAX_TEXT_BYTES) & ~1
    if address + size > instance.memory_bytes:
        return ""
    return instance.read(address, size).decode("utf-16-le", "replace") if size else ""
