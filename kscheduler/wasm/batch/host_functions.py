"""Host functions that a guest of the batch ABI may import: log a line, record an Event about its pod, read the time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.assemblyscript import abort_function
from kscheduler.wasm.engine import HostFunction, Instance
from kscheduler.wasm.guest_log import GuestLog

log = logging.getLogger(__name__)

MODULE = "kscheduler"
MAX_LINES, MAX_LINE_BYTES = 64, 1_024  # log lines of one call of a guest, and bytes of one line
MAX_EVENTS, MAX_NOTE_BYTES, MAX_EVENT_REASON_BYTES = 8, 1_024, 128
LEVELS = (logging.INFO, logging.WARNING, logging.ERROR)
EVENT_TYPES = ("Normal", "Warning")

# (pod, type, reason, note)
RecordEvent = Callable[[PodInfo, str, str, str], object]


def record_nothing(pod: PodInfo, kind: str, reason: str, note: str) -> None:
    pass


@dataclass(slots=True)
class CallContext:
    """The state of a guest's current call that its host functions need: the `context` of an instance's `data`."""

    plugin: str
    log_limit: GuestLog
    log_severity: int = 0  # lines below this severity are not logged
    record: RecordEvent = record_nothing
    pod: PodInfo | None = None  # the pod of the call, if it is about one
    lines: int = 0
    events: int = 0
    dropped: int = 0  # lines and Events beyond the limits, in all calls
    last_error: str = ""  # the line of level error that the call logged last, such as a panic's message

    def begin(self, pod: PodInfo | None) -> None:
        self.pod, self.lines, self.events, self.last_error = pod, 0, 0, ""


def host_functions(now_ns: Callable[[], int]) -> Sequence[HostFunction]:
    """Return the host functions of the batch ABI, for `Module.instantiate`."""
    return (
        HostFunction(MODULE, "log", "iii", "", _log),
        HostFunction(MODULE, "event", "iiiii", "", _event),
        HostFunction(MODULE, "now", "", "I", lambda instance: now_ns()),
        abort_function(),
    )


def _log(instance: Instance, level: int, address: int, size: int) -> None:
    text = _text(instance, address, size, MAX_LINE_BYTES)
    context = _context(instance)
    if context is None:
        return
    severity = min(max(level, 0), len(LEVELS) - 1)
    if LEVELS[severity] == logging.ERROR:
        context.last_error = text
    if context.lines >= MAX_LINES:
        context.dropped += 1
        return
    context.lines += 1
    if severity < context.log_severity or not log.isEnabledFor(LEVELS[severity]):
        return
    if context.log_limit.admits(severity):
        log.log(LEVELS[severity], "guest log", extra={"plugin": context.plugin, "line": text})


def _event(instance: Instance, kind: int, reason_at: int, reason_size: int, note_at: int, note_size: int) -> None:
    reason = _text(instance, reason_at, reason_size, MAX_EVENT_REASON_BYTES)
    note = _text(instance, note_at, note_size, MAX_NOTE_BYTES)
    context = _context(instance)
    if context is None:
        return
    if context.pod is None or context.events >= MAX_EVENTS:
        context.dropped += 1
        return
    context.events += 1
    context.record(context.pod, EVENT_TYPES[kind == 1], reason, note)


def _context(instance: Instance) -> CallContext | None:
    """Return the instance's call context; None while the guest starts, when its lines and Events are dropped."""
    context: CallContext | None = getattr(instance.data, "context", None)
    return context


def _text(instance: Instance, address: int, size: int, most: int) -> str:
    """Read a string from a guest's memory, cut to `most` bytes.

    Raises GuestFault for an address outside of the memory.
    """
    address, size = address & 0xFFFFFFFF, size & 0xFFFFFFFF
    if size == 0:
        return ""
    instance.read(address + size - 1, 1)
    return instance.read(address, min(size, most)).decode("utf-8", "replace")
