"""Numbers in and out of a guest, and who may call when."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance, Limits
from tests.wasm.conformance.conftest import Guests

NUMBERS = """
(module
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "add64") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
  (func (export "mix") (param f32 f64 i32) (result f64)
    (f64.add (f64.add (f64.promote_f32 (local.get 0)) (local.get 1)) (f64.convert_i32_s (local.get 2))))
  (func (export "half") (param f32) (result f32) (f32.div (local.get 0) (f32.const 2)))
  (func (export "nothing"))
  (func (export "two") (result i32 i32) i32.const 1 i32.const 2)
  (func (export "reference") (param externref))
  (func (export "wide") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32))
  (global (export "constant") i32 (i32.const 7))
  (memory (export "memory") 1))
"""


def signed(number: int, bits: int) -> int:
    cut = number & ((1 << bits) - 1)
    return cut - (1 << bits) if cut >> (bits - 1) else cut


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.integers(-(1 << 31), (1 << 32) - 1), st.integers(-(1 << 31), (1 << 32) - 1))
def test_numbers_of_32_bits_go_in_with_any_sign_and_come_out_signed(guests: Guests, a: int, b: int) -> None:
    assert guests(NUMBERS).call("add", a, b) == signed(a + b, 32)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.integers(-(1 << 63), (1 << 64) - 1), st.integers(-(1 << 63), (1 << 64) - 1))
def test_numbers_of_64_bits_go_in_with_any_sign_and_come_out_signed(guests: Guests, a: int, b: int) -> None:
    assert guests(NUMBERS).call("add64", a, b) == signed(a + b, 64)


def test_floats_pass_in_both_widths(guests: Guests) -> None:
    guest = guests(NUMBERS)
    assert guest.call("mix", 1.5, 2.25, -3) == 0.75
    assert guest.call("half", 3.0) == 1.5


def test_a_function_without_a_result_returns_none(guests: Guests) -> None:
    assert guests(NUMBERS).call("nothing") is None


def test_a_prepared_call_is_the_same_call(guests: Guests) -> None:
    add = guests(NUMBERS).prepare("add")
    assert [add(1, 2), add(-1, -2)] == [3, -3]


@pytest.mark.parametrize("args", [(), (1,), (1, 2, 3)])
def test_the_number_of_arguments_must_be_right(guests: Guests, args: tuple[int, ...]) -> None:
    guest = guests(NUMBERS)
    with pytest.raises(TypeError, match=f"add takes 2 numbers, got {len(args)}"):
        guest.call("add", *args)
    assert guest.call("add", 1, 2) == 3  # nothing happened to the guest


def test_an_argument_that_is_no_number_is_refused(guests: Guests) -> None:
    guest = guests(NUMBERS)
    with pytest.raises(TypeError):
        guest.call("add", "1", 2)  # type: ignore[arg-type]
    assert guest.call("add", 1, 2) == 3


@pytest.mark.parametrize(
    ("export", "says"),
    [
        ("absent", "absent: expected a function, the guest has no such export"),
        ("memory", "memory: expected a function, the guest has a memory of 1.. pages of that name"),
        ("constant", "constant: expected a function, the guest has a global of that name"),
        ("two", r"two: .*i32, i32.* cannot be called"),
        ("reference", r"reference: .* cannot be called"),
        ("wide", r"wide: .* cannot be called: expected at most 16 numbers"),
    ],
)
def test_an_export_that_cannot_be_called_is_refused(guests: Guests, export: str, says: str) -> None:
    with pytest.raises(GuestFault, match=says) as caught:
        guests(NUMBERS).prepare(export)
    assert caught.value.kind is FaultKind.BAD_MODULE


def test_a_closed_instance_refuses_everything_but_closing(guests: Guests) -> None:
    guest = guests(NUMBERS)
    add = guest.prepare("add")
    guest.close()
    guest.close()
    assert guest.is_broken
    assert guest.memory_bytes == 0
    for use in (
        lambda: add(1, 2),
        lambda: guest.call("add", 1, 2),
        lambda: guest.prepare("add"),
        lambda: guest.read(0, 1),
        lambda: guest.write(0, b"x"),
        lambda: guest.view(0, 1),
        guest.start,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()


REENTRANT = """
(module
  (import "host" "again" (func $again))
  (func (export "outer") (call $again))
  (func (export "inner")))
"""


@pytest.mark.parametrize("use", ["call", "close"])
def test_a_host_function_cannot_call_or_close_the_instance_that_waits_for_it(guests: Guests, use: str) -> None:
    def again(instance: Instance) -> None:
        if use == "call":
            instance.call("inner")
        else:
            instance.close()

    guest = guests(REENTRANT, [HostFunction("host", "again", "", "", again)])
    with pytest.raises(GuestFault, match="in a call") as caught:
        guest.call("outer")
    assert caught.value.kind is FaultKind.HOST


def test_a_deadline_can_be_changed_between_calls(guests: Guests) -> None:
    guest = guests('(module (func (export "spin") (loop br 0)))', limits=Limits(deadline_s=60.0))
    assert guest.deadline_s == 60.0
    guest.deadline_s = 0.005
    with pytest.raises(GuestFault, match="spin: ran longer than 5 ms"):
        guest.call("spin")


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 1e7])
def test_a_deadline_without_sense_is_refused(guests: Guests, seconds: float) -> None:
    guest = guests("(module)")
    with pytest.raises(ValueError, match="a deadline is above 0"):
        guest.deadline_s = seconds
    assert guest.deadline_s == 5.0
