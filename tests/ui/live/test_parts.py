"""The small parts of the page: quantiles, limits, and the picture of the nodes."""

from __future__ import annotations

import pytest

from kscheduler.serving.live.access import Refused
from kscheduler.serving.live.limits import MOST_ADDRESSES, RequestLimit, StreamSlots, TokenBucket
from kscheduler.serving.live.node_picture import HIGHEST, NO_CAPACITY, NodePicture
from kscheduler.serving.live.quantiles import quantile
from kscheduler.serving.live.readings import NodeReading
from tests.support.clocks import ManualClock
from tests.ui.live.fixture import changed, nodes, packed
from tests.ui.reports import ZONE

# --- quantiles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 0.5),
        ([0, 10, 0, 0], 0.5, 1.5),
        ([5, 5, 0, 0], 0.9, 1.8),
        ([5, 0, 5, 0], 0.5, 1.0),
        ([0, 0, 0, 7], 0.5, 4.0),
        ([1, 0, 0, 99], 0.01, 1.0),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(counts: list[int], share: float, expected: float | None) -> None:
    assert quantile((1.0, 2.0, 4.0), counts, share) == (None if expected is None else pytest.approx(expected))


# --- limits -------------------------------------------------------------------------------------------------------


def test_a_bucket_fills_up_with_time_and_no_further_than_its_burst() -> None:
    bucket = TokenBucket(2.0, 3)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(1.0) for _ in range(3)] == [True, True, False]
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]


def test_addresses_are_remembered_in_bounded_number() -> None:
    clock = ManualClock()
    limit = RequestLimit(clock.now)
    for number in range(3 * MOST_ADDRESSES):
        clock.advance(1.0)
        limit.check(f"10.0.{number // 256}.{number % 256}")
    assert len(limit._by_address) == MOST_ADDRESSES


def test_all_addresses_together_are_limited() -> None:
    limit = RequestLimit(ManualClock().now)
    for number in range(400):
        limit.check(f"address-{number}")
    with pytest.raises(Refused, match="in all") as caught:
        limit.check("one-more")
    assert (caught.value.status, caught.value.retry_s) == (429, 1)


def test_slots_are_given_back() -> None:
    slots = StreamSlots(2, 1)
    with slots.take("a"):
        with pytest.raises(Refused, match="at this address"), slots.take("a"):
            pass
        with slots.take("b"), pytest.raises(Refused, match="no more are served"), slots.take("c"):
            pass
    assert len(slots) == 0
    with slots.take("a"):
        assert len(slots) == 1


# --- nodes --------------------------------------------------------------------------------------------------------


async def test_the_picture_has_one_byte_for_each_node_and_resource() -> None:
    picture = NodePicture()
    columns = (packed([0, 2_000, 4_000, 9_000, 5]), packed([1, 1, 1, 1, 1]))
    allocatable = (packed([4_000, 4_000, 4_000, 4_000, 0]), packed([4, 4, 4, 4, 4]))
    await picture.update(NodeReading(("cpu", "pods"), None, columns, allocatable, list("abcde"), [{}] * 5))
    assert list(picture.use()["used"]["cpu"]) == [0, 125, 250, HIGHEST, NO_CAPACITY]
    assert picture.shares() == {"cpu": pytest.approx(15_005 / 16_000, abs=1e-5), "pods": 0.25}


async def test_changed_rows_are_drawn_again_and_rows_that_are_not_known_are_left_out() -> None:
    picture = NodePicture()
    await picture.update(nodes())
    before = picture.use()["used"]["cpu"]
    await picture.update(changed(3, 4_000))
    after = picture.use()["used"]["cpu"]
    assert after[3] == 250
    assert [at for at in range(len(before)) if before[at] != after[at]] == [3]
    await picture.update(changed(99, 4_000))
    assert (picture.version, picture.use_version) == (1, 3)
    assert picture.use()["used"]["cpu"] == after


async def test_nodes_are_grouped_by_labels_with_a_few_values() -> None:
    picture = NodePicture()
    labels = [
        {"host": f"n{row}", ZONE: f"z{row % 2}", "same": "x", **({"gpu": "a"} if row else {})} for row in range(300)
    ]
    zeros = packed([0] * 300)
    await picture.update(NodeReading(("pods",), None, (zeros,), (zeros,), [str(row) for row in range(300)], labels))
    [zone] = picture.description()["labels"]
    assert (zone["key"], zone["values"], zone["of_node"][:3]) == (ZONE, ["z0", "z1"], [0, 1, 0])


async def test_there_may_be_no_nodes_at_all() -> None:
    picture = NodePicture()
    await picture.update(NodeReading(("cpu", "pods"), None, (b"", b""), (b"", b""), [], []))
    assert picture.shares() == {"cpu": None, "pods": None}
    assert picture.use()["used"] == {"cpu": b"", "pods": b""}
