"""Whatever is decided: never more than the bounds allow, the newest is there, and the sums are right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.explain.details import NodeNames
from kscheduler.explain.record import RECORD_BYTES, Outcome, Refusal
from kscheduler.explain.ring import PER_POD, DecisionRing
from tests.explain.records import make_details, make_record

PLENTY = 1_000_000
UIDS = st.sampled_from(["a", "b", "c", "d"])
TABLES = [NodeNames(tuple(f"node-{index}" for index in range(count))) for count in (1, 10, 10, 40)]
ADD = st.tuples(st.just("add"), UIDS, st.sampled_from([None, *TABLES]), st.integers(0, 3_000))
FINISH = st.tuples(st.just("finish"), UIDS, st.just(None), st.integers(0, 3_000))


@given(st.lists(st.one_of(ADD, FINISH), max_size=60), st.integers(1, 12), st.integers(700, 20_000))
def test_its_bounds_and_its_sums_hold(
    steps: list[tuple[str, str, NodeNames | None, int]], max_records: int, max_bytes: int
) -> None:
    ring = DecisionRing(max_records, max_bytes)
    added = 0
    for attempt, (what, uid, names, length) in enumerate(steps):
        if what == "add":
            record = make_record(uid, attempt, make_details(names) if names else None, "x" * length)
            ring.add(record)
            added += 1
            assert ring.of(uid)[0] is record
        else:
            ring.finish(uid, Outcome.REJECTED, 1.0, Refusal("y" * length))
        ring.check()
        assert len(ring) <= max_records
        assert ring.bytes <= max_bytes or (len(ring) == 1 and next(iter(ring)).details is None)
        for each in "abcd":
            attempts = [record.attempt for record in ring.of(each)]
            assert attempts == sorted(attempts, reverse=True)
            assert len(attempts) <= PER_POD
    assert len(ring) + ring.evicted <= added


@given(st.lists(UIDS, max_size=30), st.integers(1, 8), st.integers(2, 9))
def test_decisions_added_together_are_kept_as_if_added_one_by_one(
    uids: list[str], max_records: int, max_kept: int
) -> None:
    together, single = (DecisionRing(max_records, max_kept * RECORD_BYTES) for _ in range(2))
    together.add_many(make_record(uid, attempt) for attempt, uid in enumerate(uids))
    for attempt, uid in enumerate(uids):
        single.add(make_record(uid, attempt))
    together.check()
    assert [(record.uid, record.attempt) for record in together] == [(record.uid, record.attempt) for record in single]
    assert together.evicted == single.evicted


def test_the_pod_decided_longest_ago_is_forgotten_first() -> None:
    ring = DecisionRing(3, PLENTY)
    for attempt, uid in enumerate(["a", "b", "a", "c", "d"]):
        ring.add(make_record(uid, attempt))
    assert [(record.uid, record.attempt) for record in ring] == [("a", 2), ("c", 3), ("d", 4)]
    assert ring.evicted == 2, "b and the first of a"


def test_of_one_pod_only_so_many_are_kept() -> None:
    ring = DecisionRing(100, PLENTY)
    for attempt in range(PER_POD + 3):
        ring.add(make_record("a", attempt))
    assert [record.attempt for record in ring.of("a")] == [7, 6, 5, 4, 3]
    assert ring.evicted == 0


def test_names_that_are_shared_count_once() -> None:
    names = NodeNames(tuple(map(str, range(100))))
    ring = DecisionRing(100, PLENTY)
    ring.add(make_record("a", details=make_details(names)))
    one = ring.bytes
    ring.add(make_record("b", details=make_details(names)))
    assert ring.bytes - one < names.size()


def test_a_decision_that_is_too_large_loses_its_details() -> None:
    ring = DecisionRing(100, RECORD_BYTES + 100)
    ring.add(make_record("a", details=make_details()))
    [kept] = ring.of("a")
    assert kept.details is None
    assert ring.bytes == RECORD_BYTES


def test_the_reasons_of_a_rejected_pod_take_the_room_of_the_oldest_decisions() -> None:
    ring = DecisionRing(10, 4 * RECORD_BYTES)
    for uid in "abcd":
        ring.add(make_record(uid))
    ring.finish("d", Outcome.REJECTED, 1.0, Refusal("y" * RECORD_BYTES))
    assert ring.bytes <= 4 * RECORD_BYTES
    assert not ring.of("a")
    assert ring.of("d")


def test_the_end_of_a_decision_that_was_forgotten_is_nobodys_business() -> None:
    ring = DecisionRing(1, PLENTY)
    ring.finish("a", Outcome.BOUND, 1.0)
    assert len(ring) == 0


def test_a_pod_is_found_by_its_name_the_latest_of_it_first() -> None:
    ring = DecisionRing(10, PLENTY)
    for uid in ("old", "other", "new"):
        record = make_record(uid)
        record.key = "default/other" if uid == "other" else "default/p"
        ring.add(record)
    assert ring.uid_of("default/p") == "new"
    assert ring.uid_of("default/q") is None
