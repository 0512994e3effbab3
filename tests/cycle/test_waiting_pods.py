"""Pods held by Permit plugins, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kscheduler.cycle.waiting_pods import WaitingPod, WaitingPods
from kscheduler.framework.status import Code, Status
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod

POD = PodInfo(make_pod("p").obj())


def decide(
    waits: dict[str, float], *steps: tuple[float, Callable[[WaitingPod], object]]
) -> tuple[Status | None, float]:
    """What became of a pod, and when, after steps at these seconds."""

    async def scenario() -> tuple[Status | None, float]:
        loop = asyncio.get_running_loop()
        waiting = WaitingPods().add(POD, waits)
        for at_s, step in steps:
            loop.call_later(at_s, step, waiting)
        return await waiting.wait(), loop.time()

    return run_virtual(scenario())


def test_a_pod_goes_on_when_every_plugin_has_allowed_it() -> None:
    status, at_s = decide({"a": 10, "b": 10}, (1, lambda pod: pod.allow("a")), (3, lambda pod: pod.allow("b")))
    assert (status, at_s) == (None, 3)


def test_the_first_rejection_decides_and_is_signed_by_its_plugin() -> None:
    status, at_s = decide(
        {"a": 10, "b": 10},
        (1, lambda pod: pod.allow("a")),
        (2, change_ones_mind),
    )
    assert (status, at_s) == (Status(Code.UNSCHEDULABLE, ("no",), "b"), 2)


def change_ones_mind(pod: WaitingPod) -> None:
    pod.reject("b", "no")
    pod.reject("b", "no again")
    pod.allow("b")


def test_a_reason_that_is_no_text_fails_where_the_plugin_gives_it_and_the_pod_waits_on() -> None:
    def reject(pod: WaitingPod) -> None:
        with pytest.raises(TypeError, match="expected the reason as a text, got a NoneType"):
            pod.reject("a", None)  # type: ignore[arg-type]

    status, at_s = decide({"a": 10}, (1, reject), (3, lambda pod: pod.reject("a", "no \ud800")))
    assert (status, at_s) == (Status(Code.UNSCHEDULABLE, ("no \ufffd",), "a"), 3.0)


def test_the_shortest_time_that_runs_out_rejects() -> None:
    status, at_s = decide({"a": 10, "b": 5})
    assert at_s == 5
    assert status == Status(
        Code.UNSCHEDULABLE, ("rejected due to timeout after waiting 5s at plugin b",), "b"
    )  # fmt: skip


def test_a_plugin_that_has_allowed_the_pod_has_no_time_limit_any_more() -> None:
    status, at_s = decide({"a": 5, "b": 20}, (1, lambda pod: pod.allow("a")), (15, lambda pod: pod.allow("b")))
    assert (status, at_s) == (None, 15)


def test_leave_of_a_plugin_that_did_not_ask_for_the_wait_changes_nothing() -> None:
    status, at_s = decide({"a": 5}, (1, lambda pod: pod.allow("b")))
    assert status is not None
    assert at_s == 5


def test_a_pod_allowed_before_anybody_waits_does_not_wait() -> None:
    async def scenario() -> float:
        waiting = WaitingPods().add(POD, {"a": 5})
        waiting.allow("a")
        assert await waiting.wait() is None
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) == 0


def in_loop(check: Callable[[], Awaitable[None]]) -> None:
    async def scenario() -> None:
        await check()

    run_virtual(scenario())


def test_a_cancelled_wait_leaves_no_timer_behind() -> None:
    async def check() -> None:
        waiting = WaitingPods().add(POD, {"a": 5})
        task = asyncio.ensure_future(waiting.wait())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(10)
        assert waiting.pending_plugins == ["a"]

    in_loop(check)


def test_a_preempted_pod_goes_back_with_an_error_of_the_plugin_that_needs_its_room() -> None:
    status, at_s = decide({"a": 10}, (2, lambda pod: pod.preempt("P", "preempted")))
    assert status is not None
    assert (status.code, status.message, status.plugin, at_s) == (Code.ERROR, "preempted", "P", 2)


def test_a_pod_whose_wait_is_over_cannot_be_preempted_any_more() -> None:
    async def check() -> None:
        waiting = WaitingPods().add(POD, {"a": 5})
        waiting.allow("a")
        assert not waiting.preempt("P", "preempted")
        assert await waiting.wait() is None

    in_loop(check)


def test_waiting_pods_are_found_by_uid_until_they_are_removed() -> None:
    async def check() -> None:
        pods = WaitingPods()
        waiting = pods.add(POD, {"a": 5, "b": 5})
        assert pods.get(POD.uid) is waiting
        assert waiting.pending_plugins == ["a", "b"]
        assert len(pods) == 1
        pods.remove(POD.uid)
        pods.remove(POD.uid)
        assert pods.get(POD.uid) is None
        waiting.allow("a")
        waiting.allow("b")

    in_loop(check)
