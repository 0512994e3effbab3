"""Where wasmer cannot run it says so, and the cap on memory that is written into a module; the rest is conformance."""

from __future__ import annotations

import sys

import pytest
import wasmtime

from kscheduler.wasm.engine import MEBIBYTE, EngineUnavailable, FaultKind, GuestFault, MemoryType
from kscheduler.wasm.engines import engine_named
from kscheduler.wasm.loading.sections import read_sections
from kscheduler.wasm.wasmer.memory_cap import with_cap


@pytest.mark.skipif(sys.version_info[:2] == (3, 10), reason="wasmer may run on CPython 3.10")
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
