"""Deadlines on clocks that the test moves: only a guest's own CPU time counts, and waiting has an end too."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import wasmtime

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance, Limits, patience_s
from kscheduler.wasm.wasmer.library import bind_library
from kscheduler.wasm.wasmer.modules import WasmerEngine
from kscheduler.wasm.wasmtime.modules import TICK_S, WasmtimeEngine
from tests.support.memory import resident_bytes
from tests.wasm.conformance.conftest import ENGINES, made_engine

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
    """A guest with a deadline of 20 ms; each turn of its loop takes what the test says, and a tick of the engine."""

    def __init__(self, engine: str) -> None:
        made_engine(engine)  # or the test is skipped
        self.engine = WasmtimeEngine() if engine == "wasmtime" else WasmerEngine(bind_library())
        self.ticks = self.engine.epoch if isinstance(self.engine, WasmtimeEngine) else self.engine.watch
        self.cpu_s = self.wall_s = 1000.0
        self.takes = (0.0, 0.0)  # CPU time and time on the wall, of each turn
        self.turns = 0
        self.functions = [HostFunction("host", "turn", "", "", self._turn)]
        self.ticks.freeze(self.cpu_s, self.wall_s)
        module = self.engine.compile(bytes(wasmtime.wat2wasm(TURNING)))
        self.guest = module.instantiate(self.functions, Limits(deadline_s=0.020))

    def _turn(self, _instance: Instance) -> None:
        self.turns += 1
        self.cpu_s += self.takes[0]
        self.wall_s += self.takes[1]
        self.ticks.freeze(self.cpu_s, self.wall_s)
        self.ticks.advance()

    def run(self, turns: int, cpu_s: float, wall_s: float) -> GuestFault | None:
        """How a call ended."""
        self.takes, self.turns = (cpu_s, wall_s), 0
        try:
            self.guest.call("turns", turns)
        except GuestFault as fault:
            return fault
        return None


@pytest.fixture(params=ENGINES)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
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


@pytest.mark.parametrize("scene", ["wasmer"], indirect=True)
def test_a_call_that_ends_as_its_time_does_leaves_the_next_one_alone(scene: Scene) -> None:
    """wasmer's watch ends the call in its last turn, after which the guest asks no more."""
    assert scene.run(8, cpu_s=0.003, wall_s=0.003) is None  # 21 ms after the first tick, in the last turn
    assert scene.run(5, cpu_s=0.003, wall_s=0.003) is None
    assert scene.run(9, cpu_s=0.003, wall_s=0.003) is not None


def test_a_start_section_has_a_deadline_of_cpu_time(scene: Scene) -> None:
    scene.takes = (TICK_S, 0.01)
    module = scene.engine.compile(bytes(wasmtime.wat2wasm(STARTING)))
    with pytest.raises(GuestFault, match="start section: ran longer than 10 ms") as caught:
        module.instantiate(scene.functions, Limits(start_deadline_s=0.010))
    assert caught.value.kind is FaultKind.DEADLINE


def test_calls_that_were_stopped_leave_nothing_behind(scene: Scene) -> None:
    module = scene.engine.compile(bytes(wasmtime.wat2wasm(TURNING)))

    def stop(times: int) -> None:
        for _ in range(times):
            scene.guest.close()
            scene.guest = module.instantiate(scene.functions)
            assert scene.run(20, cpu_s=0.03, wall_s=0.03) is not None
        gc.collect()

    stop(2_000)
    before = resident_bytes()
    stop(10_000)
    assert resident_bytes() - before < 2_000_000  # 200 bytes each would be more


def test_patience_grows_with_the_deadline() -> None:
    assert patience_s(0.020) == 2.0
    assert patience_s(1.0) == 10.0
