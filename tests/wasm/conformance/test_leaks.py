"""Tens of thousands of bad calls leave nothing behind."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from kscheduler.wasm.engine import Engine, GuestFault, HostFunction, Instance, Limits, Module, Wasi
from tests.support.memory import resident_bytes
from tests.support.seeds import sampled
from tests.wasm.conformance.conftest import PATIENT, Guests

CALLS = sampled(100_000)
MOST_BYTES = 40  # a call

BAD = """
(module
  (import "host" "raise" (func $raise))
  (import "host" "read" (func $read (param i32 i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "trap") unreachable)
  (func (export "raise") (call $raise))
  (func (export "outside") (call $read (i32.const 65530) (i32.const 100)))
  (func (export "exit") (call $exit (i32.const 1)))
  (func (export "grow") (drop (memory.grow (i32.const 8))) (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536))
    unreachable))
"""


def bad_call(module: Module, functions: list[HostFunction], export: str) -> None:
    guest = module.instantiate(functions, PATIENT, wasi=Wasi())
    try:
        guest.call(export)
    except GuestFault:
        pass
    else:
        raise AssertionError(f"{export} did not fail")
    finally:
        guest.close()


def bad_module(engine: Engine) -> Callable[[], None]:
    def compile_it() -> None:
        with pytest.raises(GuestFault):
            engine.compile(b"\0asm\x01\0\0\0\x01")

    return compile_it


@pytest.mark.slow
@pytest.mark.search
def test_memory_stays_bounded_over_bad_calls(engine: Engine, guests: Guests) -> None:
    def fail(_instance: Instance) -> None:
        raise ValueError("x" * 1000)

    def read(instance: Instance, address: int, size: int) -> None:
        instance.read(address, size)

    functions = [HostFunction("host", "raise", "", "", fail), HostFunction("host", "read", "ii", "", read)]
    module = guests.module(BAD)
    exports = ("trap", "raise", "outside", "exit", "grow")

    def rounds(calls: int) -> None:
        for number in range(calls):
            bad_call(module, functions, exports[number % len(exports)])
        gc.collect()

    rounds(CALLS // 10)
    before = resident_bytes()
    rounds(CALLS - CALLS // 10)
    assert resident_bytes() - before < MOST_BYTES * CALLS


def test_guests_that_nobody_closed_do_no_harm_once_they_are_collected(engine: Engine, guests: Guests) -> None:
    """Each is part of a cycle, by its host function, with which the collector takes it apart piece by piece."""
    module = guests.module(
        '(module (import "host" "f" (func $f)) (memory (export "memory") 1)'
        ' (func (export "call") (call $f)) (func (export "spin") (loop br 0)))'
    )
    for number in range(100):
        guest = module.instantiate([HostFunction("host", "f", "", "", lambda _: None)], Limits(deadline_s=0.002))
        guest.call("call")
        guest.data = [guest, guest.view(0, 8)]
        del guest
        if number % 10 == 9:
            gc.collect()
            last = module.instantiate([HostFunction("host", "f", "", "", lambda _: None)], Limits(deadline_s=0.002))
            with pytest.raises(GuestFault, match="ran longer than 2 ms"):
                last.call("spin")
            last.close()


@pytest.mark.slow
def test_memory_stays_bounded_over_bad_modules_and_imports(engine: Engine, guests: Guests) -> None:
    lacking = guests.module('(module (import "host" "absent" (func)))')
    broken = bad_module(engine)

    def rounds(times: int) -> None:
        for _ in range(times):
            broken()
            with pytest.raises(GuestFault):
                lacking.instantiate()
        gc.collect()

    rounds(1000)
    before = resident_bytes()
    rounds(5000)
    assert resident_bytes() - before < 2_000_000


def test_the_code_of_a_module_that_is_loaded_again_and_again_is_freed(engine: Engine, guests: Guests) -> None:
    """A scheduler loads a plugin each time its file changes."""
    body = "(local.set 0 (i64.mul (i64.add (local.get 0) (i64.const 3)) (local.get 0)))" * 200
    functions = "".join(f'(func (export "f{n}") (param i64) (result i64) {body} (local.get 0))' for n in range(50))
    code = guests.module(f"(module {functions})").serialize()

    def rounds(times: int) -> None:
        for _ in range(times):
            guest = engine.load(code).instantiate((), PATIENT)
            assert guest.call("f0", 1) != 0
            guest.close()
        gc.collect()

    rounds(20)
    before = resident_bytes()
    rounds(100)
    assert resident_bytes() - before < 25 * len(code)
