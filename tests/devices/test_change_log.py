"""A log from which each reader learns what has changed since it last looked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.devices.change_log import ChangeLog


def test_a_reader_gets_each_change_after_the_count_once() -> None:
    log: ChangeLog[str] = ChangeLog()
    log.add("a")
    seen = log.count
    log.extend(["b", "c", "b"])
    assert log.since(seen) == ["b", "c"]
    assert log.since(log.count) == []


def test_after_a_change_of_anything_readers_have_to_look_at_everything() -> None:
    log: ChangeLog[str] = ChangeLog()
    log.add("a")
    seen = log.count
    log.add_all()
    assert log.since(seen) is None
    assert log.since(log.count) == []
    log.add("b")
    assert log.since(log.count - 1) == ["b"]


def test_a_reader_that_never_looked_has_to_look_at_everything() -> None:
    assert ChangeLog().since(-1) is None


@pytest.mark.parametrize("most", [1, 3])
@given(steps=st.lists(st.integers(0, 6)))
def test_memory_is_bounded_and_no_change_is_lost(most: int, steps: list[int]) -> None:
    log: ChangeLog[int] = ChangeLog(most)
    everything: list[int] = []
    for step, size in enumerate(steps):
        log.extend([step] * size)
        everything += [step] * size
        assert log.count == len(everything)
        assert len(log._changed) <= 2 * most
        for count in range(log.count + 1):
            found = log.since(count)
            assert found is None or found == sorted(set(everything[count:]))
        assert log.since(max(log.count - most, 0)) is not None
