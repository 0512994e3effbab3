"""What guests do in binding cycles is done beside the event loop, on the pod's own instance, one call at a time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code
from kscheduler.testing.controlplane.patience import until
from kscheduler.testing.wrappers import make_pod
from kscheduler.wasm.binding_threads import BindingThreads
from tests.wasm.extension.attempts import STEPS, Attempt
from tests.wasm.extension.keeper import KEEPER
from tests.wasm.extension.kit import Room, info, module

ENDLESS = "(loop $again (br $again))"
ASYNC_STEPS = ("pre_bind", "bind")


@pytest.fixture
def threads() -> Iterator[BindingThreads]:
    made = BindingThreads()
    yield made
    made.close()


class Waiting:
    """Pods that wait for a permit; notes who rejected them, and on which thread."""

    def __init__(self) -> None:
        self.pod = info(make_pod("waiting"))
        self.rejections: list[tuple[str, str, int]] = []

    def get(self, uid: str) -> Any:
        return self if uid == self.pod.uid else None

    def reject(self, plugin: str, message: str) -> None:
        self.rejections.append((plugin, message, threading.get_ident()))


def room_beside(data: bytes, threads: BindingThreads, **options: Any) -> Room:
    room = Room(data, **options)
    room.surroundings.threads = threads
    return room


@pytest.mark.parametrize(("point", "export"), [("pre_bind", "prebind"), ("bind", "bind")])
async def test_the_loop_runs_on_while_a_guest_takes_its_whole_deadline(
    point: str, export: str, threads: BindingThreads
) -> None:
    room = room_beside(module(**{"bind": "(i32.const 0)", export: f"{ENDLESS} (i32.const 0)"}), threads)
    asked = asyncio.ensure_future(getattr(room.plugin, point)(CycleState(), info(), "n1"))
    turns = 0
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    status = asked.result()
    assert status.code is Code.ERROR
    assert f"wasm: {export} error" in status.reasons[0]
    assert turns > 10  # of a loop that was held up it would be one or two
    assert (room.pool.holders, room.pool.instances) == (0, 0)


async def test_post_bind_and_unreserve_do_not_hold_the_loop_up(threads: BindingThreads) -> None:
    ends = {"reserve": "(i32.const 0)", "unreserve": ENDLESS, "postbind": ENDLESS, "bind": "(i32.const 0)"}
    room = room_beside(module(**ends), threads)
    for end in ("post_bind", "unreserve"):
        attempt = Attempt(room, info(make_pod(end)))
        attempt.reserve()
        getattr(attempt, end)()
        assert room.pool.holders == 1  # the guest is still at it
        await until(lambda: room.pool.holders == 0)
    assert room.pool.instances == 0


async def test_a_pod_keeps_its_instance_beside_the_loop_too(threads: BindingThreads) -> None:
    """The guest traps if an instance is another pod's, or is not begun; a trap in PostBind would cost the instance."""
    room = room_beside(KEEPER, threads)

    async def go(name: str) -> None:
        attempt = Attempt(room, info(make_pod(name)))
        for step in STEPS[:3]:
            step(attempt)
        for point in ASYNC_STEPS:
            assert await getattr(room.plugin, point)(attempt.state, attempt.pod, "n1") is None
        attempt.post_bind()

    await asyncio.gather(*(go(f"p{number}") for number in range(20)))
    await until(lambda: room.pool.holders == 0)
    assert room.pool.instances > 0


async def test_an_attempt_whose_instance_was_lost_begins_again_beside_the_loop(threads: BindingThreads) -> None:
    begun = {
        "globals_": "(global $begun (mut i32) (i32.const 0))",
        "prefilter": "(global.set $begun (i32.const 1)) (i32.const 0)",
        "bind": "(i32.sub (i32.const 1) (global.get $begun))",
    }
    room = room_beside(module(**begun), threads)
    assert await room.plugin.bind(CycleState(), info(), "n1") is None
    trapping = room_beside(module(bind="(i32.const 0)", prefilter="unreachable"), threads)
    status = await trapping.plugin.bind(CycleState(), info(), "n1")
    assert (status.code, trapping.pool.instances) == (Code.ERROR, 0)


async def test_an_instance_that_cannot_be_had_is_reported(threads: BindingThreads) -> None:
    room = room_beside(module(bind="(i32.const 0)"), threads)
    room.pool.close()
    status = await room.plugin.bind(CycleState(), info(), "n1")
    assert "it is being replaced or stopped" in status.reasons[0]


async def test_a_call_that_nobody_waits_for_any_more_ends_before_the_next_one_begins(
    threads: BindingThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = "(drop (call $node (i32.const 16) (i32.const 2) (i32.const 64) (i32.const 1000)))"
    ok = "(i32.const 0)"
    guest = module("node", text="n1", bind=ok, reserve=ok, prebind=f"{asks} {ok}", unreserve=asks)
    room = room_beside(guest, threads, deadline="10s")
    may_end = threading.Event()
    inside: list[str] = []

    def node(name: str) -> bytes:
        inside.append("in")
        may_end.wait()
        inside.append("out")
        return b""

    monkeypatch.setattr(room.plugin._world, "node", node)
    attempt = Attempt(room, info())
    attempt.reserve()
    asked = asyncio.ensure_future(room.plugin.pre_bind(attempt.state, attempt.pod, "n1"))
    await until(lambda: inside == ["in"])
    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked
    attempt.unreserve()
    await asyncio.sleep(0.05)
    assert inside == ["in"]
    may_end.set()
    await until(lambda: room.pool.holders == 0)
    assert inside == ["in", "out"] * 2
    assert room.pool.instances == 1  # no fault cost it


async def test_an_attempt_that_is_let_go_meanwhile_gives_its_instance_back(threads: BindingThreads) -> None:
    room = room_beside(module(bind=f"{ENDLESS} (i32.const 0)"), threads)
    asked = asyncio.ensure_future(room.plugin.bind(CycleState(), info(), "n1"))
    await until(lambda: room.pool.holders == 1)
    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asked
    del asked
    await until(lambda: gc.collect() >= 0 and bool(room.plugin._cycles.dropped))  # the thread lets go of it last
    assert room.pool.instances == 0
    await room.plugin.bind(CycleState(), info(make_pod("q")), "n1")
    assert room.pool.holders == 0


async def test_what_a_guest_sets_going_is_done_by_the_loops_thread(threads: BindingThreads) -> None:
    waiting = Waiting()
    event = '{"RegardingReference": {"Kind": "Pod", "Name": "p"}, "Reason": "Recorded"}'
    size, uid = len(event), waiting.pod.uid
    records = f"(call $eventf (i32.const 16) (i32.const {size}))"
    rejects = f"(call $reject (i32.const {16 + size}) (i32.const {len(uid)}) (i32.const 4096) (i32.const 8))"
    guest = module("eventf", "reject", text=event + uid, bind=f"{records} {rejects} (i32.load (i32.const 4096))")
    room = room_beside(guest, threads, waiting_pods=waiting)
    recorded_on: list[int] = []
    record = room.recorder.record

    def noting(*args: Any, **fields: Any) -> None:
        recorded_on.append(threading.get_ident())
        record(*args, **fields)

    room.recorder.record = noting  # type: ignore[method-assign]
    status = await room.plugin.bind(CycleState(), info(), "n1")
    assert status.code is Code.ERROR  # 1: the guest learned at once that the pod was waiting
    assert [event[2] for event in room.recorder.events] == ["Recorded"]
    me = threading.get_ident()
    assert (recorded_on, waiting.rejections) == ([me], [("guest", "removed", me)])
