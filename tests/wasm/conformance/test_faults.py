"""Each way a guest can fail: its kind, its message in one line, and an instance that is broken after it."""

from __future__ import annotations

import pytest

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance, Limits, Wasi
from tests.wasm.conformance.conftest import PATIENT, Guests

FAULTY = """
(module
  (import "host" "pass" (func $pass (param i32 i32)))
  (memory (export "memory") 1)
  (table 1 funcref)
  (func (export "unreachable") unreachable)
  (func (export "divide") (result i32) (i32.div_s (i32.const 1) (i32.const 0)))
  (func (export "outside") (result i32) (i32.load (i32.const 65536)))
  (func (export "far_outside") (result i32) (i32.load offset=4294967295 (i32.const -1)))
  (func (export "null") (call_indirect (i32.const 0)))
  (func $deep (export "deep") (call $deep))
  (func (export "spin") (loop br 0))
  (func (export "spin_calling") (loop (call $pass (i32.const 0) (i32.const 0)) br 0))
  (func (export "pass") (param i32 i32) (call $pass (local.get 0) (local.get 1)))
  (func (export "fine") (result i32) (i32.const 1)))
"""


def faulty(guests: Guests, limits: Limits = PATIENT) -> Instance:
    def take(instance: Instance, address: int, size: int) -> None:
        instance.read(address, size)

    return guests(FAULTY, [HostFunction("host", "pass", "ii", "", take)], limits)


@pytest.mark.parametrize(
    ("export", "says"),
    [
        ("unreachable", "wasm `unreachable` instruction executed"),
        ("divide", "integer divide by zero"),
        ("outside", "out of bounds memory access"),
        ("far_outside", "out of bounds memory access"),
        ("null", "uninitialized element"),
        ("deep", "call stack exhausted"),
    ],
)
def test_a_trap_ends_the_call_and_the_instance(guests: Guests, export: str, says: str) -> None:
    guest = faulty(guests)
    with pytest.raises(GuestFault, match=says) as caught:
        guest.call(export)
    assert caught.value.kind is FaultKind.TRAP
    assert caught.value.message.startswith(f"{export}: ")
    assert "\n" not in caught.value.message
    assert guest.is_broken


def test_a_broken_instance_refuses_calls_with_the_kind_of_its_first_fault(guests: Guests) -> None:
    guest = faulty(guests, Limits(deadline_s=0.005))
    fine = guest.prepare("fine")
    assert fine() == 1
    with pytest.raises(GuestFault):
        guest.call("spin")
    for _ in range(2):
        with pytest.raises(GuestFault, match="fine: the instance is broken by an earlier fault") as caught:
            fine()
        assert caught.value.kind is FaultKind.DEADLINE


@pytest.mark.parametrize("export", ["spin", "spin_calling"])
def test_an_endless_loop_is_stopped_at_the_deadline(guests: Guests, export: str) -> None:
    guest = faulty(guests, Limits())
    with pytest.raises(GuestFault, match=f"{export}: ran longer than 20 ms") as caught:
        guest.call(export)
    assert caught.value.kind is FaultKind.DEADLINE
    assert guest.is_broken


@pytest.mark.parametrize(
    ("address", "size"),
    [(65_536, 1), (65_535, 2), (0, 65_537), (-1, 1), (0, -1), (-(1 << 31), -(1 << 31)), ((1 << 31) - 1, (1 << 31) - 1)],
)
def test_a_bad_range_given_to_a_host_function_is_a_fault_of_the_guest(guests: Guests, address: int, size: int) -> None:
    guest = faulty(guests)
    with pytest.raises(GuestFault, match="outside its memory of 65536 bytes") as caught:
        guest.call("pass", address, size)
    assert caught.value.kind is FaultKind.MEMORY
    assert guest.is_broken


@pytest.mark.parametrize(("address", "size"), [(0, 0), (65_536, 0), (0, 65_536), (65_535, 1)])
def test_a_range_at_the_edge_is_fine(guests: Guests, address: int, size: int) -> None:
    guest = faulty(guests)
    guest.call("pass", address, size)
    assert not guest.is_broken


def test_an_endless_start_section_is_stopped(guests: Guests) -> None:
    with pytest.raises(GuestFault, match="start section: ran longer than 5 ms") as caught:
        guests("(module (func $s (loop br 0)) (start $s))", limits=Limits(start_deadline_s=0.005))
    assert caught.value.kind is FaultKind.DEADLINE


def test_a_trap_in_the_start_section_is_a_fault(guests: Guests) -> None:
    with pytest.raises(GuestFault, match=r"start section: .*unreachable") as caught:
        guests("(module (func $s unreachable) (start $s))")
    assert caught.value.kind is FaultKind.TRAP


@pytest.mark.parametrize("export", ["_start", "_initialize"])
def test_a_start_function_has_its_own_deadline(guests: Guests, export: str) -> None:
    guest = guests(f'(module (func (export "{export}") (loop br 0)))', limits=Limits(start_deadline_s=0.1))
    with pytest.raises(GuestFault, match=f"{export}: ran longer than 100 ms"):
        guest.start()
    assert guest.deadline_s == 0.020


EXIT = """
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (call $exit (i32.const {status})) unreachable)
  (func (export "later") (param i32) (call $exit (local.get 0)))
  (func (export "one") (result i32) (i32.const 1)))
"""


def test_an_exit_with_zero_from_start_is_success(guests: Guests) -> None:
    guest = guests(EXIT.format(status=0), wasi=Wasi())
    guest.start()
    assert not guest.is_broken
    assert guest.call("one") == 1


def test_an_exit_with_another_status_from_start_is_a_fault(guests: Guests) -> None:
    guest = guests(EXIT.format(status=3), wasi=Wasi())
    with pytest.raises(GuestFault, match="_start: the guest exited with status 3") as caught:
        guest.start()
    assert caught.value.kind is FaultKind.EXIT
    assert guest.is_broken


def test_an_exit_from_any_other_call_is_a_fault(guests: Guests) -> None:
    guest = guests(EXIT.format(status=0), wasi=Wasi())
    guest.start()
    with pytest.raises(GuestFault, match="later: the guest exited with status 0"):
        guest.call("later", 0)
    assert guest.is_broken


def test_the_message_of_a_guest_with_an_endless_name_is_bounded(guests: Guests) -> None:
    name = "x" * 20_000
    guest = guests(f'(module (func ${name} (export "f") unreachable))')
    with pytest.raises(GuestFault) as caught:
        guest.call("f")
    assert len(caught.value.message) <= 300
