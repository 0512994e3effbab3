"""Recognises records, our own and other programs', by their first bytes."""

from __future__ import annotations

ZSTD = b"\x28\xb5\x2f\xfd"  # a record of ours
ZIP = b"PK\x03\x04"  # a snapshot of KAI-Scheduler
_LINE = b'{"time":'  # a line of kube-scheduler-simulator's recorder; no report or configuration begins so
BEGINNING_BYTES = 8  # so many first bytes show the kind


def is_msgpack_map(beginning: bytes) -> bool:
    """Return True for a map in msgpack, as SimKube's traces are. No text begins with such a byte."""
    return bool(beginning) and (0x80 <= beginning[0] <= 0x8F or beginning[0] in (0xDE, 0xDF))


def is_record(beginning: bytes) -> bool:
    """Return True if a file with these first bytes is a record, and neither a report nor a configuration."""
    return beginning.startswith((ZSTD, ZIP, _LINE)) or is_msgpack_map(beginning)
