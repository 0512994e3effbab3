"""What a leader leaves in its Lease for the next one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Lease, LeaseSpec, ObjectMeta
from kscheduler.client.handover import ANNOTATION, Seen, handover_of, with_handover

RELEASED = LeaseSpec(holder_identity="", lease_duration_seconds=1, renew_time="2026-01-01T00:00:00.000001Z")
SEEN = Seen(pods="120", nodes="34")


def released(annotations: dict[str, str] | None = None) -> Lease:
    return Lease(metadata=ObjectMeta(name="l", namespace="ns", annotations=annotations), spec=RELEASED)


def test_what_is_left_is_found_beside_what_others_have_written() -> None:
    lease = with_handover(released({"a": "b"}), SEEN)
    assert handover_of(lease) == SEEN
    assert (lease.metadata.annotations or {})["a"] == "b"


def test_a_lease_that_is_taken_keeps_only_what_others_have_written() -> None:
    assert with_handover(with_handover(released({"a": "b"}), SEEN), None) == released({"a": "b"})
    assert with_handover(with_handover(released(), SEEN), None) == released()


@pytest.mark.parametrize(
    "later",
    [
        {"holder_identity": "somebody"},
        {"renew_time": "2026-01-01T00:00:09.000000Z"},  # released again, by an elector that keeps annotations
        {"renew_time": None},
    ],
    ids=["held", "released again", "without a time"],
)
def test_it_counts_for_the_release_that_it_was_left_with_alone(later: dict[str, str | None]) -> None:
    lease = with_handover(released(), SEEN)
    assert handover_of(Lease(metadata=lease.metadata, spec=replace(lease.spec, **later))) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"released": 1, "seen": {}}', '{"released": "2026-01-01T00:00:00.000001Z", "seen": null}'],
)
def test_what_cannot_be_read_counts_as_nothing(text: str) -> None:
    assert handover_of(released({ANNOTATION: text})) is None
    assert handover_of(released()) is None


@pytest.mark.parametrize("seen", [Seen("", "34"), Seen("120", "a"), Seen("-1", "34")])
def test_versions_that_cannot_be_compared_count_as_nothing(seen: Seen) -> None:
    assert handover_of(with_handover(released(), seen)) is None
