"""Measures what a call into a wasm guest costs, with wasmtime and with wasmer.

    python -m perf.wasm_calls
    python -m perf.wasm_calls --rounds 30

The engines take turns within each round. A figure is the median of the rounds; in brackets is the median of the ratios
to the first engine, computed within a round. `two threads` is how much more work two guests on two threads do than one
after the other (1.0: they wait for each other; 2.0: two cores), `runaway` the time from calling an endless loop until
it is interrupted, with a deadline of 20 ms, and `event loop` the maximum lateness of a timer of an event loop while
guests loop like this on a thread beside it. wasmer is left out if its library is not built (`make wasmer`).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import wasmtime

from kscheduler.wasm.engine import (
    Engine,
    EngineUnavailable,
    GuestFault,
    HostFunction,
    Instance,
    Limits,
    Module,
)
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.wasmtime.modules import WasmtimeEngine

GUEST = """
(module
  (import "host" "f" (func $f (param i32 i32) (result i32)))
  (memory (export "memory") 16)
  (func (export "nothing"))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "host") (param $n i32)
    (loop (drop (call $f (local.get $n) (i32.const 1)))
      (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "work") (param $n i64) (result i64) (local $sum i64)
    (loop (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31)) (local.get $n)))
      (br_if 0 (i64.ne (local.tee $n (i64.sub (local.get $n) (i64.const 1))) (i64.const 0))))
    (local.get $sum))
  (func (export "spin") (loop br 0)))
"""

TIMES = 5_000  # calls that are timed together
WORK = 20_000_000  # turns of the loop for two threads, some tens of milliseconds
RUNAWAYS = 5  # one after the other, while the event loop's timers are watched
TIMER_S = 0.001
GOALS = {"bare call": 0.2, "two threads": 1.6, "runaway, worst": 25.0, "event loop, worst": 20.0}
UNITS = {"two threads": " (x)", "runaway": " (ms)", "event loop": " (ms)"}

Figures = dict[str, float]  # name -> us, or what its name says


@dataclass(frozen=True, slots=True)
class Scene:
    """One engine with the guests loaded that are measured."""

    module: Module

    def new(self, deadline_s: float = 60.0) -> Instance:
        def f(_instance: Instance, a: int, b: int) -> int:
            return a

        return self.module.instantiate([HostFunction("host", "f", "ii", "i", f)], Limits(deadline_s=deadline_s))

    def measure(self) -> Figures:
        guest = self.new()
        nothing, add = guest.prepare("nothing"), guest.prepare("add")
        small, large = bytes(1024), bytes(65_536)
        figures = {
            "bare call": per_call(nothing),
            "two numbers and a result": per_call(lambda: add(1, 2)),
            "host function": seconds(lambda: guest.call("host", TIMES)) / TIMES * 1e6,
            "write 1 KiB": per_call(lambda: guest.write(0, small)),
            "write 64 KiB": per_call(lambda: guest.write(0, large)),
            "read 1 KiB": per_call(lambda: guest.read(0, 1024)),
            "read 64 KiB": per_call(lambda: guest.read(0, 65_536)),
            "new instance, closed": per_call(lambda: self.new().close(), 200),
        }
        guest.close()
        return figures

    def two_threads(self, executor: ThreadPoolExecutor) -> float:
        """Time of one after the other over time of both at once."""
        pair = [self.new(), self.new()]
        after = seconds(lambda: [guest.call("work", WORK) for guest in pair])
        at_once = seconds(lambda: list(executor.map(lambda guest: guest.call("work", WORK), pair)))
        for guest in pair:
            guest.close()
        return after / at_once

    def runaway_ms(self) -> float:
        guest = self.new(deadline_s=0.020)
        begin = time.perf_counter()
        try:
            guest.call("spin")
        except GuestFault:
            pass
        finally:
            guest.close()
        return (time.perf_counter() - begin) * 1e3

    def lag_ms(self, executor: ThreadPoolExecutor) -> float:
        """How late the latest timer was of an event loop beside which guests loop until they are stopped."""

        def run_away() -> None:
            for _ in range(RUNAWAYS):
                self.runaway_ms()

        async def latest() -> float:
            late_s = 0.0
            running = asyncio.get_running_loop().run_in_executor(executor, run_away)
            while not running.done():
                begin = time.perf_counter()
                await asyncio.sleep(TIMER_S)
                late_s = max(late_s, time.perf_counter() - begin - TIMER_S)
            await running
            return late_s * 1e3

        return asyncio.run(latest())


def seconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def per_call(act: Callable[[], object], times: int = TIMES) -> float:
    """Microseconds of one of many calls."""

    def repeat() -> None:
        for _ in range(times):
            act()

    return seconds(repeat) / times * 1e6


def measured(scene: Scene, executor: ThreadPoolExecutor) -> Figures:
    return scene.measure() | {
        "two threads": scene.two_threads(executor),
        "runaway": scene.runaway_ms(),
        "event loop": scene.lag_ms(executor),
    }


def table(found: Mapping[str, Sequence[Figures]]) -> str:
    """One column a scene; the ratio is to the first."""
    first = next(iter(found.values()))
    lines = [" ".join([f"{'us':28}", *[f"{name:>20}" for name in found]])]
    for figure in first[0]:
        cells = [f"{figure + UNITS.get(figure, ''):28}"]
        for rounds in found.values():
            ratio = statistics.median(b[figure] / a[figure] for a, b in zip(first, rounds, strict=True))
            cells.append(f"{statistics.median(each[figure] for each in rounds):12.3f} ({ratio:5.2f})")
        lines.append(" ".join(cells))
    return "\n".join(lines)


def verdicts(name: str, rounds: Sequence[Figures]) -> list[str]:
    """The goals, and whether they are met."""
    found = {
        "bare call": statistics.median(each["bare call"] for each in rounds),
        "two threads": statistics.median(each["two threads"] for each in rounds),
        "runaway, worst": max(each["runaway"] for each in rounds),
        "event loop, worst": max(each["event loop"] for each in rounds),
    }
    lines = []
    for figure, goal in GOALS.items():
        is_met = found[figure] >= goal if figure == "two threads" else found[figure] <= goal
        sign = ">=" if figure == "two threads" else "<="
        lines.append(f"{name}: {figure}: {found[figure]:.3f}, goal {sign} {goal:g}: {'met' if is_met else 'NOT met'}")
    return lines


def engines() -> dict[str, Engine]:
    """What there is on this machine."""
    found: dict[str, Engine] = {"wasmtime": WasmtimeEngine()}
    try:
        found["wasmer"] = engine_named("wasmer")
    except EngineUnavailable as error:
        print(f"without wasmer: {error}", file=sys.stderr)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    wasm = bytes(wasmtime.wat2wasm(GUEST))
    scenes = {name: Scene(engine.compile(wasm)) for name, engine in engines().items()}
    figures: dict[str, list[Figures]] = {name: [] for name in scenes}
    with ThreadPoolExecutor(2) as executor:
        for _ in range(options.rounds):
            for name, scene in scenes.items():
                figures[name].append(measured(scene, executor))
    print(table(figures))
    for name in ("wasmtime", "wasmer"):
        if name in figures:
            print("\n".join(verdicts(name, figures[name])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
