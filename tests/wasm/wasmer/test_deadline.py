"""Deadlines of wasmer's guests on clocks that the test moves; the same rules as wasmtime's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import wasmtime

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance, Limits
from kscheduler.wasm.wasmer.library import bind_library
from kscheduler.wasm.wasmer.modules import TICK_S, WasmerEngine
from tests.wasm.conformance.conftest import made_engine

TURNING = """
(module
  (import "host" "turn" (func $turn))
  (func (export "turns") (param $n i32)
    (loop (call $turn) (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))
"""
STARTING = """
(module
  (import "host" "turn" (func $turn))
  (func $start (loop (call $turn) (br 0)))
  (start $start))
"""


class Scene:
    """A guest with a deadline of 20 ms; each turn of its loop takes what the test says, and a tick of the watch."""

    def __init__(self) -> None:
        made_engine("wasmer")
        self.library_version = bind_library()
        self.engine = WasmerEngine(self.library_version)
        self.cpu_s = self.wall_s = 1000.0
        self.takes = (0.0, 0.0)  # CPU time and time on the wall, of each turn
        self.turns = 0
        self.functions = [HostFunction("host", "turn", "", "", self._turn)]
        self.engine.watch.freeze(self.cpu_s, self.wall_s)
        module = self.engine.compile(bytes(wasmtime.wat2wasm(TURNING)))
        self.guest = module.instantiate(self.functions, Limits(deadline_s=0.020))

    def _turn(self, _instance: Instance) -> None:
        self.turns += 1
        self.cpu_s += self.takes[0]
        self.wall_s += self.takes[1]
        self.engine.watch.freeze(self.cpu_s, self.wall_s)
        self.engine.watch.advance()

    def run(self, turns: int, cpu_s: float, wall_s: float) -> GuestFault | None:
        """How a call ended."""
        self.takes, self.turns = (cpu_s, wall_s), 0
        try:
            self.guest.call("turns", turns)
        except GuestFault as fault:
            return fault
        return None


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.guest.close()


def test_a_guest_that_was_kept_off_the_cpu_is_not_stopped(scene: Scene) -> None:
    assert scene.run(20, cpu_s=0.0005, wall_s=0.05) is None
    assert not scene.guest.is_broken


def test_a_guest_that_used_up_its_cpu_time_is_stopped_within_two_ticks_of_its_deadline(scene: Scene) -> None:
    fault = scene.run(1000, cpu_s=TICK_S, wall_s=TICK_S)
    assert fault is not None
    assert (fault.kind, fault.message) == (FaultKind.DEADLINE, "turns: ran longer than 20 ms")
    ticks = 0.020 / TICK_S
    assert ticks < scene.turns <= ticks + 2
    assert scene.guest.is_broken


def test_cpu_time_counts_however_the_wall_clock_goes(scene: Scene) -> None:
    fault = scene.run(1000, cpu_s=TICK_S, wall_s=0.1)
    assert fault is not None
    assert fault.message == "turns: ran longer than 20 ms"


def test_a_guest_that_waits_for_ever_is_stopped_too(scene: Scene) -> None:
    fault = scene.run(1000, cpu_s=0.0, wall_s=0.1)
    assert fault is not None
    assert (fault.kind, fault.message) == (
        FaultKind.DEADLINE,
        "turns: did not end within 2000 ms, though it ran for less than 20 ms",
    )
    assert 2.0 <= scene.turns * 0.1 < 4.0


def test_each_call_has_the_whole_deadline(scene: Scene) -> None:
    for _ in range(3):
        assert scene.run(9, cpu_s=TICK_S, wall_s=TICK_S) is None
    scene.guest.deadline_s = 0.004
    assert scene.run(9, cpu_s=TICK_S, wall_s=TICK_S) is not None


def test_a_call_that_ends_as_its_time_does_leaves_the_next_one_alone(scene: Scene) -> None:
    """The watch ends the call in its last turn, after which the guest asks no more."""
    assert scene.run(8, cpu_s=0.003, wall_s=0.003) is None  # 21 ms after the first tick, in the last turn
    assert scene.run(5, cpu_s=0.003, wall_s=0.003) is None
    assert scene.run(9, cpu_s=0.003, wall_s=0.003) is not None


def test_a_start_section_has_a_deadline_of_cpu_time(scene: Scene) -> None:
    scene.takes = (TICK_S, 0.01)
    module = scene.engine.compile(bytes(wasmtime.wat2wasm(STARTING)))
    with pytest.raises(GuestFault, match="start section: ran longer than 10 ms") as caught:
        module.instantiate(scene.functions, Limits(start_deadline_s=0.010))
    assert caught.value.kind is FaultKind.DEADLINE


def test_the_watch_ends_and_begins_again(scene: Scene) -> None:
    engine = WasmerEngine(scene.library_version)
    module = engine.compile(bytes(wasmtime.wat2wasm('(module (func (export "spin") (loop br 0)))')))
    for _ in range(2):
        guest = module.instantiate((), Limits(deadline_s=0.005))
        with pytest.raises(GuestFault, match="spin: ran longer than 5 ms"):
            guest.call("spin")
        assert "wasm-watch" in {each.name for each in threading.enumerate()}
        guest.close()
        engine.watch.stop()


def test_a_call_that_cannot_be_watched_is_not_made(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    engine = WasmerEngine(scene.library_version)
    module = engine.compile(bytes(wasmtime.wat2wasm('(module (func (export "spin") (loop br 0)))')))
    guest = module.instantiate((), Limits(deadline_s=0.005))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                guest.call("spin")
    with pytest.raises(GuestFault, match="spin: ran longer than 5 ms"):
        guest.call("spin")
    guest.close()
    engine.watch.stop()
