"""A fault after every step of a batch: no room leaks, no pod is lost, none is bound twice.

A hook sees every call of our functions, and raises in the first, the second, and so on, until a batch has fewer: so
steps that are added later are covered as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kscheduler
from kscheduler.api.objects import LabelSelector, Pod, TopologySpreadConstraint
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.errors import APIError, Conflict, InternalError, Unreachable
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.cycle.bench import NAME, Bench, Steps
from tests.support.checks import check_cache
from tests.support.spreads import spread

OURS = str(Path(kscheduler.__file__).parent)
PODS = 3
# From the first of these on: before, no pod of the batch is decided, and nothing is counted.
BEGIN = {"place", "schedule"}
# Closing a generator is a call, too, but nothing that is raised there goes anywhere; and the fence around an answer.
PASSED_OVER = {"<genexpr>"}
AFTER = {"finish_binding", "bind"}
FENCE = "ScheduleOne.finish_binding"


class Injected(Exception):
    """A bug, anywhere."""


def _makes_a_key(frame: FrameType | None) -> bool:
    """A hint's key that cannot be computed makes its pod a group of one: that is as it should be."""
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_name == "_key" and frame.f_code.co_filename.endswith("waiting_groups.py"):
            return True
        frame = frame.f_back
    return False


class Hook:
    """Raises in call number `at` of a function of ours, from the first decision on."""

    def __init__(self, at: int, error: type[BaseException] = Injected) -> None:
        self.at = at
        self.error = error
        self.calls = -1  # not begun
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(OURS) or code.co_name in PASSED_OVER:
            return
        if _makes_a_key(frame):
            return
        if self.calls < 0:
            if code.co_name in BEGIN | AFTER:
                self.calls = 0
            if code.co_name not in BEGIN:
                return
        if code.co_qualname == FENCE:
            return
        self.calls += 1
        if self.calls == self.at:
            self.where = f"{Path(code.co_filename).name}:{code.co_name}"
            raise self.error(self.where)

    def run(self, function: Callable[[], object]) -> None:
        sys.setprofile(self)
        try:
            function()
        finally:
            sys.setprofile(None)


class World(Bench):
    """Three nodes, and pods that come all at once; the lane if there is one. `steps`: a plugin has a say in Reserve."""

    def __init__(self, kind: str, *, lane: bool, steps: bool = True) -> None:
        super().__init__({"reserve": [Steps()]} if steps else None)
        for zone in "abc":
            node = make_node(f"n-{zone}").label("zone", zone).label("kubernetes.io/hostname", f"n-{zone}")
            self.cache.set_node(node.capacity(cpu="4", memory="8Gi", pods=20).obj())
        self.bound_to: list[tuple[str, str]] = []
        self.batch = ScheduleBatch(
            self.queue,
            self.cache,
            {NAME: self.framework},
            self.one,
            CompiledLane({NAME: self.framework}, self.handle, Measurements(self.metrics), self.clock.now, threads=1)
            if lane
            else None,
            dispatch=self._dispatch,
            clock=self.clock,
            stopwatch=self.clock.now,
            decisions=None,
        )
        self.one._decisions = DecisionLog(DecisionLogOptions(), self.cache.table, self.clock, self.clock.now)
        self.batch._size = PODS  # as after batches that went well
        self.uids = [self.come(pod) for pod in PODS_OF[kind]()]
        self.huge = int(kind == "one fits nowhere")

    def come(self, pod: Pod) -> str:
        self.watched[pod.key] = pod
        self.queue.add(PodInfo(pod), self.clock.now())
        return pod.metadata.uid

    def _dispatch(self, cycle: BindingCycle) -> None:
        self.bound_to.append((cycle.pod.uid, cycle.node_name))

    def run(self) -> None:
        self.batch.run(self.clock.now(), PODS)

    def finish(self) -> None:
        """All that is left, without a fault."""
        for _ in range(200):
            self.clock.advance(1.0)
            self.queue.flush(self.clock.now())
            self.run()
            if len(self.queue) == self.huge:
                return
        raise AssertionError(f"{len(self.queue)} pods still wait")

    def check(self) -> None:
        """Room is held for whom a binding was handed over, and for nobody else; all others wait."""
        check_cache(self.cache)
        self.queue.check()
        handed_over = dict(self.bound_to)
        assert len(handed_over) == len(self.bound_to), "a binding was handed over twice"
        assert {state.pod.uid: state.node_name for state in self.cache.pods()} == handed_over
        for uid in self.uids:
            assert (self.queue.get(uid) is not None) != (uid in handed_over), f"{uid} is lost, or queued and bound"
            assert self.queue.is_in_flight(uid) == (uid in handed_over)


def with_ports() -> list[Pod]:
    return [make_pod(f"p{i}").label(app="a").req(cpu="500m").host_port(8000 + i).obj() for i in range(PODS)]


def equal() -> list[Pod]:
    return [make_pod(f"p{i}").label(app="a").req(cpu="500m", memory="1Gi").obj() for i in range(PODS)]


