"""Compiling: what is refused, what a module declares, and code that is kept for later."""

from __future__ import annotations

import contextlib

import pytest
import wasmtime

from kscheduler.wasm.engine import Engine, FaultKind, FuncType, GuestFault, Import, MemoryType, OtherType
from tests.wasm.conformance.conftest import Guests

MODULE = """
(module
  (import "host" "f" (func (param i32 i64) (result f64)))
  (memory (export "memory") 2 9)
  (func (export "run") (param f32) (result i32) (i32.const 4))
  (func (export "vector") (param v128))
  (global (export "g") i32 (i32.const 0)))
"""


def wasm(text: str = MODULE) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


def test_a_module_says_what_it_exports_and_imports(engine: Engine) -> None:
    module = engine.compile(wasm())
    assert dict(module.exports) == {
        "memory": MemoryType(2, 9),
        "run": FuncType("f", "i"),
        "vector": FuncType("?", ""),
        "g": OtherType("global"),
    }
    assert list(module.imports) == [Import("host", "f", FuncType("iI", "F"))]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0asm",
        b"<html>not found</html>",
        wasm()[:-3],
        wasm()[:20],
        wasm() + b"rest",
        b"\0asm\x0d\0\x01\0",  # a component
        wasm().replace(b"memory", b"\xff\xfemory"),
    ],
    ids=["empty", "header", "html", "cut", "cut early", "longer", "component", "not UTF-8"],
)
def test_what_is_no_module_is_refused_in_one_line(engine: Engine, data: bytes) -> None:
    with pytest.raises(GuestFault) as caught:
        engine.compile(data)
    assert caught.value.kind is FaultKind.BAD_MODULE
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 350


@pytest.mark.parametrize("position", range(8, len(wasm()), 3))
def test_a_module_with_a_flipped_byte_is_refused_or_runs(engine: Engine, position: int) -> None:
    data = bytearray(wasm('(module (memory (export "memory") 1) (func (export "f") (loop br 0)))'))
    data[position % len(data)] ^= 0x55
    with contextlib.suppress(GuestFault), contextlib.closing(engine.compile(bytes(data)).instantiate()) as guest:
        guest.deadline_s = 0.001
        guest.call("f")


@pytest.mark.parametrize(
    "text",
    [
        "(module (memory i64 1))",
        "(module (memory 1) (memory 1))",
        "(module (memory 1 1 shared))",
        "(module (func (result i32)))",
    ],
    ids=["64 bit memory", "two memories", "shared memory", "does not validate"],
)
def test_what_the_engine_does_not_offer_is_refused(engine: Engine, text: str) -> None:
    with pytest.raises(GuestFault) as caught:
        engine.compile(wasm(text))
    assert caught.value.kind is FaultKind.BAD_MODULE


def test_serialized_code_runs_as_the_module_did(engine: Engine, guests: Guests) -> None:
    module = guests.module('(module (func (export "four") (result i32) (i32.const 4)))')
    loaded = engine.load(module.serialize())
    assert loaded.exports == module.exports
    guest = loaded.instantiate()
    assert guest.call("four") == 4
    guest.close()


def test_serialized_code_that_is_cut_is_refused(engine: Engine, guests: Guests) -> None:
    blob = guests.module("(module)").serialize()
    for size in (0, 10, len(blob) // 2):
        with pytest.raises(GuestFault, match="cannot be loaded") as caught:
            engine.load(blob[:size])
        assert caught.value.kind is FaultKind.BAD_MODULE


def test_an_engine_has_a_name_and_a_version(engine: Engine) -> None:
    assert engine.name in ("wasmtime", "wasmer")
    assert engine.version
