"""A file's first bytes say whether it is a record."""

from __future__ import annotations

import msgpack
import pytest

from kscheduler.record.kinds import BEGINNING_BYTES, is_record


@pytest.mark.parametrize(
    "content",
    [
        b"\x28\xb5\x2f\xfd....",
        b"PK\x03\x04....",
        b'{"time":"2026-01-01T00:00:00Z","event":"Add","resource":{}}\n',
        msgpack.packb({"version": 2, "events": []}),
        msgpack.packb({str(number): 0 for number in range(20)}),
    ],
)
def test_records_are_recognised(content: bytes) -> None:
    assert is_record(content[:BEGINNING_BYTES])


@pytest.mark.parametrize("content", [b"", b'{"version":"1"}', b'{\n  "version": "1"}', b"apiVersion: v1", "é".encode()])
def test_reports_and_configurations_are_no_records(content: bytes) -> None:
    assert not is_record(content[:BEGINNING_BYTES])