def joined() -> list[Pod]:
    evenly = TopologySpreadConstraint(1, "zone", "DoNotSchedule", LabelSelector({"app": "a"}))
    pods = [make_pod(f"p{i}").label(app="a").req(cpu="500m") for i in range(PODS)]
    return [spread(pod.pod_anti_affinity("rack", {"app": "b"}).obj(), evenly) for pod in pods]


def with_one_huge() -> list[Pod]:
    return [make_pod(f"p{i}").label(app="a").req(cpu="99" if i == 1 else "500m").obj() for i in range(PODS)]


PODS_OF: dict[str, Callable[[], list[Pod]]] = {
    "equal": equal,
    "joined": joined,
    "with ports": with_ports,
    "one fits nowhere": with_one_huge,
}


@pytest.mark.slow
@pytest.mark.parametrize("lane", [True, False], ids=["compiled", "general"])
@pytest.mark.parametrize("kind", PODS_OF)
def test_a_fault_in_any_step_leaks_no_room_and_loses_no_pod(kind: str, lane: bool) -> None:
    seen, faults = _fail_in_each_step(partial(World, kind, lane=lane))
    assert {"node_table.py:add_counted_pods", "pod_labels.py:add_pods", "schedule_one.py:_reserve"} <= seen
    assert faults > 10 * PODS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["equal", "joined"])
def test_a_fault_among_pods_that_are_merely_bound_leaks_no_room_and_loses_no_pod(kind: str) -> None:
    seen, _ = _fail_in_each_step(partial(World, kind, lane=True, steps=False))
    assert {"schedule_one.py:begin_bindings", "schedule_one.py:record_placed", "ring.py:add_many"} <= seen


def _fail_in_each_step(make_world: Callable[[], World]) -> tuple[set[str], int]:
    """Inject a fault in the first call, the second, and so on. Returns where, and how many calls there are."""
    seen: set[str] = set()
    at = 0
    while True:
        at += 1
        world = make_world()
        hook = Hook(at)
        try:
            hook.run(world.run)
            world.check()
            world.finish()
            world.check()
        except BaseException as error:
            raise AssertionError(
                f"after a fault in call {at}, {hook.where}: {type(error).__name__}: {error}"
            ) from error
        assert len(world.bound_to) == PODS - world.huge
        if not hook.where:
            return seen, at
        seen.add(hook.where)


@pytest.mark.parametrize("error", [None, Unreachable("no answer"), Conflict("bound already", status=409)], ids=str)
@pytest.mark.parametrize("is_direct", [True, False], ids=["on the lane", "as a task"])
def test_a_fault_after_the_answer_to_a_binding_leaves_the_pod_bound_or_queued(
    error: APIError | None, is_direct: bool
) -> None:
    at = 0
    while True:
        at += 1
        world = World("equal", lane=False)
        queued = world.queue.pop(world.clock.now())
        assert queued is not None
        cycle = world.one.schedule(queued)
        assert cycle is not None
        world.answer = error
        hook = Hook(at)

        with contextlib.suppress(Injected), contextlib.closing(asyncio.new_event_loop()) as loop:
            if is_direct:
                hook.run(partial(world.one.finish_binding, cycle, error))
            else:
                hook.run(partial(loop.run_until_complete, world.one.bind(cycle)))
        check_cache(world.cache)
        world.queue.check()
        uid = queued.uid
        is_held, is_waiting = world.cache.is_assumed(uid), world.queue.get(uid) is not None
        assert is_held != is_waiting, f"after a fault in call {at}, {hook.where}: held {is_held}, queued {is_waiting}"
        if error is not None:
            assert is_waiting
        if not hook.where:
            break
    assert at > 5


def test_an_interrupt_is_not_swallowed() -> None:
    for at in range(1, 300, 7):
        world = World("equal", lane=True)
        with pytest.raises(KeyboardInterrupt):
            Hook(at, KeyboardInterrupt).run(world.run)


@pytest.mark.parametrize("lane", [True, False], ids=["compiled", "general"])
def test_want_of_memory_is_not_swallowed(lane: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    world = World("equal", lane=lane)
    monkeypatch.setattr(world.cache, "assume_counted" if lane else "assume", fail)
    with pytest.raises(MemoryError):
        world.run()


def test_a_fault_while_all_is_counted_again_is_noticed_and_mended_before_the_next_decision(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World("equal", lane=True)
    table = world.cache.table
    with monkeypatch.context() as patch:
        patch.setattr(table.counters, "add_pods", _fail)
        patch.setattr(table, "recount", _fail)
        world.run()
        with pytest.raises(InternalError, match="nothing can be decided"):
            world.finish()
    assert "no pod is decided until it succeeds" in caplog.text
    world.finish()
    world.check()
    assert len(world.bound_to) == PODS


def test_a_pod_that_cannot_be_taken_off_its_node_is_gone_nevertheless(caplog: pytest.LogCaptureFixture) -> None:
    world = World("with ports", lane=True)
    world.finish()
    uid, _ = world.bound_to.pop()
    port = world.cache.table.ports
    ports, port._taken = port._taken, {}  # a bug has lost them
    world.cache.remove_pod(uid)
    assert "counted again" in caplog.text
    check_cache(world.cache)
    assert len(port._taken) == len(ports) - 1


def _fail(*_: object) -> None:
    raise Injected
