"""Where wasmer cannot run it says so, the cap on memory in a module, the time of a call; the rest is conformance."""

from __future__ import annotations

import sys

import pytest
import wasmtime

from kscheduler.wasm.engine import MEBIBYTE, EngineUnavailable, FaultKind, GuestFault, MemoryType
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.loading.sections import read_sections
from kscheduler.wasm.wasmer.call_time import CallTime
from kscheduler.wasm.wasmer.memory_cap import with_cap


@pytest.mark.skipif(sys.version_info[:2] == (3, 10), reason="wasmer: it may run on CPython 3.10")
def test_wasmer_is_refused_where_it_has_no_wheels() -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    with pytest.raises(EngineUnavailable, match=rf"engine wasmer needs CPython 3\.10; this is {here}: use wasmtime"):
        engine_named("wasmer")


def capped(text: str, pages: int = 256) -> MemoryType | None:
    wasm = with_cap(bytes(wasmtime.wat2wasm(text)), pages * 65_536)
    wasmtime.Module.validate(wasmtime.Engine(), wasm)
    memories = read_sections(wasm).memories
    return memories[0] if memories else None


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("1", MemoryType(1, 256)),
        ("0", MemoryType(0, 256)),
        ("1 100", MemoryType(1, 100)),
        ("200 65536", MemoryType(200, 256)),
        ("256", MemoryType(256, 256)),
    ],
)
def test_the_cap_becomes_the_maximum_of_the_module(declared: str, expected: MemoryType) -> None:
    text = f'(module (memory (export "memory") {declared}) (func (export "f") (nop)) (data (i32.const 0) ""))'
    assert capped(text) == expected


def test_a_module_without_memory_stays_as_it_is() -> None:
    assert capped("(module)") is None
    assert capped('(module (func (export "f")))') is None


def test_a_module_that_begins_above_the_cap_is_refused() -> None:
    with pytest.raises(GuestFault, match="memory of 257 pages, expected at most 256") as caught:
        capped("(module (memory 257))")
    assert caught.value.kind is FaultKind.MEMORY


@pytest.mark.parametrize("text", ["(module (memory i64 1))", "(module (memory 1) (memory 1))"])
def test_memories_that_cannot_be_capped_are_refused(text: str) -> None:
    with pytest.raises(GuestFault, match="expected one memory of 32 bits") as caught:
        with_cap(bytes(wasmtime.wat2wasm(text)), 16 * MEBIBYTE)
    assert caught.value.kind is FaultKind.BAD_MODULE


class Times:
    """Clocks that the test moves."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 100.0

    def __call__(self) -> tuple[float, float]:
        return self.cpu_s, self.wall_s


def test_time_without_the_cpu_is_not_counted() -> None:
    times = Times()
    call = CallTime("filter", 0.020, times)
    times.wall_s += 1.5
    assert call.left_s() == pytest.approx(0.020)
    times.cpu_s += 0.015
    assert call.left_s() == pytest.approx(0.005)


def test_a_call_is_over_when_its_cpu_time_is_used_up() -> None:
    times = Times()
    call = CallTime("filter", 0.020, times)
    times.cpu_s += 0.021
    with pytest.raises(GuestFault, match="filter: ran longer than 20 ms") as caught:
        call.left_s()
    assert caught.value.kind is FaultKind.DEADLINE


def test_a_call_that_waits_for_ever_is_over_too() -> None:
    times = Times()
    call = CallTime("filter", 0.020, times)
    times.wall_s += 1.9999
    assert call.left_s() == pytest.approx(0.001)
    times.wall_s += 1
    with pytest.raises(GuestFault, match="filter: did not end within 2000 ms, though it ran for less than 20 ms"):
        call.left_s()
