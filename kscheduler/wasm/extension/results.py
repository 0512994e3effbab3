"""Converts results of a guest's exports to the framework's types, and faults of a guest to statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kscheduler._fast import MAX_RAW
from kscheduler.counted import counted
from kscheduler.errors import DecodeError
from kscheduler.framework.interface import PostFilterResult
from kscheduler.framework.status import REJECTED, STATUS_LABELS, Code, Status
from kscheduler.input.decoding import json_decoder
from kscheduler.wasm.engine import FaultKind, GuestFault
from kscheduler.wasm.faults import with_hint
from kscheduler.wasm.pool import Unavailable

_CODES = {code.value: code for code in Code}
_ALWAYS = frozenset({Code.ERROR}) | REJECTED
_MORE: Mapping[str, frozenset[Code]] = {  # export -> codes that it may return beside success and `_ALWAYS`
    "prefilter": frozenset({Code.SKIP}),
    "prescore": frozenset({Code.SKIP}),
    "permit": frozenset({Code.WAIT}),
    "bind": frozenset({Code.SKIP}),
}
_U32 = 0xFFFF_FFFF
_NOOP, _OVERRIDE = 0, 1  # nominating modes

Fault = GuestFault | Unavailable


def halves(value: int) -> tuple[int, int]:
    """Split an i64 into (high, low), two signed 32-bit numbers."""
    low = value & _U32
    return value >> 32, low - (1 << 32) if low >> 31 else low


def status_of(export: str, code: int, reason: str) -> Status | None:
    """Return the status for a code; None for success. A code that the export must not return becomes Error."""
    if code == 0:
        return None
    known = _CODES.get(code)
    if known is None:
        return Status(Code.ERROR, (f"unknown status code {code}" + (f": {reason}" if reason else ""),))
    if known not in _ALWAYS and known not in _MORE.get(export, ()):
        return Status(Code.ERROR, (reason or f"{export} returned {STATUS_LABELS[known]}, without a reason",))
    return Status(known, (reason,) if reason else ())


def post_filter_result(mode: int, nominated: str) -> PostFilterResult | None:
    """Return PostFilter's result for a nominating mode; None leaves the nomination as it is.

    Raises GuestFault for an unknown mode.
    """
    if mode == _NOOP:
        return None
    if mode == _OVERRIDE:
        return PostFilterResult(nominated)
    raise GuestFault(FaultKind.BAD_ANSWER, f"expected nominating mode 0 or 1, got {mode}")


def permit_result(value: int) -> tuple[int, float]:
    """Split a result of `permit` into (status code, seconds to wait). Its low half is the timeout in ms, unsigned."""
    return value >> 32, (value & _U32) / 1000


def normalized_scores(data: bytes | None, before: Mapping[str, int]) -> Mapping[str, int]:
    """Return the guest's normalized scores by node name; nodes left out keep their score. GuestFault if malformed."""
    if data is None:
        return before
    try:
        found = _decode_scores(data)
    except DecodeError as error:
        raise GuestFault(FaultKind.BAD_ANSWER, f"expected scores by node name as JSON: {error}") from error
    if found is None:
        return before
    strange = next((name for name in found if name not in before), None)
    if strange is not None:
        raise GuestFault(
            FaultKind.BAD_ANSWER, f"expected scores of the {counted(len(before), 'node')} given, got {strange[:80]!r}"
        )
    extreme = next((score for score in found.values() if not -MAX_RAW <= score <= MAX_RAW), None)
    if extreme is not None:
        raise GuestFault(FaultKind.BAD_ANSWER, f"expected scores from -{MAX_RAW} to {MAX_RAW}, got {extreme}")
    return {**before, **found}


_decode_scores: Callable[[bytes], dict[str, int] | None] = json_decoder(dict[str, int] | None)


def fault_text(export: str, fault: Fault) -> str:
    """Return `wasm: <export> error: <the guest's output>`, followed by the engine's message."""
    message = (with_hint(fault) if isinstance(fault, GuestFault) else str(fault)).removeprefix(f"{export}: ")
    output = fault.output.rstrip("\n") if isinstance(fault, GuestFault) else ""
    return f"wasm: {export} error: {output}\n{message}" if output else f"wasm: {export} error: {message}"


def fault_status(export: str, fault: Fault) -> Status:
    return Status(Code.ERROR, (fault_text(export, fault),), error=fault)
