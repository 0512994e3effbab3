from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.decode import APIStatus, StatusDetails
from kscheduler.client import protobuf
from kscheduler.client.protocol import Binding, Event, EventSeries, Regarding
from tests.client.protobuf import decode, unwrap

TEXT = st.text(max_size=300)


@given(st.builds(Binding, TEXT, TEXT, TEXT, TEXT))
def test_a_binding_reads_back(binding: Binding) -> None:
    fields = unwrap(protobuf.encode_binding(binding), b"v1", b"Binding")
    metadata, target = decode(fields[1]), decode(fields[2])
    assert metadata.get(1, b"") == binding.name.encode()
    assert metadata.get(3, b"") == binding.namespace.encode()
    assert metadata.get(5, b"") == binding.uid.encode()
    assert target == {1: b"Node", **({3: binding.node.encode()} if binding.node else {})}


@pytest.mark.parametrize("length", [1, 20, 40, 119, 120, 127, 128, 253])
def test_a_binding_reads_back_whatever_the_length_of_its_texts(length: int) -> None:
    for name, namespace, node in ((length, 9, 9), (9, length, 9), (9, 9, length), (length, length, length)):
        binding = Binding("s" * namespace, "p" * name, "u" * 36, "n" * node)
        fields = unwrap(protobuf.encode_binding(binding), b"v1", b"Binding")
        assert decode(fields[1]) == {1: b"p" * name, 3: b"s" * namespace, 5: b"u" * 36}
        assert decode(fields[2]) == {1: b"Node", 3: b"n" * node}


def test_an_event_reads_back() -> None:
    event = Event(
        namespace="ns",
        name="web.17",
        regarding=Regarding("Pod", "v1", "ns", "web", "u1", "42"),
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note="é" * 500,
        reporting_controller="default-scheduler",
        reporting_instance="host_1",
        event_time_s=1_700_000_000.25,
        series=EventSeries(300, 1_700_000_100.0),
        related=Regarding("Pod", "v1", "ns2", "vip", "u2", "43"),
    )
    fields = unwrap(protobuf.encode_event(event), b"events.k8s.io/v1", b"Event")
    assert decode(fields[1]) == {1: b"web.17", 3: b"ns"}
    assert decode(fields[2]) == {1: 1_700_000_000, 2: 250_000_000}
    series = decode(fields[3])
    assert series[1] == 300
    assert decode(series[2]) == {1: 1_700_000_100}
    assert {number: fields[number] for number in (4, 5, 6, 7, 10, 11)} == {
        4: b"default-scheduler",
        5: b"host_1",
        6: b"Scheduling",
        7: b"FailedScheduling",
        10: ("é" * 500).encode(),
        11: b"Warning",
    }
    assert decode(fields[8]) == {1: b"Pod", 2: b"ns", 3: b"web", 4: b"u1", 5: b"v1", 6: b"42"}
    assert decode(fields[9]) == {1: b"Pod", 2: b"ns2", 3: b"vip", 4: b"u2", 5: b"v1", 6: b"43"}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_numbers_are_base_128(value: int, encoded: bytes) -> None:
    assert protobuf.varint(value) == encoded


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + protobuf.varint(len(data)) + data


def test_a_status_is_read_with_its_retry_time() -> None:
    details = field(1, b"web") + b"\x28\x05" + b"\x3d\x01\x02\x03\x04" + b"\x39" + bytes(8)
    status = field(2, b"Failure") + field(3, b"too busy") + field(4, b"TooManyRequests") + field(5, details)
    body = b"k8s\x00" + field(1, field(2, b"Status")) + field(2, status + b"\x30\xad\x03")
    assert protobuf.decode_status(body) == APIStatus(429, "TooManyRequests", "too busy", StatusDetails(5))


@pytest.mark.parametrize("body", [b"{}", b"k8s\x00\x12\x7f", b"k8s\x00\x80", b"k8s\x00\x13", b"k8s\x00" + b"\xff" * 12])
def test_garbage_is_no_status(body: bytes) -> None:
    with pytest.raises(ValueError, match="protobuf"):
        protobuf.decode_status(body)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(garbage: bytes) -> None:
    with contextlib.suppress(ValueError):
        protobuf.decode_status(b"k8s\x00" + garbage)
