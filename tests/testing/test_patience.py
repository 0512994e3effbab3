"""Waits last as long as anything moves, and end when nothing does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from kscheduler.testing.controlplane import patience
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.patience import (
    POLL_S,
    Patience,
    ended,
    eventually,
    is_anything_working,
    notified,
    until,
)


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether processes work, at each look; idle when there is no more."""
    looks: list[bool] = []
    monkeypatch.setattr(patience, "is_anything_working", lambda: bool(looks) and looks.pop(0))
    monkeypatch.setattr(patience, "IDLE_S", 2 * patience.LOOK_S)
    return looks


def spend(left: Patience, pauses: int, pause_s: float = POLL_S) -> None:
    for _ in range(pauses):
        left.waited(pause_s)


def test_a_wait_in_which_nothing_moves_is_given_up_and_says_what_was_seen(working: list[bool]) -> None:
    left = Patience("all pods are bound", lambda: "3 of 7", idle_s=1.0)
    spend(left, 19)
    with pytest.raises(HarnessError, match=r"all pods are bound: waited in vain, .* for 1\.0 s; last seen: 3 of 7"):
        spend(left, 1)


def test_time_in_which_a_process_works_costs_no_patience(working: list[bool]) -> None:
    working += [True] * 50
    left = Patience("it ends", idle_s=1.0)
    spend(left, 500 + 19)
    with pytest.raises(HarnessError):
        spend(left, 1)


def test_a_change_of_the_state_restores_all_patience(working: list[bool]) -> None:
    bound = 0
    left = Patience("all pods are bound", lambda: bound, idle_s=1.0)
    for _ in range(20):
        spend(left, 10)
        bound += 1
        spend(left, 10)
    with pytest.raises(HarnessError, match="last seen: 20"):
        spend(left, 20)


def test_a_pause_that_took_too_long_shows_a_machine_without_time(working: list[bool]) -> None:
    left = Patience("it ends", idle_s=1.0)
    for _ in range(100):
        spend(left, 9)
        spend(left, 1, pause_s=10 * POLL_S)
    spend(left, 19)


def test_a_process_that_spins_for_ever_ends_at_the_ceiling(
    working: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    working += [True] * 1000
    monkeypatch.setattr(patience, "CEILING_S", 0.0)
    with pytest.raises(HarnessError, match="it ends: not within 0 s, though processes work"):
        spend(Patience("it ends"), 10)


def test_a_thread_that_waits_is_notified() -> None:
    changed, found = threading.Condition(), []

    def find() -> None:
        with changed:
            found.append(1)
            changed.notify_all()

    threading.Thread(target=find).start()
    notified(changed, lambda: found, Patience("it is found"))


async def test_coroutines_wait_for_a_result_or_a_condition() -> None:
    answer = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answer.set_result, 7)
    assert await ended(answer, "the answer comes") == 7
    await until(answer.done, "the answer has come")
    eventually(answer.done, "the answer has come")


async def test_work_that_is_given_up_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "is_anything_working", lambda: False)
    monkeypatch.setattr(Patience.__init__, "__kwdefaults__", {"idle_s": 0.1})
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(HarnessError, match="the answer comes: waited in vain"):
        await ended(never, "the answer comes")
    assert never.cancelled()


def test_a_process_that_computes_works_and_one_that_sleeps_does_not() -> None:
    """Only the child is looked at, since what else the test run started may work too."""

    def looks_working(program: str, until_it_is: bool) -> bool:
        command = [sys.executable, "-c", f"import time; print(flush=True); {program}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            for _ in range(6000):  # after the line the program may still have to be executed, however long that takes
                if is_anything_working(str(child.pid)) == until_it_is:
                    break
                time.sleep(0.01)
            looks = [is_anything_working(str(child.pid)) for _ in range(20)]
            child.kill()
        assert len(set(looks)) == 1, looks
        return looks[0]

    assert looks_working("[0 for _ in iter(int, 1)]", True)
    assert not looks_working("time.sleep(1000)", False)


def test_what_a_process_started_works_for_it() -> None:
    busy = [sys.executable, "-c", "print(flush=True); [0 for _ in iter(int, 1)]"]
    command = [sys.executable, "-c", f"import subprocess; subprocess.run({busy})"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert all(is_anything_working(str(parent.pid)) for _ in range(20))
        os.killpg(parent.pid, signal.SIGKILL)
