"""Slots on virtual time: who gets one, who waits, and for how long a plea to slow down is obeyed."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.ratelimit import Priority
from kscheduler.client.slots import EVENT_PERIOD_S, FREE_PERIOD_S, LONGEST_PAUSE_S, OVERDUE_S, PATIENCE_S, REST_S, Slots
from kscheduler.errors import APIError, Conflict, TooManyRequests, Unreachable
from kscheduler.simulator.virtual_time import run_virtual


class Bench:
    def __init__(self, ceiling: int = 2) -> None:
        self.slots = Slots(AdaptiveLimit(ceiling))
        self.served: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    def want(self, name: str, priority: Priority, seconds: float = 1.0) -> asyncio.Task[None]:
        async def work() -> None:
            async with self.slots.taken(priority):
                self.served.append(name)
                await asyncio.sleep(seconds)

        self._tasks.append(asyncio.ensure_future(work()))
        return self._tasks[-1]

    async def all(self) -> list[str]:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.slots.under_way == 0
        return self.served


def test_bindings_take_all_slots_and_go_before_statuses_and_events() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.want("b1", Priority.BIND)
        bench.want("b2", Priority.BIND)
        bench.want("s1", Priority.STATUS, 1.1)
        bench.want("s2", Priority.STATUS)
        bench.want("e1", Priority.EVENT, 1.2)
        bench.want("e2", Priority.EVENT)
        bench.want("b3", Priority.BIND)
        # One status and one Event are always let through.
        await asyncio.sleep(0.5)
        assert bench.served == ["b1", "b2", "s1", "e1"]
        assert await bench.all() == ["b1", "b2", "s1", "e1", "b3", "s2", "e2"]

    run_virtual(scenario())


def test_others_do_not_take_what_bindings_may_have() -> None:
    async def scenario() -> None:
        bench = Bench()
        for number in range(4):
            bench.want(f"s{number}", Priority.STATUS)
        await asyncio.sleep(0.5)
        bench.want("b1", Priority.BIND)
        bench.want("b2", Priority.BIND)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.served == ["s0", "s1", "b1", "b2"]
        await bench.all()

    run_virtual(scenario())


def test_one_that_gives_up_waiting_holds_nothing() -> None:
    async def scenario() -> None:
        bench = Bench(1)
        bench.want("b1", Priority.BIND)
        given_up = bench.want("b2", Priority.BIND)
        bench.want("b3", Priority.BIND)
        await asyncio.sleep(0.5)
        given_up.cancel()
        assert await bench.all() == ["b1", "b3"]

    run_virtual(scenario())


def test_a_slot_that_comes_together_with_the_cancellation_is_given_back() -> None:
    async def scenario() -> None:
        bench = Bench(1)
        assert bench.slots.try_take(Priority.BIND)
        given_up = bench.want("b2", Priority.BIND)
        await asyncio.sleep(0)
        bench.slots.give_back(Priority.BIND)
        given_up.cancel()
        assert await bench.all() == []

    run_virtual(scenario())


@pytest.mark.parametrize(("asked_s", "paused_s"), [(3.0, 3.0), (3600.0, LONGEST_PAUSE_S)])
def test_nothing_is_sent_until_the_apiserver_wants_to_be_asked_again(asked_s: float, paused_s: float) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.slots.learn(TooManyRequests("slow down", status=429, retry_after_s=asked_s))
        assert not bench.slots.try_take(Priority.BIND)
        bench.want("b", Priority.BIND, 0)
        bench.want("e", Priority.EVENT, 0)
        assert await bench.all() == ["b", "e"]
        assert asyncio.get_running_loop().time() == paused_s

    run_virtual(scenario())


def test_what_a_block_meets_is_learnt_from() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(32))
        for error, limit in (
            (Conflict("bound already", status=409), 8),
            (APIError("no etcd", status=500), 4),
        ):
            with pytest.raises(APIError):
                async with slots.taken(Priority.STATUS):
                    raise error
            assert slots.limit.value == limit
            assert slots.try_take(Priority.STATUS), "it is not paused"
            slots.give_back(Priority.STATUS)

    run_virtual(scenario())


def test_the_limit_grows_with_awaited_bindings_too() -> None:
    async def scenario() -> None:
        bench = Bench(100)
        for number in range(2000):
            bench.want(f"b{number}", Priority.BIND, 0.005)
        await bench.all()
        assert bench.slots.limit.value == 100

    run_virtual(scenario())


def test_a_slot_that_is_free_again_is_reported() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(1))
        reported: list[bool] = []
        slots.call_when_free([None], lambda: reported.append(slots.try_take(Priority.BIND)))
        assert slots.try_take(Priority.BIND)
        slots.give_back(Priority.BIND)
        assert reported == [True]
        assert not slots.try_take(Priority.BIND)

    run_virtual(scenario())


# --- Events keep off --------------------------------------------------------------------------------------------


def test_events_go_one_at_a_time_until_bindings_have_rested_and_then_all_at_once() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        await asyncio.sleep(REST_S)
        bench.want("b", Priority.BIND, 0.01)
        await asyncio.sleep(0.02)
        for number in range(10):
            bench.want(f"e{number}", Priority.EVENT, 0.75 * REST_S)
        await asyncio.sleep(0.5 * REST_S)
        assert bench.served == ["b", "e0"]
        await asyncio.sleep(0.35 * REST_S)  # the second goes alone too
        assert bench.served == ["b", "e0", "e1"]
        await asyncio.sleep(0.15 * REST_S)  # bindings have rested, and the second Event is still under way
        assert bench.served == ["b", *(f"e{number}" for number in range(9))]
        await bench.all()

    run_virtual(scenario())


def test_hardly_any_event_goes_while_bindings_are_under_way() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        bench.want("b", Priority.BIND, 3.5 * EVENT_PERIOD_S)
        for number in range(20):
            bench.want(f"e{number:02}", Priority.EVENT, 0.1 * EVENT_PERIOD_S)
        await asyncio.sleep(3.4 * EVENT_PERIOD_S)
        assert bench.served == ["b", "e00", "e01", "e02", "e03"]  # at once, and after each period
        await asyncio.sleep(1.2 * EVENT_PERIOD_S)
        assert len(bench.served) == 1 + 4 + 11  # one after the other, since the binding was answered
        await bench.all()

    run_virtual(scenario())


def test_events_in_one_write_go_when_one_may_and_delay_the_next_like_as_many() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        binding = bench.slots.begin(Priority.BIND)
        assert binding is not None
        events = bench.slots.begin_events(3)
        assert events is not None
        assert len(events) == 3
        assert bench.slots.under_way == 4
        assert bench.slots.begin_events(1) is None  # others are under way
        for slot in events:
            bench.slots.ended(slot, None)
        await asyncio.sleep(2.5 * EVENT_PERIOD_S)
        assert bench.slots.begin_events(1) is None
        await asyncio.sleep(0.6 * EVENT_PERIOD_S)
        last = bench.slots.begin_events(1)
        assert last is not None
        for slot in (*last, binding):
            bench.slots.ended(slot, None)
        assert bench.slots.under_way == 0

    run_virtual(scenario())


def test_an_event_that_is_due_goes_though_a_binding_hangs() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        bench.want("b", Priority.BIND, 60.0)
        for name in ("e1", "e2", "e3"):
            bench.want(name, Priority.EVENT, 0.0)
        await asyncio.sleep(2.5 * EVENT_PERIOD_S)
        assert bench.served == ["b", "e1", "e2", "e3"]
        await bench.all()

    run_virtual(scenario())


class Flood:
    """As many bindings as there are slots, all the time, and Events of a recorder that wait with them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.written = 0
        self.under_way = self.most_under_way = 0
        self._tasks = [asyncio.ensure_future(self._bind()) for _ in range(bench.slots.limit.value)]

    async def _bind(self) -> None:
        while True:
            async with self.bench.slots.taken(Priority.BIND):
                await asyncio.sleep(0.9 * OVERDUE_S)

    async def write(self, seconds: float) -> None:
        """One worker: writes Events of which some have been waiting since now."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        while True:
            await self.bench.slots.take(Priority.EVENT, loop.time() - start_s)
            async with self.bench.slots.taken(Priority.EVENT, is_held=True):
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                await asyncio.sleep(seconds)
                self.under_way -= 1
                self.written += 1

    async def write_groups(self, seconds: float, size: int) -> None:
        """One worker: writes `size` Events in each write, which the apiserver answers one after the other."""
        loop, slots = asyncio.get_running_loop(), self.bench.slots
        start_s = loop.time()
        while True:
            await slots.take(Priority.EVENT, loop.time() - start_s)
            sent = slots.sent_events(size)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                while sent:
                    await asyncio.sleep(seconds)
                    slots.ended(sent.pop(0), None)
                    self.written += 1
            finally:
                for slot in sent:
                    slots.drop(slot)
            self.under_way -= 1

    def start_writers(self, count: int, seconds: float, size: int = 1) -> None:
        works = [self.write(seconds) if size == 1 else self.write_groups(seconds, size) for _ in range(count)]
        self._tasks += map(asyncio.ensure_future, works)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.bench.slots.under_way == 0


def test_the_share_of_events_that_wait_long_doubles_up_to_a_quarter_of_the_limit_however_many_wait() -> None:
    async def scenario() -> None:
        bench = Bench(32)
        bench.slots.limit.value = 32
        flood = Flood(bench)
        await asyncio.sleep(0)
        flood.start_writers(64, 0.05)
        most = []
        for _ in range(6):
            flood.most_under_way = 0
            await asyncio.sleep(PATIENCE_S - 0.1)
            most.append(flood.most_under_way)
            await asyncio.sleep(0.1)
        assert most == [1, 2, 4, 8, 8, 8]
        await flood.stop()

    run_virtual(scenario())


def test_in_a_flood_no_more_events_start_in_a_period_than_their_share() -> None:
    async def scenario() -> None:
        bench = Bench(32)
        bench.slots.limit.value = 32
        flood = Flood(bench)
        await asyncio.sleep(0)
        flood.start_writers(64, 0.0)
        written = []
        for _ in range(4):
            await asyncio.sleep(PATIENCE_S)
            written.append(flood.written)
            flood.written = 0
        a_share = PATIENCE_S / EVENT_PERIOD_S
        assert written == pytest.approx([a_share, 2 * a_share, 4 * a_share, 8 * a_share], rel=0.02)
        await flood.stop()

    run_virtual(scenario())


def test_events_in_one_write_count_as_one_under_way_and_start_as_seldom_as_single_ones() -> None:
    async def scenario(seconds: float) -> tuple[list[int], list[int]]:
        bench = Bench(32)
        bench.slots.limit.value = 32
        flood = Flood(bench)
        await asyncio.sleep(0)
        flood.start_writers(64, seconds, size=4)
        most, written = [], []
        for _ in range(4):
            flood.most_under_way = 0
            await asyncio.sleep(PATIENCE_S - 0.1)
            most.append(flood.most_under_way)
            await asyncio.sleep(0.1)
            written.append(flood.written)
            flood.written = 0
        await flood.stop()
        return most, written

    most, written = run_virtual(scenario(0.05))
    assert most == [1, 2, 4, 8]
    a_share = PATIENCE_S / 0.05
    assert written == pytest.approx([a_share, 2 * a_share, 4 * a_share, 8 * a_share], rel=0.05)
    _, written = run_virtual(scenario(0.0))
    a_share = PATIENCE_S / EVENT_PERIOD_S
    assert written == pytest.approx([a_share, 2 * a_share, 4 * a_share, 8 * a_share], rel=0.05)


def test_the_share_grows_though_nothing_ends() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        bench.slots.limit.value = 8
        bench.want("b", Priority.BIND, 0.9 * OVERDUE_S)
        await asyncio.sleep(0)
        for name in ("e1", "e2"):
            bench.want(name, Priority.EVENT, 0.8 * OVERDUE_S)
        waits_already = asyncio.ensure_future(bench.slots.take(Priority.EVENT, PATIENCE_S - 0.5))
        await asyncio.sleep(0.49)
        assert bench.served == ["b", "e1"]
        await asyncio.sleep(0.02)
        assert bench.served == ["b", "e1", "e2"]
        await asyncio.wait([waits_already])
        bench.slots.give_back(Priority.EVENT)
        await bench.all()

    run_virtual(scenario())


def test_an_event_is_served_at_once_by_a_timer_of_uvloop_that_is_due_already() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(8))
        assert slots.try_take(Priority.BIND)
        assert slots.try_take(Priority.EVENT)
        await slots.take(Priority.EVENT, PATIENCE_S - 1e-4)
        assert slots.under_way == 3
        slots.close()

    uvloop.run(scenario())


def test_events_that_have_not_waited_start_with_one_again() -> None:
    async def scenario() -> None:
        bench = Bench(32)
        bench.slots.limit.value = 32
        flood = Flood(bench)
        await asyncio.sleep(0)
        flood.start_writers(64, 0.05)
        await asyncio.sleep(3 * PATIENCE_S)
        await flood.stop()
        flood = Flood(bench)
        await asyncio.sleep(0)
        flood.start_writers(64, 0.05)
        await asyncio.sleep(0.9 * PATIENCE_S)
        assert flood.most_under_way == 1
        await flood.stop()

    run_virtual(scenario())


def test_statuses_are_not_held_back_for_bindings() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        bench.want("b", Priority.BIND)
        bench.want("s1", Priority.STATUS)
        bench.want("s2", Priority.STATUS)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.served == ["b", "s1", "s2"]
        await bench.all()

    run_virtual(scenario())


# --- overdue --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", Priority)
def test_what_hangs_stops_counting_once_others_sent_later_are_answered(kind: Priority) -> None:
    async def scenario() -> None:
        bench = Bench(8)
        await asyncio.sleep(REST_S)
        for number in range(3):
            bench.want(f"hangs{number}", kind, 30.0)
        await asyncio.sleep(0.1)
        bench.want("quick", kind, 0.01)
        await asyncio.sleep(OVERDUE_S - 0.15)
        assert (bench.slots.under_way, bench.slots.overdue) == (3, 0)
        await asyncio.sleep(0.1)
        assert (bench.slots.under_way, bench.slots.overdue) == (0, 3)
        await bench.all()
        assert bench.slots.overdue == 0

    run_virtual(scenario())


def test_where_no_binding_is_answered_slots_come_free_one_at_a_time_until_one_is() -> None:
    async def scenario() -> None:
        bench = Bench(100)
        for number in range(50):
            bench.want(f"hangs{number}", Priority.BIND, 30.0)
        for number in range(105):
            bench.want(f"quick{number}", Priority.BIND, 0.01)
        await asyncio.sleep(OVERDUE_S - 0.01)
        assert len(bench.served) == 8
        await asyncio.sleep(0.01 + 10.5 * FREE_PERIOD_S)
        assert len(bench.served) == 8 + 11
        await asyncio.sleep(3.0 - asyncio.get_running_loop().time())
        assert len(bench.served) == 155
        await bench.all()

    run_virtual(scenario())


def test_an_apiserver_that_is_slow_for_all_is_not_flooded() -> None:
    async def scenario() -> None:
        bench = Bench(30)
        most = 0
        for number in range(300):
            bench.want(f"b{number}", Priority.BIND, 8.0)
        for number in range(100):
            bench.want(f"e{number}", Priority.EVENT, 8.0)
        for _ in range(1000):
            await asyncio.sleep(0.1)
            most = max(most, bench.slots.under_way + bench.slots.overdue)
            assert bench.slots.overdue <= 2 * 30
        assert most <= 30 + 8 + 30 + 8
        # It has become known as slow: nothing is overdue any more.
        assert bench.slots.overdue == 0
        await bench.all()

    run_virtual(scenario())


def test_overdue_failures_do_not_lower_the_limit() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(100))
        assert slots.try_take(Priority.BIND)
        slot = slots.sent(Priority.BIND, lambda: None)
        await asyncio.sleep(0.5)
        async with slots.taken(Priority.BIND):
            pass
        await asyncio.sleep(1.0)
        assert slot.is_overdue
        slots.ended(slot, Unreachable("timed out"))
        assert slots.limit.value == 8
        assert (slots.under_way, slots.overdue) == (0, 0)

    run_virtual(scenario())


def test_repeats_that_hang_take_no_slot_from_first_tries() -> None:
    async def scenario() -> None:
        bench = Bench(8)
        for number in range(20):
            bench.want(f"r{number}", Priority.REPEAT, 30.0)
        await asyncio.sleep(0)
        for number in range(8):
            bench.want(f"b{number}", Priority.BIND, 0.5)
        await asyncio.sleep(0.1)
        assert bench.served == ["r0", "r1", "r2", "r3", *(f"b{number}" for number in range(8))]
        await bench.all()

    run_virtual(scenario())


WANTED = st.tuples(st.sampled_from(Priority), st.floats(0.0, 0.3), st.floats(0.0, 0.3))  # kind, when, for how long


@settings(deadline=None)
@given(st.lists(WANTED, max_size=40), st.integers(1, 6))
def test_everybody_is_served_and_no_binding_waits_for_another_kind(
    wanted: list[tuple[Priority, float, float]], ceiling: int
) -> None:
    async def scenario() -> None:
        bench = Bench(ceiling)
        under_way = 0  # bindings
        served = 0

        async def want(priority: Priority, start_s: float, seconds: float) -> None:
            nonlocal under_way, served
            await asyncio.sleep(start_s)
            is_bind = priority is Priority.BIND
            had_room = under_way < bench.slots.limit.value
            if is_bind and had_room:
                assert bench.slots.try_take(priority)
            elif not bench.slots.try_take(priority):
                await bench.slots.wait(priority)
            under_way += is_bind
            await asyncio.sleep(seconds)
            under_way -= is_bind
            served += 1
            bench.slots.give_back(priority)

        await asyncio.gather(*(want(*each) for each in wanted))
        assert served == len(wanted)
        assert bench.slots.under_way == 0

    run_virtual(scenario())
