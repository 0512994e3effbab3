"""WASI preview 1: what is granted, and that nothing else is."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kscheduler.wasm import wasi as functions
from kscheduler.wasm.engine import FaultKind, GuestFault, Instance, Limits, Wasi
from tests.wasm.conformance.conftest import PATIENT, Guests

BADF, INVAL, NOSYS = 8, 28, 52
TYPES = {function.name: function.type for function in functions.functions(Wasi())}
WASM = {"i": "i32", "I": "i64"}


def guest_of(guests: Guests, names: Sequence[str], wasi: Wasi | None = None, limits: Limits | None = None) -> Instance:
    """A guest that re-exports functions of WASI under their own names."""
    imports, exports = "", ""
    for name in names:
        params = " ".join(WASM[c] for c in TYPES[name].params)
        results = " ".join(WASM[c] for c in TYPES[name].results)
        imports += f'(import "wasi_snapshot_preview1" "{name}" (func ${name} (param {params}) (result {results})))'
        given = " ".join(f"(local.get {index})" for index in range(len(TYPES[name].params)))
        exports += f'(func (export "{name}") (param {params}) (result {results}) (call ${name} {given}))'
    text = f'(module {imports} (memory (export "memory") 1) {exports})'
    return guests(text, limits=limits or PATIENT, wasi=wasi or Wasi())


def u32s(guest: Instance, address: int, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}I", guest.read(address, 4 * count)))


def test_all_functions_of_preview_1_can_be_imported(guests: Guests) -> None:
    assert len(TYPES) == 46
    guest_of(guests, list(TYPES))


def test_without_wasi_none_can_be(guests: Guests) -> None:
    with pytest.raises(GuestFault, match=r"wasi_snapshot_preview1\.sched_yield") as caught:
        guests('(module (import "wasi_snapshot_preview1" "sched_yield" (func (result i32))))')
    assert caught.value.kind is FaultKind.BAD_IMPORT


def test_the_arguments_are_those_given(guests: Guests) -> None:
    guest = guest_of(guests, ["args_sizes_get", "args_get"], Wasi(args=("plugin", "ü")))
    assert guest.call("args_sizes_get", 0, 4) == 0
    assert u32s(guest, 0, 2) == [2, 10]
    assert guest.call("args_get", 100, 200) == 0
    assert u32s(guest, 100, 2) == [200, 207]
    assert guest.read(200, 10) == "plugin\0ü\0".encode()


def test_the_environment_is_empty(guests: Guests) -> None:
    guest = guest_of(guests, ["environ_sizes_get", "environ_get"])
    guest.write(0, b"\xff" * 8)
    assert guest.call("environ_sizes_get", 0, 4) == 0
    assert u32s(guest, 0, 2) == [0, 0]
    assert guest.call("environ_get", 0, 0) == 0


def write(guest: Instance, descriptor: int, *pieces: bytes) -> int | float | None:
    address, vectors = 1024, b""
    for piece in pieces:
        guest.write(address, piece)
        vectors += struct.pack("<II", address, len(piece))
        address += len(piece)
    guest.write(16, vectors)
    return guest.call("fd_write", descriptor, 16, len(pieces), 0)


def test_stdout_and_stderr_are_kept_in_order(guests: Guests) -> None:
    guest = guest_of(guests, ["fd_write"])
    assert write(guest, 1, b"one ", b"two ") == 0
    assert u32s(guest, 0, 1) == [8]
    assert write(guest, 2, b"three") == 0
    assert guest.output.text() == "one two three"
    guest.output.clear()
    assert guest.output.text() == ""


def test_nothing_else_can_be_written_to(guests: Guests) -> None:
    guest = guest_of(guests, ["fd_write"])
    assert [write(guest, descriptor, b"x") for descriptor in (0, 3, -1)] == [BADF] * 3
    assert guest.output.text() == ""


def test_of_giant_output_only_the_beginning_is_kept(guests: Guests) -> None:
    guest = guest_of(guests, ["fd_write"], limits=Limits(output_bytes=10))
    assert write(guest, 1, b"a" * 30_000, b"b" * 30_000) == 0
    assert u32s(guest, 0, 1) == [60_000]
    assert guest.output.text() == "a" * 10 + "... 59,990 more bytes"


def test_endless_output_ends_at_the_deadline_and_comes_with_the_fault(guests: Guests) -> None:
    guest = guests(
        """(module (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
             (memory (export "memory") 1) (data (i32.const 0) "\\08\\00\\00\\00\\05\\00\\00\\00again")
             (func (export "f") (loop (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))
               br 0)))""",
        limits=Limits(output_bytes=12),
        wasi=Wasi(),
    )
    with pytest.raises(GuestFault) as caught:
        guest.call("f")
    assert caught.value.kind is FaultKind.DEADLINE
    assert caught.value.output.startswith("againagainag...")
    assert len(guest.output.data) == 12


@pytest.mark.parametrize("vectors", [(1025, 0), (-1, 0)])
def test_too_many_pieces_at_once_are_refused(guests: Guests, vectors: tuple[int, int]) -> None:
    guest = guest_of(guests, ["fd_write"])
    assert guest.call("fd_write", 1, vectors[1], vectors[0], 0) == INVAL


@pytest.mark.parametrize("piece", [(65_536, 1), (0, 65_537), (0xFFFF_FFFF, 1), (1, 0xFFFF_FFFF)])
def test_a_piece_outside_the_memory_is_a_fault(guests: Guests, piece: tuple[int, int]) -> None:
    guest = guest_of(guests, ["fd_write"], limits=Limits(output_bytes=4))
    guest.write(16, struct.pack("<II", *piece))
    with pytest.raises(GuestFault, match="outside its memory") as caught:
        guest.call("fd_write", 1, 16, 1, 0)
    assert caught.value.kind is FaultKind.MEMORY


def test_stdin_is_at_its_end(guests: Guests) -> None:
    guest = guest_of(guests, ["fd_read"])
    guest.write(0, b"\xff" * 4)
    assert guest.call("fd_read", 0, 16, 1, 0) == 0
    assert u32s(guest, 0, 1) == [0]
    assert guest.call("fd_read", 3, 16, 1, 0) == BADF


def test_only_the_standard_streams_have_a_status(guests: Guests) -> None:
    guest = guest_of(guests, ["fd_fdstat_get"])
    assert [guest.call("fd_fdstat_get", descriptor, 0) for descriptor in (0, 1, 2, 3)] == [0, 0, 0, BADF]
    assert guest.read(0, 24) == struct.pack("<BxHxxxxQQ", 2, 0, 64, 0)


def test_clocks_are_coarse_and_may_be_given(guests: Guests) -> None:
    guest = guest_of(guests, ["clock_time_get", "clock_res_get"], Wasi(clock=lambda: 1_234_567_891))
    assert guest.call("clock_res_get", 0, 0) == 0
    assert struct.unpack("<Q", guest.read(0, 8)) == (1_000_000,)
    for clock in (0, 1):
        assert guest.call("clock_time_get", clock, 1, 0) == 0
        assert struct.unpack("<Q", guest.read(0, 8)) == (1_234_000_000,)
    assert guest.call("clock_time_get", 2, 1, 0) == INVAL
    assert guest.call("clock_res_get", 9, 0) == INVAL


def test_the_machines_clock_is_the_default(guests: Guests) -> None:
    guest = guest_of(guests, ["clock_time_get"])
    guest.call("clock_time_get", 0, 1, 0)
    (now,) = struct.unpack("<Q", guest.read(0, 8))
    assert now > 1_700_000_000 * 10**9
    assert now % 1_000_000 == 0


def test_random_bytes_are_the_systems_unless_given(guests: Guests) -> None:
    guest = guest_of(guests, ["random_get"])
    assert guest.call("random_get", 0, 32) == 0
    assert guest.read(0, 32) != bytes(32)
    fixed = guest_of(guests, ["random_get"], Wasi(random=lambda size: b"r" * size))
    assert fixed.call("random_get", 0, 3) == 0
    assert fixed.read(0, 4) == b"rrr\0"
    assert fixed.call("random_get", 0, 65_537) == INVAL
    assert fixed.call("random_get", 0, -1) == INVAL


def test_a_poll_says_that_the_time_has_come(guests: Guests) -> None:
    guest = guest_of(guests, ["poll_oneoff"])
    clock = struct.pack("<QB39x", 7, 0)
    read = struct.pack("<QB39x", 8, 1)
    guest.write(0, clock + read)
    assert guest.call("poll_oneoff", 0, 200, 2, 300) == 0
    assert u32s(guest, 300, 1) == [2]
    assert guest.read(200, 64) == struct.pack("<QHB21x", 7, 0, 0) + struct.pack("<QHB21x", 8, BADF, 1)
    assert [guest.call("poll_oneoff", 0, 200, count, 300) for count in (0, 65, -1)] == [INVAL] * 3


GRANTED = {
    "args_get",
    "args_sizes_get",
    "environ_get",
    "environ_sizes_get",
    "clock_res_get",
    "clock_time_get",
    "fd_fdstat_get",
    "fd_read",
    "fd_write",
    "poll_oneoff",
    "proc_exit",
    "random_get",
    "sched_yield",
}


@pytest.mark.parametrize("name", sorted(TYPES.keys() - GRANTED))
def test_files_sockets_and_signals_are_refused(guests: Guests, name: str) -> None:
    guest = guest_of(guests, [name])
    arguments = [3] * len(TYPES[name].params)
    assert guest.call(name, *arguments) == (NOSYS if name == "proc_raise" else BADF)
    assert guest.read(0, 65_536) == bytes(65_536)


def test_yielding_is_fine(guests: Guests) -> None:
    assert guest_of(guests, ["sched_yield"]).call("sched_yield") == 0
