"""Guests on several threads: the GIL is free, faults stay with their thread, and the clock of deadlines rests."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kscheduler.wasm.engine import FaultKind, GuestFault, HostFunction, Instance, Limits
from tests.wasm.conformance.conftest import Guests

SPIN = """
(module
  (import "host" "begin" (func $begin))
  (func (export "spin") (call $begin) (loop br 0)))
"""


def test_python_goes_on_while_a_guest_runs(guests: Guests) -> None:
    begun = threading.Event()
    guest = guests(SPIN, [HostFunction("host", "begin", "", "", lambda _: begun.set())], Limits(deadline_s=1.0))
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(guest.call, "spin")
        begun.wait()
        went_on = not running.done()  # with the GIL held, this line would wait for the deadline
        with pytest.raises(GuestFault):
            running.result()
    assert went_on


def test_two_guests_run_at_the_same_time(guests: Guests) -> None:
    both = threading.Barrier(2, timeout=120)  # were the second to begin after the first ended, this would break

    def begin(_instance: Instance) -> None:
        both.wait()

    pair = [guests(SPIN, [HostFunction("host", "begin", "", "", begin)], Limits()) for _ in range(2)]
    with ThreadPoolExecutor(2) as executor:
        running = [executor.submit(guest.call, "spin") for guest in pair]
        faults = [future.exception() for future in running]
    assert [fault.kind for fault in faults if isinstance(fault, GuestFault)] == [FaultKind.DEADLINE] * 2


RAISES = """
(module
  (import "host" "raise" (func $raise (param i32)))
  (func (export "f") (param i32) (call $raise (local.get 0))))
"""


def test_what_host_functions_raise_stays_with_its_thread(guests: Guests) -> None:
    module = guests.module(RAISES)

    def fail(_instance: Instance, number: int) -> None:
        raise ValueError(number)

    functions = [HostFunction("host", "raise", "i", "", fail)]
    rounds = 300

    def calls(first: int) -> list[int]:
        mixed_up = []
        for number in range(first, first + rounds):
            guest = module.instantiate(functions, Limits(deadline_s=5.0))
            try:
                guest.call("f", number)
            except GuestFault as fault:
                if fault.message != f"f: a host function raised ValueError: {number}":
                    mixed_up.append(number)
            guest.close()
        return mixed_up

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as executor:
            assert list(executor.map(calls, (0, 1000, 2000))) == [[], [], []]
    finally:
        sys.setswitchinterval(before)


def test_an_instance_serves_one_thread_at_a_time(guests: Guests) -> None:
    begun, ended = threading.Event(), threading.Event()

    def begin(_instance: Instance) -> None:
        begun.set()
        ended.wait()

    guest = guests(SPIN, [HostFunction("host", "begin", "", "", begin)], Limits(deadline_s=0.01))
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(guest.call, "spin")
        begun.wait()
        with pytest.raises(RuntimeError, match="in a call already"):
            guest.call("spin")
        ended.set()
        with pytest.raises(GuestFault):
            running.result()


def test_an_instance_may_change_threads(guests: Guests) -> None:
    guest = guests('(module (func (export "one") (result i32) (i32.const 1)))')
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(guest.call, "one").result() == 1
    assert guest.call("one") == 1


def test_of_two_calls_that_begin_at_once_one_is_refused(guests: Guests) -> None:
    """A number may be anything that has an index, and asking for that is Python, where another thread may go on."""
    begun, ended = threading.Event(), threading.Event()

    def wait(_instance: Instance) -> None:
        begun.set()
        ended.wait()

    text = """(module (import "host" "wait" (func $wait))
      (func (export "wait") (call $wait)) (func (export "take") (param i32)))"""
    guest = guests(text, [HostFunction("host", "wait", "", "", wait)])
    others: list[Future[object]] = []

    class Number:
        def __index__(self) -> int:
            others.append(executor.submit(guest.call, "wait"))
            others[0].add_done_callback(lambda _: begun.set())
            begun.wait()
            return 1

    faults: list[BaseException | None] = []
    with ThreadPoolExecutor(1) as executor:
        try:
            guest.call("take", Number())  # type: ignore[arg-type]
        except RuntimeError as error:
            faults.append(error)
        ended.set()
    faults += [each.exception() for each in others]
    assert [str(each) for each in faults if each] in (
        ["take: the instance is in a call already"],
        ["wait: the instance is in a call already"],
    )
    guest.call("take", 1)
