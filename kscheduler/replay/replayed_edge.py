"""Where the tasks of a replayed scheduler wait: they go on when the record says so, with the results in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from kscheduler import errors
from kscheduler.errors import APIError
from kscheduler.framework.status import Code, Status
from kscheduler.input.decoding import json_decoder
from kscheduler.record.entries import Failure, Request, Resumed
from kscheduler.replay.edge import STARTS

log = logging.getLogger(__name__)

T = TypeVar("T")
Task = Coroutine[Any, Any, None]

_APIERRORS: dict[str, type[APIError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, APIError)
}
_EXCEPTIONS: dict[str, type[BaseException]] = {
    "CancelledError": asyncio.CancelledError,
    "TimeoutError": TimeoutError,
    "InternalError": errors.InternalError,
    "PluginError": errors.PluginError,
    "StoppedItself": errors.StoppedItself,
}

_PlainStatus = tuple[int, tuple[str, ...], str]
_decode_status = json_decoder(_PlainStatus)
_decode_outcome = json_decoder(tuple[_PlainStatus | None, Failure | None])


class ReplayedEdge:
    """Runs tasks from wait to wait, when the record says so. Implements `Edge`.

    Requests made during an input wait for its end: `match` then finds the recorded ones among them. Tasks whose request
    is not in the record, because a decision was another one, are ended.
    """

    def __init__(self) -> None:
        self._made: list[_Made] = []  # during this input
        self._waiting: dict[int, _Made] = {}  # recorded ticket -> what waits for it

    async def wait(self, verb: str, subject: str, call: Callable[[], Awaitable[T]], kind: type[Any]) -> T:
        made = _Made(verb, subject, kind)
        self._made.append(made)
        return cast(T, await _Pause(made))

    def task(self, verb: str, subject: str, work: Task) -> Task:
        self._made.append(_Made(verb, subject, type(None), work))
        return work

    def resume(self, entry: Resumed) -> None:
        """Run the task that waits for this ticket up to its next wait; do nothing if there is none."""
        made = self._waiting.pop(entry.ticket, None)
        if made is None or made.task is None:
            return
        if entry.error is not None:
            error = exception_of(entry.error)
            self._run(made.task, lambda task: task.throw(error))
        else:
            value = _value(entry.value, made.kind)
            self._run(made.task, lambda task: task.send(value))

    def _run(self, task: Task, step: Callable[[Task], Any]) -> None:
        try:
            pause: _Pause = step(task)
        except (StopIteration, asyncio.CancelledError):
            return
        except Exception:
            log.exception("a task failed in the replay")
            return
        pause.made.task = task

    def match(self, recorded: Sequence[Request]) -> list[tuple[str, str]]:
        """Give the requests of this input their recorded tickets; return verb and subject of all that were made."""
        made, self._made = self._made, []
        left = list(made)
        for request in recorded:
            found = next((one for one in left if (one.verb, one.subject) == (request.verb, request.subject)), None)
            if found is not None:
                left.remove(found)
                self._waiting[request.ticket] = found
        for one in left:
            self._end(one)
        self._made.clear()  # what tasks requested while they ended
        return [(one.verb, one.subject) for one in made]

    def close(self) -> None:
        """End all tasks."""
        for made in self._waiting.values():
            self._end(made)
        self._waiting.clear()
        self._made.clear()

    def _end(self, made: _Made) -> None:
        """End a task as if it had been cancelled: it releases what it holds."""
        task = made.task
        if task is None:
            return
        if made.is_start:
            self._run(task, lambda each: each.send(None))
        try:
            task.close()
        except RuntimeError:  # it waits again while it ends
            log.debug("a task waited while it was ended", extra={"verb": made.verb})


@dataclass(slots=True, eq=False)
class _Made:
    """A request that a task made, or the start of a task."""

    verb: str
    subject: str
    kind: type[Any]  # of the result
    task: Task | None = None  # that waits for it

    @property
    def is_start(self) -> bool:
        return self.verb in STARTS


class _Pause:
    """What a task awaits."""

    def __init__(self, made: _Made) -> None:
        self.made = made

    def __await__(self) -> Generator[_Pause, Any, Any]:
        return (yield self)


def _value(value: msgspec.Raw, kind: type[Any]) -> Any:
    """Decode what a wait returned, an object of type `kind`; a tuple is a status and an error, of which one is None."""
    if bytes(value) == b"null":
        return None
    if kind is Status:
        return _status(*_decode_status(value))
    if kind is tuple:
        answer, fault = _decode_outcome(value)
        return None if answer is None else _status(*answer), None if fault is None else exception_of(fault)
    return json_decoder(kind)(value)


def _status(code: int, reasons: tuple[str, ...], plugin: str) -> Status:
    return Status(Code(code), reasons, plugin)


def exception_of(failure: Failure) -> BaseException:
    """Return the exception that was recorded, as far as its type is known; else a RuntimeError."""
    kind = _APIERRORS.get(failure.type)
    if kind is not None:
        return kind(failure.message, status=failure.status, reason=failure.reason)
    return _EXCEPTIONS.get(failure.type, RuntimeError)(failure.message)
