"""The inputs of a recorded scheduler: when they begin and end, and what is written about each.

Inputs do not overlap. Within one, the scheduler's clock stands still, so that one reading is all there is to record;
readings are whole microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from kscheduler.api.objects import APIObject
from kscheduler.clock import Clock
from kscheduler.errors import APIError
from kscheduler.framework.status import Status
from kscheduler.record.background import BackgroundWriter
from kscheduler.record.entries import (
    Answered,
    Change,
    ChangeType,
    Decided,
    Decision,
    Divided,
    Failure,
    Request,
    Resumed,
    Retried,
    Woken,
    Written,
)
from kscheduler.record.kept_fields import encoded

T = TypeVar("T")

WALL_US = 1_000  # a change of the wall clock by more than this is recorded

_encode = msgspec.json.Encoder().encode


class InputClock:
    """The clock of a recorded scheduler: it stands still during an input. Implements `Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at: float | None = None  # the time of the input that is being handled; None between inputs
        self.wall_us = 0  # what is added to get Unix time

    def now(self) -> float:
        return self.microseconds() / 1e6 if self.at is None else self.at

    def wall(self) -> float:
        return self._clock.wall() if self.at is None else self.at + self.wall_us / 1e6

    def microseconds(self) -> int:
        return int(self._clock.now() * 1e6)

    def wall_microseconds(self) -> int:
        return int(self._clock.wall() * 1e6)


class Inputs:
    """Writes the inputs of a scheduler. Each is begun, and ended before the next one; a task's run is ended by it.

    As a context it is one input that happens now.
    """

    def __init__(self, clock: InputClock, writer: BackgroundWriter, start_us: int) -> None:
        self._clock = clock
        self._writer = writer
        self._start_us = start_us
        self._tickets = 0
        self._requests: list[Request] = []  # of this input
        self._decisions: list[Decision] = []
        self._resumed: Resumed | None = None  # the run of a task that is under way
        self._key = os.urandom(16)  # for digests of what is not recorded; forgotten at the end
        self.at = 0.0  # of this input, in seconds since the start

    def begin(self, now: float | None = None) -> None:
        """Begin an input, at a reading of the clock or now."""
        if self._resumed is not None:
            self.suspend()
        clock = self._clock
        us = clock.microseconds() if now is None else round(now * 1e6)
        clock.at = us / 1e6
        self.at = (us - self._start_us) / 1e6

    def end(self) -> None:
        self._clock.at = None

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *error: object) -> None:
        self.end()

    # --- the kinds of inputs --------------------------------------------------------------------------------------

    def change(self, resource: str, kind: ChangeType, obj: APIObject) -> None:
        self._writer.write(Change(self.at, resource, kind, encoded(obj, self._key)))

    def woken(self) -> None:
        clock = self._clock
        wall_us = clock.wall_microseconds() - round((clock.at or 0.0) * 1e6)
        has_jumped = abs(wall_us - clock.wall_us) > WALL_US
        if has_jumped:
            clock.wall_us = wall_us
        self._writer.write(Woken(self.at, wall_us if has_jumped else None))

    def note(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def decided(self, most: int) -> None:
        self._writer.write(Decided(self.at, most, tuple(self._decisions), tuple(self._requests)))
        self._decisions.clear()
        self._requests.clear()

    def written(self, uid: str, error: APIError | None) -> None:
        self._writer.write(Written(self.at, uid, None if error is None else failure(error)))

    def answered(self, has_succeeded: bool) -> None:
        self._writer.write(Answered(self.at, has_succeeded))

    def divided(self) -> None:
        self._writer.write(Divided(self.at))

    def retried(self) -> None:
        self._writer.write(Retried(self.at))

    # --- tasks ----------------------------------------------------------------------------------------------------

    def request(self, verb: str, subject: str) -> int:
        self._tickets += 1
        self._requests.append(Request(self._tickets, verb, subject))
        return self._tickets

    def resume(self, ticket: int, value: object = None, error: BaseException | None = None) -> None:
        self.begin()
        found = None if error is None else failure(error)
        self._resumed = Resumed(self.at, ticket, msgspec.Raw(_encode(value)), found)

    def suspend(self) -> None:
        """End the run of a task, because it waits or has ended."""
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return
        requests = tuple(self._requests)
        self._requests.clear()
        self._writer.write(Resumed(resumed.at, resumed.ticket, resumed.value, resumed.error, requests))
        self.end()


class RecordedEdge:
    """Records what tasks waited for, and when they went on. Implements `Edge`."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    async def wait(self, verb: str, subject: str, call: Callable[[], Awaitable[T]], kind: type[Any]) -> T:
        inputs = self._inputs
        ticket = inputs.request(verb, subject)
        inputs.suspend()
        try:
            value = await call()
        except BaseException as error:
            inputs.resume(ticket, error=error)
            raise
        inputs.resume(ticket, _plain(value))
        return value

    def task(self, verb: str, subject: str, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        return self._run(self._inputs.request(verb, subject), work)

    async def _run(self, ticket: int, work: Coroutine[Any, Any, None]) -> None:
        self._inputs.resume(ticket)
        try:
            await work
        finally:
            self._inputs.suspend()


def _plain(value: object) -> object:
    """Return what stands for the value in a record: a status, or a plugin's status and its exception, as lists."""
    if isinstance(value, Status):
        return [int(value.code), value.reasons, value.plugin]
    if isinstance(value, tuple):
        answer, fault = value
        is_valid = answer is None or isinstance(answer, Status)
        return [_plain(answer) if is_valid else None, None if fault is None else failure(fault)]
    return value


def failure(error: BaseException) -> Failure:
    if isinstance(error, APIError):
        return Failure(type(error).__name__, str(error), error.status, error.reason)
    return Failure(type(error).__name__, str(error))
