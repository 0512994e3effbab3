"""Creates the GuestFaults of failed calls: exceeded deadlines, traps with the engine's text, host function errors."""

from __future__ import annotations

import re

from kscheduler.wasm.engine import FaultKind, GuestFault, patience_s
from kscheduler.wasm.wasi import ProcessExit

_STARTING = ("_start:", "_initialize:", "start section:")  # calls whose deadline is not the plugin's argument
_HINT = '; the argument "deadline" of the plugin sets this limit'
_LONGEST = 300  # characters of a message, since the text quotes names from the guest
_REASON = re.compile(r"wasm trap: (?P<reason>[^\n]+)")
_FRAME = re.compile(r"^\s*0:\s+0x[0-9a-f]+ - (?P<function>[^\n]+)$", re.M)


def overdue(where: str, deadline_s: float, output: str) -> GuestFault:
    """Return the fault of a call that used more CPU time than its deadline allows."""
    return GuestFault(FaultKind.DEADLINE, f"{where}: ran longer than {deadline_s * 1000:g} ms", output)


def stalled(where: str, deadline_s: float, output: str) -> GuestFault:
    """Return the fault of a call that used little CPU time but did not end in time."""
    return GuestFault(
        FaultKind.DEADLINE,
        f"{where}: did not end within {patience_s(deadline_s) * 1000:g} ms, though it ran for less than "
        f"{deadline_s * 1000:g} ms",
        output,
    )


def from_trap(where: str, text: str, output: str) -> GuestFault:
    """Return the fault of a call that the engine stopped with a trap; `text` is the engine's message."""
    reason = _REASON.search(text)
    frame = _FRAME.search(text)
    message = reason["reason"] if reason else one_line(text)
    inside = f" in {frame['function'].rsplit('!', 1)[-1]}" if frame else ""
    return GuestFault(FaultKind.TRAP, one_line(f"{where}: {message}{inside}"), output)


def from_host(where: str, raised: Exception, output: str) -> GuestFault:
    """Return the fault of a call in which a host function raised."""
    if isinstance(raised, GuestFault):
        return GuestFault(raised.kind, one_line(f"{where}: {raised.message}"), output)
    if isinstance(raised, ProcessExit):
        return GuestFault(FaultKind.EXIT, f"{where}: the guest exited with status {raised.status}", output)
    return GuestFault(
        FaultKind.HOST, one_line(f"{where}: a host function raised {type(raised).__name__}: {raised}"), output
    )


def with_hint(fault: GuestFault) -> str:
    """Return the fault's message; if the deadline was exceeded, with a hint to the plugin argument that sets it."""
    is_call = fault.kind is FaultKind.DEADLINE and not fault.message.startswith(_STARTING)
    return fault.message + _HINT if is_call and _HINT not in fault.message else fault.message


def with_output(fault: GuestFault) -> str:
    """Return the fault's message with its hint and the guest's output, such as a panic message, in one line."""
    printed = one_line(fault.output)
    return f"{with_hint(fault)}; it printed: {printed}" if printed else with_hint(fault)


def one_line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _LONGEST else joined[: _LONGEST - 3] + "..."
