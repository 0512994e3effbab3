"""What an expression can read of a device, so that devices which are equal in that share its answer.

Most devices of a cluster differ only in attributes that no selector reads, such as a serial number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b

import msgspec

from kscheduler.cel.device_view import DeviceView
from kscheduler.cel.tree import Call, Ident, Literal, Node, Select, children

KeyOf = Callable[[DeviceView], bytes]

_SIZE = 16  # bytes of a key; a device may have kilobytes of attributes
_encode = msgspec.msgpack.Encoder().encode
_FIELDS = frozenset({"driver", "allowMultipleAllocations", "capacity"})  # which each key has as a whole


def key_of_reads(root: Node) -> KeyOf:
    """Return a function for a key of devices. Devices with equal keys get equal answers from a checked expression.

    What cannot be read, and cannot make the evaluation fail either, is left out of the key.
    """
    reads = attributes_read(root)
    return _key_of_all if reads is None else partial(_key, reads)


def attributes_read(root: Node) -> frozenset[str] | None:
    """Return the attributes that a checked expression can read, without their domains; None: possibly all."""
    found = set[str]()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if _is_device(node):
            return None
        operand, key = _step(node)
        if key is not None and operand is not None:
            if _is_device(operand):
                if key not in _FIELDS:
                    return None
                continue
            domains, domain = _step(operand)
            if domain is not None and domains is not None and _is_attributes(domains):
                found.add(key)
                continue
        waiting.extend(children(node))
    return frozenset(found)


def _step(node: Node) -> tuple[Node | None, str | None]:
    """Return the operand and the key of a node that reads a part by a constant name, or that tests whether it is there.

    Both are None for other nodes.
    """
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in ("_[_]", "_?._") and node.target is None:
        operand, key = node.arguments
        if isinstance(key, Literal) and isinstance(key.value, str):
            return operand, key.value
    return None, None


def _is_device(node: Node) -> bool:
    return isinstance(node, Ident) and node.name.removeprefix(".") == "device"


def _is_attributes(node: Node) -> bool:
    operand, key = _step(node)
    return operand is not None and _is_device(operand) and key == "attributes"


def _key(reads: frozenset[str], device: DeviceView) -> bytes:
    kept = [
        (name, value)
        for name, value in device.attributes.items()
        # Versions may be none, which is an error whatever the expression reads.
        if name.rpartition("/")[2] in reads
        or value.versions
        or (value.string is None and value.int_value is None and value.bool_value is None)
    ]
    read = _encode((device.driver, device.allow_multiple_allocations, kept, device.capacity))
    return blake2b(read, digest_size=_SIZE).digest()


def _key_of_all(device: DeviceView) -> bytes:
    attributes = list(device.attributes.items())  # in their order: of two with one full name the last one counts
    read = _encode((device.driver, device.allow_multiple_allocations, attributes, device.capacity))
    return blake2b(read, digest_size=_SIZE).digest()
