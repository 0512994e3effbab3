"""The thread that makes deadlines: it ticks while calls run, rests otherwise, and is gone after a fork."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
import wasmtime

from kscheduler.testing.controlplane.patience import eventually
from kscheduler.wasm.engine import FaultKind, GuestFault, Limits
from kscheduler.wasm.wasmtime.modules import WasmtimeEngine

SPIN = bytes(wasmtime.wat2wasm('(module (func (export "spin") (loop br 0)) (func (export "fine")))'))


@pytest.fixture
def engine() -> Iterator[WasmtimeEngine]:
    made = WasmtimeEngine()
    yield made
    made.epoch.stop()


def kind_of_spin(engine: WasmtimeEngine) -> FaultKind | None:
    guest = engine.compile(SPIN).instantiate(limits=Limits(deadline_s=0.005))
    try:
        guest.call("spin")
    except GuestFault as fault:
        return fault.kind
    finally:
        guest.close()
    return None


def test_a_deadline_is_met_again_after_the_thread_has_rested(engine: WasmtimeEngine) -> None:
    assert kind_of_spin(engine) is FaultKind.DEADLINE
    time.sleep(0.25)  # beyond the 50 idle ticks, so that it sleeps until woken
    assert kind_of_spin(engine) is FaultKind.DEADLINE


def test_a_deadline_is_met_after_the_thread_was_stopped(engine: WasmtimeEngine) -> None:
    assert kind_of_spin(engine) is FaultKind.DEADLINE
    engine.epoch.stop()
    engine.epoch.stop()
    assert kind_of_spin(engine) is FaultKind.DEADLINE


def test_a_call_without_end_can_be_followed_by_many_short_ones(engine: WasmtimeEngine) -> None:
    guest = engine.compile(SPIN).instantiate(limits=Limits(deadline_s=0.005))
    fine = guest.prepare("fine")
    for _ in range(1000):
        fine()
    with pytest.raises(GuestFault):
        guest.call("spin")
    guest.close()


def test_a_forked_child_has_deadlines_of_its_own(engine: WasmtimeEngine) -> None:
    assert kind_of_spin(engine) is FaultKind.DEADLINE
    child = os.fork()
    if child == 0:
        os._exit(0 if kind_of_spin(engine) is FaultKind.DEADLINE else 1)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(ended)

    try:
        eventually(has_ended)
    finally:
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert ended == [0]


def test_a_call_that_cannot_be_watched_is_not_made(engine: WasmtimeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                kind_of_spin(engine)
    assert kind_of_spin(engine) is FaultKind.DEADLINE
