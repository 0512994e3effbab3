"""Reads the protobuf of the API, field by field, without its schema."""

from __future__ import annotations


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def decode(data: object) -> dict[int, object]:
    """An independent reader: field number -> bytes or int. No field may come twice."""
    assert isinstance(data, bytes)
    fields: dict[int, object] = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        assert tag >> 3 not in fields
        if tag & 7 == 0:
            fields[tag >> 3], at = read_varint(data, at)
        else:
            assert tag & 7 == 2
            length, at = read_varint(data, at)
            fields[tag >> 3] = data[at : at + length]
            at += length
    assert at == len(data)
    return fields


def unwrap(body: bytes, api_version: bytes, kind: bytes) -> dict[int, object]:
    assert body[:4] == b"k8s\x00"
    envelope = decode(body[4:])
    assert decode(envelope[1]) == {1: api_version, 2: kind}
    return decode(envelope[2])
