"""wasmer has no limit of memory but the one a module declares: so the cap is written into the module."""

from __future__ import annotations

from kscheduler.wasm.engine import PAGE_BYTES, FaultKind, GuestFault

_HEADER_BYTES = 8
_MEMORY_SECTION = 5


def with_cap(wasm: bytes, memory_bytes: int) -> bytes:
    """The module (a valid one) with a maximum of so many bytes; GuestFault if it needs more to begin with."""
    position = _HEADER_BYTES
    while position < len(wasm):
        section, begin = wasm[position], position
        size, position = _read(wasm, position + 1)
        if section == _MEMORY_SECTION:
            body = _capped(wasm[position : position + size], memory_bytes // PAGE_BYTES)
            return wasm[:begin] + bytes([section]) + _written(len(body)) + body + wasm[position + size :]
        position += size
    return wasm


def _capped(body: bytes, pages: int) -> bytes:
    """The section of the one memory."""
    count, position = _read(body, 0)
    if count == 0:
        return body
    if count > 1 or body[position] > 1:
        raise GuestFault(FaultKind.BAD_MODULE, "cannot be compiled: expected one memory of 32 bits, not shared")
    has_maximum = body[position] == 1
    minimum, position = _read(body, position + 1)
    maximum = _read(body, position)[0] if has_maximum else pages
    if minimum > pages:
        raise GuestFault(
            FaultKind.MEMORY, f"cannot be instantiated: memory of {minimum} pages, expected at most {pages}"
        )
    return _written(1) + b"\1" + _written(minimum) + _written(min(maximum, pages))


def _read(data: bytes, position: int) -> tuple[int, int]:
    """(unsigned LEB128, position after it)"""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, position


def _written(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
