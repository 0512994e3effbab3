"""Calls are made in the order in which they were asked for, timers at their time, and nothing gets lost on an error."""

from __future__ import annotations

import math
import random
from contextvars import ContextVar, copy_context
from types import ModuleType

import pytest

from kscheduler._fast import MANY_TIMERS, NOTHING_LEFT, STOPPED, TIME_STANDS_STILL

MOST_ROUNDS = 100


def no_error(callback: object, error: BaseException) -> None:
    raise AssertionError(f"{callback} raised {error!r}")


def test_timers_come_in_order_of_time_then_of_setting_and_time_moves_to_each(fast: ModuleType) -> None:
    calls = fast.CallQueue(5.0)
    made: list[tuple[str, float]] = []
    for name, when in (("late", 9.0), ("first", 7.5), ("second", 7.5), ("past", 1.0)):
        calls.call_at(when, lambda name=name: made.append((name, calls.time())))
    calls.call_later(2.0, lambda: made.append(("later", calls.time())))
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert made == [("past", 5.0), ("later", 7.0), ("first", 7.5), ("second", 7.5), ("late", 9.0)]


def test_what_is_asked_for_in_a_round_comes_in_the_next_one_before_timers_that_are_due(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    made: list[str] = []

    def ask() -> None:
        calls.call_later(0.0, made.append, "timer")
        calls.call_soon(made.append, "soon")

    calls.call_soon(ask)
    calls.call_soon(made.append, "same round")
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert made == ["same round", "soon", "timer"]


def test_a_stop_lets_the_round_end_and_leaves_the_next_one_for_the_next_run(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    made: list[str] = []
    calls.call_soon(calls.stop)
    calls.call_soon(calls.call_soon, made.append, "next round")
    assert calls.run(MOST_ROUNDS, no_error) == STOPPED
    assert (made, len(calls)) == ([], 1)
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert made == ["next round"]


def test_rounds_without_progress_are_limited_and_counted_from_zero_when_time_moves(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)

    def again(left: int, after_s: float) -> None:
        if left:
            (calls.call_later(after_s, again, left - 1, after_s) if after_s else calls.call_soon(again, left - 1, 0.0))

    calls.call_soon(again, 3 * MOST_ROUNDS, 1.0)
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    calls.call_soon(again, 3 * MOST_ROUNDS, 0.0)
    assert calls.run(MOST_ROUNDS, no_error) == TIME_STANDS_STILL


def test_a_call_that_is_cancelled_is_not_made(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    soon, timer = calls.call_soon(pytest.fail, "called"), calls.call_at(3.0, pytest.fail, "called")
    assert not soon.cancelled()
    soon.cancel()
    timer.cancel()
    assert soon.cancelled()
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert calls.time() == 0.0


def test_a_time_that_is_no_number_is_refused_and_other_timers_keep_their_order(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    made: list[str] = []
    calls.call_later(2.0, made.append, "second")
    for ask in (calls.call_later, calls.call_at):
        with pytest.raises(ValueError, match="got nan"):
            ask(math.nan, made.append, "never")
    calls.call_later(1.0, made.append, "first")
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert (made, calls.time()) == (["first", "second"], 2.0)


def test_cancelled_timers_do_not_pile_up(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    made: list[str] = []
    calls.call_at(2e6, made.append, "kept")
    for _ in range(5 * MANY_TIMERS):
        calls.call_later(1e6, pytest.fail, "called").cancel()
    assert len(calls) <= 2 * MANY_TIMERS
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert (made, calls.time()) == (["kept"], 2e6)


@pytest.mark.parametrize("count", [*range(8), 100, 3 * MANY_TIMERS])
def test_any_number_of_timers_come_in_order_though_some_are_cancelled(fast: ModuleType, count: int) -> None:
    calls, source = fast.CallQueue(0.0), random.Random(count)
    made: list[int] = []
    whens = [float(source.randrange(1 + count // 3)) for _ in range(count)]
    timers = [calls.call_at(when, made.append, number) for number, when in enumerate(whens)]
    cancelled = set(source.sample(range(count), count // 4))
    for number in cancelled:
        timers[number].cancel()
    calls.call_at(float(count), made.append, -1)
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert made == [*sorted(set(range(count)) - cancelled, key=lambda number: (whens[number], number)), -1]


def test_an_error_is_reported_and_stops_nothing(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    errors: list[tuple[object, type]] = []
    made: list[str] = []
    calls.call_soon(int, "no number")
    calls.call_soon(made.append, "after it")
    assert calls.run(MOST_ROUNDS, lambda callback, error: errors.append((callback, type(error)))) == NOTHING_LEFT
    assert (errors, made) == ([(int, ValueError)], ["after it"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_run_and_what_was_ready_is_still_called_by_the_next_one(
    fast: ModuleType, error: type[BaseException]
) -> None:
    calls = fast.CallQueue(0.0)
    made: list[str] = []

    def interrupt() -> None:
        calls.call_soon(made.append, "asked for before the interrupt")
        raise error

    calls.call_soon(interrupt)
    calls.call_soon(made.append, "same round")
    with pytest.raises(error):
        calls.run(MOST_ROUNDS, no_error)
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert made == ["same round", "asked for before the interrupt"]


def test_a_call_with_a_context_is_made_in_it(fast: ModuleType) -> None:
    calls, variable = fast.CallQueue(0.0), ContextVar("variable", default="outside")
    seen: list[str] = []
    context = copy_context()
    context.run(variable.set, "inside")
    calls.call_soon(lambda: seen.append(variable.get()), context=context)
    calls.call_at(1.0, lambda: seen.append(variable.get()))
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert seen == ["inside", "outside"]


def test_a_cleared_queue_has_nothing_to_call(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    calls.call_soon(pytest.fail, "called")
    calls.call_later(1.0, pytest.fail, "called")
    calls.clear()
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT


def test_a_call_is_the_last_one_if_none_follows_in_its_round_nor_is_ready_for_the_next(fast: ModuleType) -> None:
    calls = fast.CallQueue(0.0)
    seen: list[bool] = []

    def ask_and_call() -> None:
        seen.append(calls.is_at_last_call())
        calls.call_soon(bool)
        seen.append(calls.is_at_last_call())

    for _ in range(2):
        calls.call_at(1.0, lambda: seen.append(calls.is_at_last_call()))
    calls.call_at(2.0, ask_and_call)
    assert calls.run(MOST_ROUNDS, no_error) == NOTHING_LEFT
    assert seen == [False, True, True, False]
