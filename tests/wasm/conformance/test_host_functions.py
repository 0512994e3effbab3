"""What a guest may import, and what happens when the host's side of it fails."""

from __future__ import annotations

import gc
import weakref

import pytest

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance
from tests.wasm.conformance.conftest import Guests

CALLER = """
(module
  (import "host" "f" (func $f (param i32 i64 f32 f64) (result i64)))
  (import "host" "g" (func $g))
  (memory (export "memory") 1)
  (func (export "f") (param i32 i64 f32 f64) (result i64)
    (call $f (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
  (func (export "g") (call $g)))
"""


def caller(guests: Guests, f: object = None, g: object = None) -> Instance:
    functions = [
        HostFunction("host", "f", "iIfF", "I", f or (lambda *_: 0)),  # type: ignore[arg-type]
        HostFunction("host", "g", "", "", g or (lambda _: None)),  # type: ignore[arg-type]
        HostFunction("host", "not asked for", "ii", "", lambda *_: None),
    ]
    return guests(CALLER, functions)


def test_a_host_function_gets_the_instance_and_signed_numbers(guests: Guests) -> None:
    seen: list[object] = []

    def f(*given: object) -> int:
        seen.extend(given)
        return -5

    guest = caller(guests, f)
    assert guest.call("f", 0xFFFF_FFFF, 1 << 63, 0.5, 0.25) == -5
    assert seen[0] is guest
    assert seen[1:] == [-1, -(1 << 63), 0.5, 0.25]


def test_a_host_function_may_use_the_memory_of_its_caller(guests: Guests) -> None:
    def g(instance: Instance) -> None:
        instance.write(0, b"hello")

    guest = caller(guests, g=g)
    guest.call("g")
    assert guest.read(0, 5) == b"hello"


def test_the_data_of_an_instance_is_the_callers(guests: Guests) -> None:
    def g(instance: Instance) -> None:
        assert isinstance(instance.data, list)
        instance.data.append("called")

    first, second = caller(guests, g=g), caller(guests, g=g)
    first.data, second.data = [], []
    first.call("g")
    assert (first.data, second.data) == (["called"], [])


def test_what_a_host_function_raises_ends_the_call_with_its_cause(guests: Guests) -> None:
    def g(_instance: Instance) -> None:
        raise ValueError("two\nlines")

    guest = caller(guests, g=g)
    with pytest.raises(GuestFault, match=r"^g: a host function raised ValueError: two lines$") as caught:
        guest.call("g")
    assert caught.value.kind is FaultKind.HOST
    assert isinstance(caught.value.__cause__, ValueError)
    assert guest.is_broken


def test_a_fault_that_a_host_function_raises_keeps_its_kind(guests: Guests) -> None:
    def g(_instance: Instance) -> None:
        raise GuestFault(FaultKind.BAD_ANSWER, "nonsense")

    with pytest.raises(GuestFault, match=r"^g: nonsense$") as caught:
        caller(guests, g=g).call("g")
    assert caught.value.kind is FaultKind.BAD_ANSWER


def test_the_programs_own_end_is_not_taken_for_a_fault(guests: Guests) -> None:
    def g(_instance: Instance) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caller(guests, g=g).call("g")


@pytest.mark.parametrize(
    ("answer", "says"), [(None, "with a result returned None"), ("x", "TypeError"), ([1], "TypeError")]
)
def test_a_host_function_that_returns_no_number_is_a_fault_of_the_host(
    guests: Guests, answer: object, says: str
) -> None:
    with pytest.raises(GuestFault, match=says) as caught:
        caller(guests, lambda *_: answer).call("f", 1, 2, 3, 4)
    assert caught.value.kind is FaultKind.HOST


def test_a_host_function_that_returns_something_unasked_is_a_fault_of_the_host(guests: Guests) -> None:
    with pytest.raises(GuestFault, match="without a result returned 3"):
        caller(guests, g=lambda _: 3).call("g")


def test_a_start_section_may_use_the_memory_through_a_host_function(guests: Guests) -> None:
    heard: list[bytes] = []

    def say(instance: Instance, address: int, size: int) -> None:
        heard.append(instance.read(address, size))

    guests(
        """(module (import "host" "say" (func $say (param i32 i32)))
             (memory (export "memory") 1) (data (i32.const 8) "early")
             (func $s (call $say (i32.const 8) (i32.const 5))) (start $s))""",
        [HostFunction("host", "say", "ii", "", say)],
    )
    assert heard == [b"early"]


@pytest.mark.parametrize(
    ("imported", "says"),
    [
        ("(func (param i32))", r"the guest imports host\.f \(i32\) -> \(\): the host has none"),
        ("(memory 1)", r"the guest imports host\.f, a memory of 1\.\. pages: only functions can be"),
        ("(global i32)", r"the guest imports host\.f, a global: only functions can be"),
        ("(table 1 funcref)", r"the guest imports host\.f, a table: only functions can be"),
    ],
)
def test_an_import_that_the_host_lacks_is_named(guests: Guests, imported: str, says: str) -> None:
    with pytest.raises(GuestFault, match=says) as caught:
        guests(f'(module (import "host" "f" {imported}))')
    assert caught.value.kind is FaultKind.BAD_IMPORT


@pytest.mark.parametrize(("params", "results"), [("i", ""), ("", "i"), ("I", "i"), ("ii", "i")])
def test_an_import_of_another_type_is_refused(guests: Guests, params: str, results: str) -> None:
    with pytest.raises(GuestFault, match=r"imports host\.f as \(i32\) -> \(i32\): the host has") as caught:
        guests(
            '(module (import "host" "f" (func (param i32) (result i32))))',
            [HostFunction("host", "f", params, results, lambda *_: 0)],
        )
    assert caught.value.kind is FaultKind.BAD_IMPORT


def test_a_closed_instance_keeps_nothing_of_the_host(guests: Guests) -> None:
    class Kept:
        def __call__(self, _instance: Instance) -> None:
            raise ValueError("x")

    kept = Kept()
    gone = weakref.ref(kept)
    guest = caller(guests, g=kept)
    with pytest.raises(GuestFault):
        guest.call("g")
    guest.close()
    del kept, guest
    guests._instances.clear()
    gc.collect()
    assert gone() is None
