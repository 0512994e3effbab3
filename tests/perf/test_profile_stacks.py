"""Folded stacks are read, merged, and shared out among the parts of a pod's way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.profile_stacks import EVENT_LOOP, OTHER, by_part, exclusive, fold, functions, inclusive, parse, part_of

LOOP = ("run (asyncio/runners.py:190)", "BaseEventLoop._run_once (asyncio/base_events.py:1922)")
UVLOOP = ("run_forever (loop.c)", "uv_run (core.c)", "Handle__run (loop.c)")
INFORMER = "Informer._put (kscheduler/client/informer.py:10)"
HANDLER = "PodEvents.on_add (kscheduler/watch/eventhandlers.py:20)"
SCHEDULE = "ScheduleOne.schedule (kscheduler/cycle/schedule_one.py:107)"
ASSUME = "Cache.assume (kscheduler/cache/cache.py:51)"
COUNT = "NodeColumns.add_pod (kscheduler/_fast/columns.pyx:240)"
MALLOC = "malloc (libc.so.6)"


def test_stacks_that_wait_are_left_out() -> None:
    assert parse(["a;epoll_pwait (libc.so.6) 100", "a;epoll_pwait (libc.so.6);b 1"]).total() == 1


frames = st.text(st.characters(exclude_characters=";\n\r", exclude_categories=("C", "Z")), min_size=1)
stacks = st.dictionaries(st.lists(frames, min_size=1).map(tuple), st.integers(1, 1000))


@given(stacks)
def test_folded_stacks_are_read_as_they_were(written: dict[tuple[str, ...], int]) -> None:
    assert parse(fold(written).split("\n")) == written


@given(stacks)
def test_every_sample_is_in_one_function_and_in_one_part(seen: dict[tuple[str, ...], int]) -> None:
    total = sum(seen.values())
    assert functions(seen).total() == exclusive(seen).total() == by_part(seen).total() == total


def test_line_numbers_addresses_and_the_way_to_the_loop_are_left_out() -> None:
    seen = {
        (*LOOP, INFORMER, "0x7f94 (libc.so.6)"): 1,
        (*UVLOOP, INFORMER.replace(":10", ":11"), "0x7f95 (libc.so.6)"): 2,
    }
    expected = (EVENT_LOOP, "Informer._put (kscheduler/client/informer.py)", "? (libc.so.6)")
    assert functions(seen) == {expected: 3}


def test_recursion_counts_once_for_each_sample() -> None:
    assert inclusive({("f", "g", "f"): 2}) == {"f": 2, "g": 2}


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        ((*LOOP, INFORMER), "decode, informer"),
        ((*LOOP, INFORMER, HANDLER), "event handlers"),
        ((*LOOP, INFORMER, HANDLER, "SchedulingQueue.add (kscheduler/queue/scheduling_queue.py:1)"), "queue"),
        ((*LOOP, SCHEDULE, "Framework.schedule_pod (kscheduler/framework/runtime.py:3)", MALLOC), "decide"),
        ((*LOOP, SCHEDULE, "filtering__filter_fit (kscheduler/_fast/filtering.pyx:3)"), "decide"),
        ((*LOOP, SCHEDULE, ASSUME, COUNT), "assume"),
        ((*LOOP, "ScheduleOne.bind (kscheduler/cycle/schedule_one.py:186)", MALLOC), "bind"),
        ((*LOOP, "bind (kscheduler/cycle/schedule_one.py:186)"), "bind"),
        ((*LOOP, "Binder.bind (kscheduler/client/binder.py:3)", "post (kscheduler/client/transport.py:3)"), "bind"),
        ((*LOOP, "post (kscheduler/client/transport.py:3)"), "requests"),
        ((*LOOP, "LineReader.read (kscheduler/client/http_lines.py:3)"), "decode, informer"),
        ((*LOOP, "Bindings.start (kscheduler/cycle/bindings.py:3)"), "bind"),
        ((*LOOP, SCHEDULE, "EventRecorder.record (kscheduler/client/recorder.py:9)"), "events"),
        ((*LOOP, SCHEDULE, "Family.labels (kscheduler/observability/metrics.py:9)"), "metrics"),
        ((*LOOP, SCHEDULE, "gc_collect_main (libpython3.11.so.1.0)"), "garbage collector"),
        ((*LOOP, "Cluster.bind (kscheduler/simulator/cluster.py:1)"), "simulated cluster"),
        ((*UVLOOP, "EVP_DecryptUpdate (libcrypto.so.3)"), "sockets, TLS"),
        (UVLOOP, EVENT_LOOP),
        ((EVENT_LOOP, MALLOC), EVENT_LOOP),
        ((MALLOC,), OTHER),
    ],
)
def test_innermost_frame_that_belongs_somewhere_decides(stack: tuple[str, ...], part: str) -> None:
    assert part_of(stack) == part
