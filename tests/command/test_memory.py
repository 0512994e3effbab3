"""The garbage collector is kept away from what stays, and finds what does not."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from kscheduler.command.memory import FREEZE_PERIOD_S, FULL_SIGHT_EVERY, MOST_FREEZES, THRESHOLDS, Collections
from kscheduler.simulator.virtual_time import run_virtual


@pytest.fixture
def collections() -> Iterator[Collections]:
    found = Collections()
    found.start()
    yield found
    found.stop()


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_starting_sets_thresholds_and_stopping_takes_them_back() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    collections = Collections()
    collections.start()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    collections.stop()
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)


def test_what_a_collection_finds_alive_is_not_looked_at_again(collections: Collections) -> None:
    kept = [Cycle() for _ in range(1_000)]
    frozen = gc.get_freeze_count()
    gc.collect(0)
    assert gc.get_freeze_count() >= frozen + len(kept)
    assert len(gc.get_objects()) < len(kept)


def test_a_cycle_that_became_garbage_after_it_was_frozen_is_found_in_the_end(collections: Collections) -> None:
    async def main() -> int:
        cycle: Cycle | None = Cycle()
        ghost = weakref.ref(cycle)
        gc.collect(0)
        del cycle
        found_after = 0
        while ghost() is not None and found_after <= FULL_SIGHT_EVERY:
            gc.collect(0)
            await asyncio.sleep(0)
            found_after += 1
        assert ghost() is None
        return found_after

    assert run_virtual(main()) > 1  # else it was never out of sight, and this tests nothing


def test_objects_that_come_and_go_leave_nothing_behind(collections: Collections) -> None:
    def churn() -> int:
        for _ in range(100):
            one = [Cycle() for _ in range(500)]
            gc.collect(0)
            del one
        collections.collect_all()
        return len(gc.get_objects()) + gc.get_freeze_count()

    churn()
    before = churn()
    assert churn() <= before + 50


def test_while_lists_arrive_what_has_arrived_is_frozen(collections: Collections) -> None:
    async def main() -> None:
        synced = False
        task = asyncio.ensure_future(collections.while_listing(lambda: synced))
        await asyncio.sleep(0)
        kept = [Cycle() for _ in range(1_000)]
        frozen = gc.get_freeze_count()
        await asyncio.sleep(1.5 * FREEZE_PERIOD_S)
        assert gc.get_freeze_count() >= frozen + len(kept)
        synced = True
        await asyncio.sleep(2 * FREEZE_PERIOD_S)
        assert task.done()

    run_virtual(main())


def test_a_list_that_never_comes_does_not_keep_the_collector_away(collections: Collections) -> None:
    run_virtual(asyncio.wait_for(collections.while_listing(lambda: False), 2 * MOST_FREEZES * FREEZE_PERIOD_S))
