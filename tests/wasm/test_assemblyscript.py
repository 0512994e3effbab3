"""`env.abort` of guests in AssemblyScript, of either interface: it ends the call, with what the guest says of it."""

from __future__ import annotations

import struct

import pytest
import wasmtime

from kscheduler.wasm.assemblyscript import abort_function
from kscheduler.wasm.engine import FaultKind, GuestFault
from kscheduler.wasm.loading.compiling import read_interface
from tests.wasm.conformance.conftest import made_engine
from tests.wasm.extension.kit import Room


def guest(message: int, file: int) -> bytes:
    """With two strings as the language lays them out: at 16, and at 64."""
    lines = ['(module (import "env" "abort" (func $abort (param i32 i32 i32 i32))) (memory (export "memory") 1)']
    for address, text in ((16, "Index out of range"), (128, "~lib/array.ts")):
        packed = text.encode("utf-16-le")
        data = "".join(f"\\{byte:02x}" for byte in struct.pack("<I", len(packed)) + packed)
        lines.append(f'(data (i32.const {address - 4}) "{data}")')
    call = f"(call $abort (i32.const {message}) (i32.const {file}) (i32.const 3) (i32.const 14))"
    return bytes(wasmtime.wat2wasm("\n".join([*lines, f'(func (export "filter") (result i32) {call} (i32.const 0)))'])))


@pytest.mark.parametrize(
    ("message", "file", "shown"),
    [
        (16, 128, "abort: Index out of range in ~lib/array.ts:3:14"),
        (16, 0, "abort: Index out of range"),
        (0, 0, "abort: aborted"),
        (-1, 65_534, "abort: aborted"),
    ],
)
@pytest.mark.parametrize("engine", ["wasmtime", "wasmer"])
def test_a_guest_that_aborts_says_why_and_where(engine: str, message: int, file: int, shown: str) -> None:
    module = made_engine(engine).compile(guest(message, file))
    instance = module.instantiate([abort_function()])
    with pytest.raises(GuestFault) as caught:
        instance.call("filter")
    assert (caught.value.kind, caught.value.message) == (FaultKind.TRAP, f"filter: {shown}")


def test_a_guest_that_imports_abort_is_loaded_and_its_pod_is_given_the_reason() -> None:
    assert read_interface(guest(16, 128))[1].faults == ()
    assert Room(guest(16, 128)).filter().message == (
        "wasm: filter error: abort: Index out of range in ~lib/array.ts:3:14"
    )
