"""Reports of claims that this scheduler has written are recognised by uid and version, and others are decoded."""

from __future__ import annotations

from dataclasses import replace as with_field

import msgspec
import pytest
from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim
from kscheduler.client.kinds import RESOURCE_CLAIMS
from kscheduler.client.protocol import EventType
from kscheduler.client.wire import LineDecoder
from kscheduler.client.written_claims import WrittenClaims
from kscheduler.snapshot.devices import Devices
from tests.framework.plugins.dynamicresources.bench import allocation, claim


def at(version: int, made: ResourceClaim, **status: object) -> ResourceClaim:
    """The claim in a version; `status`: what it says then."""
    metadata = replace(made.metadata, resource_version=str(version))
    return replace(made, metadata=metadata, status=replace(made.status, **status))


WRITTEN = at(5, claim("c"), allocation=allocation())


def line(made: ResourceClaim, type: str = "MODIFIED") -> bytes:
    """A watch line as the apiserver writes it."""
    document = msgspec.to_builtins(made)
    of = made.metadata
    document["metadata"] = {
        "name": of.name,
        "generateName": "c-",
        "namespace": of.namespace,
        "uid": of.uid,
        "resourceVersion": of.resource_version,
        "annotations": {"a": '"uid":"uid-other","resourceVersion":"9"'},
    }
    return msgspec.json.encode({"type": type, "object": document})


class World:
    def __init__(self, most: int = 10) -> None:
        self.written = WrittenClaims(most)
        self.decode = LineDecoder(with_field(RESOURCE_CLAIMS, read_line=self.written.read))

    def is_recognised(self, raw: bytes) -> bool:
        event = self.decode(raw)
        assert event.object is not None
        assert event.resource_version == event.object.metadata.resource_version
        return event.is_kept


def test_the_report_of_a_write_is_the_answer_to_it() -> None:
    world = World()
    assert not world.is_recognised(line(WRITTEN))  # it came before the answer
    world.written.expect(WRITTEN)
    event = world.decode(line(WRITTEN))
    assert (event.type, event.resource_version) == (EventType.MODIFIED, "5")
    assert event.object is WRITTEN
    assert len(world.written) == 0
    assert not world.is_recognised(line(WRITTEN))  # once only


def test_other_versions_claims_and_types_are_decoded() -> None:
    world = World()
    world.written.expect(WRITTEN)
    for raw in (
        line(at(4, WRITTEN)),
        line(at(51, WRITTEN)),
        line(at(15, WRITTEN)),
        line(at(5, claim("d"))),
        line(WRITTEN, "ADDED"),
        line(WRITTEN, "DELETED"),
        line(WRITTEN).replace(b'"uid":"uid-c",', b"").replace(b'"namespace"', b'"uid":"uid-c","namespace"'),
    ):
        assert not world.is_recognised(raw), raw
    assert world.is_recognised(line(WRITTEN))


def test_of_two_writes_the_newer_one_is_expected() -> None:
    world, newer = World(), at(6, WRITTEN)
    world.written.expect(WRITTEN)
    world.written.expect(newer)
    assert not world.is_recognised(line(WRITTEN))
    assert world.decode(line(newer)).object is newer


def test_only_so_many_are_expected() -> None:
    world = World(most=3)
    written = [at(number, claim(f"c{number}")) for number in range(1, 6)]
    for each in written:
        world.written.expect(each)
    assert len(world.written) == 3
    assert [world.is_recognised(line(each)) for each in written] == [False, False, True, True, True]


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"type":"MODIFIED"', b'{"type":"MODIFIED","object":{"uid":"', b"\xff"])
def test_what_is_no_line_is_left_to_the_decoder(raw: bytes) -> None:
    world = World()
    world.written.expect(WRITTEN)
    assert world.written.read(raw) is None


def test_a_recognised_report_ends_the_assumption_and_notifies_nobody() -> None:
    devices, first = Devices(), at(1, claim("c"))
    devices.set_claim(first)
    changes: list[tuple[ResourceClaim | None, ResourceClaim | None]] = []
    devices.watch_claims(lambda *change: changes.append(change))
    devices.assume_claim(WRITTEN)
    devices.set_claim(WRITTEN)
    devices.restore_claim("default", "c")
    assert changes == [(first, WRITTEN)]
    assert devices.claim("default", "c") is devices.reported_claim("default", "c") is WRITTEN
