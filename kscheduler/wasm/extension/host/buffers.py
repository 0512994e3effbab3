"""Transfers bytes to and from a guest: it passes a buffer, gets the length, and calls again if that is too small.

An address or a length that points outside the guest's memory stops the guest.
"""

from __future__ import annotations

from kscheduler.wasm.engine import FaultKind, GuestFault, Instance

_U32 = 0xFFFF_FFFF


def give(instance: Instance, data: bytes, address: int, limit: int) -> int:
    """Write `data` to the guest's buffer at `address` if it has at most `limit` bytes; return the length of `data`."""
    size = len(data)
    if 0 < size <= limit & _U32:
        instance.write(address & _U32, data)
    return size


def take(instance: Instance, address: int, size: int, most: int, what: str) -> bytes:
    """Read bytes from the guest's memory.

    Raises GuestFault for more than `most`, with `what` as their name in its text.
    """
    size &= _U32
    if size > most:
        raise GuestFault(FaultKind.BAD_ANSWER, f"expected {what} of at most {most} bytes, got {size}")
    return instance.read(address & _U32, size) if size else b""


def take_text(instance: Instance, address: int, size: int, most: int, what: str) -> str:
    return take(instance, address, size, most, what).decode("utf-8", "replace")


def take_start(instance: Instance, address: int, size: int, most: int) -> str | None:
    """Read a text for messages, cut to `most` bytes; None if it is not within the guest's memory."""
    address, size = address & _U32, size & _U32
    if address + size > instance.memory_bytes:
        return None
    data = instance.read(address, min(size, most)) if size else b""
    return data.decode("utf-8", "replace") + ("..." if size > most else "")
