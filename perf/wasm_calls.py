"""What a call into a wasm guest costs, through the compiled calls and through their twin in ctypes.

    python -m perf.wasm_calls
    python -m perf.wasm_calls --rounds 30

Both take turns within each round; a figure is the median of the rounds, and `twin` the median of the ratios taken
within a round. `two threads` is how much more work two guests on two threads do than one after the other (1.0: they
wait for each other; 2.0: two cores), `runaway` the time from the call of an endless loop to its fault, with a deadline
of 20 ms: the mean and the worst.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import wasmtime

from kscheduler.wasm.engine import GuestFault, HostFunction, Instance, Limits, Module
from kscheduler.wasm.wasmtime import calls, calls_ctypes
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
GOALS = {"bare call": 0.2, "two threads": 1.6, "runaway, worst": 25.0}

Figures = dict[str, float]  # name -> us, or what its name says


@dataclass(frozen=True, slots=True)
class Scene:
    """One form of the calls."""

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
    return scene.measure() | {"two threads": scene.two_threads(executor), "runaway": scene.runaway_ms()}


def table(compiled: Sequence[Figures], twin: Sequence[Figures]) -> str:
    lines = [f"{'us':28} {'compiled':>10} {'twin':>10}   twin / compiled"]
    for name in compiled[0]:
        ours, theirs = [each[name] for each in compiled], [each[name] for each in twin]
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        unit = {"two threads": " (x)", "runaway": " (ms)"}.get(name, "")
        lines.append(
            f"{name + unit:28} {statistics.median(ours):10.3f} {statistics.median(theirs):10.3f}   {ratio:.2f}"
        )
    return "\n".join(lines)


def verdicts(compiled: Sequence[Figures]) -> list[str]:
    """The goals, and whether they are met."""
    found = {
        "bare call": statistics.median(each["bare call"] for each in compiled),
        "two threads": statistics.median(each["two threads"] for each in compiled),
        "runaway, worst": max(each["runaway"] for each in compiled),
    }
    lines = []
    for name, goal in GOALS.items():
        is_met = found[name] >= goal if name == "two threads" else found[name] <= goal
        sign = ">=" if name == "two threads" else "<="
        lines.append(f"{name}: {found[name]:.3f}, goal {sign} {goal:g}: {'met' if is_met else 'NOT met'}")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(argv)
    wasm = bytes(wasmtime.wat2wasm(GUEST))
    scenes = [Scene(WasmtimeEngine(form).compile(wasm)) for form in (calls, calls_ctypes)]
    figures: list[list[Figures]] = [[], []]
    with ThreadPoolExecutor(2) as executor:
        for _ in range(options.rounds):
            for scene, found in zip(scenes, figures, strict=True):
                found.append(measured(scene, executor))
    print(table(*figures))
    print("\n".join(verdicts(figures[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
