"""The guest's memory from the host: copies, views, growth and the cap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.wasm.engine import MEBIBYTE, FaultKind, GuestFault, Limits
from tests.wasm.conformance.conftest import Guests

MEMORY = """
(module
  (memory (export "memory") 1)
  (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "bomb") (result i32) (local $n i32)
    (loop (if (i32.ne (memory.grow (i32.const 16)) (i32.const -1))
      (then (local.set $n (i32.add (local.get $n) (i32.const 16))) (br 1))))
    (local.get $n)))
"""


def test_what_is_written_is_read_by_both_sides(guests: Guests) -> None:
    guest = guests(MEMORY)
    guest.write(10, b"abc")
    assert guest.read(9, 5) == b"\0abc\0"
    assert guest.call("load", 11) == ord("b")


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"xabc")[1:]], ids=["bytes", "array", "view"])
def test_any_buffer_can_be_written(guests: Guests, data: bytes | bytearray | memoryview) -> None:
    guest = guests(MEMORY)
    guest.write(0, data)
    assert guest.read(0, 3) == b"abc"


def test_a_view_is_the_memory_itself(guests: Guests) -> None:
    guest = guests(MEMORY)
    with guest.view(100, 4) as view:
        view[1] = 65
        assert guest.read(100, 4) == b"\0A\0\0"
        guest.write(102, b"B")
        assert bytes(view) == b"\0AB\0"
    assert guest.call("load", 101) == 65


def test_a_view_can_be_read_as_numbers(guests: Guests) -> None:
    guest = guests(MEMORY)
    guest.write(0, (7).to_bytes(8, "little") + (-1).to_bytes(8, "little", signed=True))
    with guest.view(0, 16) as view:
        assert view.cast("q").tolist() == [7, -1]


def test_a_view_outlives_the_instance(guests: Guests) -> None:
    guest = guests(MEMORY)
    guest.write(0, b"kept")
    view = guest.view(0, 4)
    guest.close()
    assert bytes(view) == b"kept"


@pytest.mark.parametrize(
    ("address", "size"), [(65_536, 1), (65_530, 7), (-1, 1), (0, -1), (1 << 40, 1), (0, 1 << 40), (-5, 10)]
)
@pytest.mark.parametrize("use", ["read", "view", "write"])
def test_a_range_outside_breaks_the_instance(guests: Guests, use: str, address: int, size: int) -> None:
    guest = guests(MEMORY)
    uses: dict[str, Callable[[], object]] = {
        "read": lambda: guest.read(address, size),
        "view": lambda: guest.view(address, size),
        "write": lambda: guest.write(address if size == 1 else 65_536, b"x"),
    }
    with pytest.raises(GuestFault, match="outside its memory of 65536 bytes") as caught:
        uses[use]()
    assert caught.value.kind is FaultKind.MEMORY
    assert guest.is_broken


def test_nothing_at_the_very_end_is_not_outside(guests: Guests) -> None:
    guest = guests(MEMORY)
    assert guest.read(65_536, 0) == b""
    guest.write(65_536, b"")
    assert not guest.is_broken


def test_a_guest_without_memory_has_none(guests: Guests) -> None:
    guest = guests("(module)")
    assert guest.memory_bytes == 0
    assert guest.read(0, 0) == b""
    with pytest.raises(GuestFault, match="1 byte at 0 outside its memory of 0 bytes"):
        guest.read(0, 1)


def test_growth_is_seen_at_once(guests: Guests) -> None:
    guest = guests(MEMORY)
    assert guest.call("grow", 3) == 1
    assert guest.memory_bytes == 4 * 65_536
    guest.write(3 * 65_536, b"x")
    assert guest.call("load", 3 * 65_536) == ord("x")


def test_a_memory_bomb_stops_at_the_cap(guests: Guests) -> None:
    guest = guests(MEMORY, limits=Limits(memory_bytes=4 * MEBIBYTE, deadline_s=1.0))
    assert guest.call("bomb") == 48  # pages, in steps of one mebibyte, beside the first page
    assert guest.memory_bytes == 49 * 65_536
    assert guest.call("grow", 65_535) == -1
    assert not guest.is_broken


def test_a_cap_above_the_reserved_address_space_can_be_used(guests: Guests) -> None:
    guest = guests(MEMORY, limits=Limits(memory_bytes=96 * MEBIBYTE, deadline_s=1.0))
    guest.write(0, b"kept")
    assert guest.call("grow", 80 * 16) == 1
    assert guest.memory_bytes == 81 * 16 * 65_536 - 15 * 65_536
    assert guest.read(0, 4) == b"kept"


def test_a_call_is_refused_while_a_view_is_held_of_a_memory_that_may_move(guests: Guests) -> None:
    guest = guests(MEMORY, limits=Limits(memory_bytes=96 * MEBIBYTE))
    load = guest.prepare("load")
    if guests.engine.name == "wasmer":  # its memories have room to grow where they are
        with guest.view(0, 4) as view:
            assert guest.call("grow", 80 * 16) == 1
            view[0] = 9
            assert load(0) == 9
        return
    with guest.view(0, 4), pytest.raises(RuntimeError, match="a view of the instance's memory is still held"):
        load(0)
    assert load(0) == 0


def test_a_view_may_be_kept_over_calls_of_a_memory_that_stays(guests: Guests) -> None:
    guest = guests(MEMORY)
    with guest.view(0, 4) as view:
        assert guest.call("grow", 100) == 1
        view[0] = 9
        assert guest.call("load", 0) == 9


def test_a_module_that_begins_above_its_cap_is_refused(guests: Guests) -> None:
    with pytest.raises(GuestFault, match="memory") as caught:
        guests('(module (memory (export "memory") 2000))')
    assert caught.value.kind is FaultKind.MEMORY


@pytest.mark.parametrize("tables", ["(table 10000000 funcref)", "(table 90000 funcref)" * 5], ids=["one", "five"])
def test_giant_tables_are_refused(guests: Guests, tables: str) -> None:
    with pytest.raises(GuestFault) as caught:
        guests(f"(module {tables})")
    assert caught.value.kind is FaultKind.MEMORY
