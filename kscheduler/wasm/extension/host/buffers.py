"""How bytes cross: the guest lends a buffer and is told the length, and asks again if the buffer was too small.

An address or a length that points outside the guest's memory stops the guest.
"""

from __future__ import annotations

from kscheduler.wasm.engine import FaultKind, GuestFault, Instance

_U32 = 0xFFFF_FFFF


def give(instance: Instance, data: bytes, address: int, limit: int) -> int:
    """The length of `data`, which is in the guest's buffer if that is not above `limit`."""
    size = len(data)
    if 0 < size <= limit & _U32:
        instance.write(address & _U32, data)
    return size


def take(instance: Instance, address: int, size: int, most: int, what: str) -> bytes:
    """What the guest says; GuestFault for more than `most` bytes, since the host keeps them."""
    size &= _U32
    if size > most:
        raise GuestFault(FaultKind.BAD_ANSWER, f"expected {what} of at most {most} bytes, got {size}")
    return instance.read(address & _U32, size) if size else b""


def take_text(instance: Instance, address: int, size: int, most: int, what: str) -> str:
    return take(instance, address, size, most, what).decode("utf-8", "replace")


def take_start(instance: Instance, address: int, size: int, most: int) -> str | None:
    """Text for people, cut to `most` bytes. None if it is not in the guest's memory."""
    address, size = address & _U32, size & _U32
    if address + size > instance.memory_bytes:
        return None
    data = instance.read(address, min(size, most)) if size else b""
    return data.decode("utf-8", "replace") + ("..." if size > most else "")
