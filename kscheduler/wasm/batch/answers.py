"""Decodes the answers of guests, and checks that the ABI allows their numbers and codes."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import msgspec

from kscheduler.counted import counted
from kscheduler.errors import DecodeError
from kscheduler.framework.status import REJECTED, Code, Status
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import FaultKind, GuestFault

MAX_STATE_BYTES = 65_536
MAX_WAIT_MS = 900_000  # as long as kube-scheduler lets a pod wait
MAX_REASONS = 8  # reasons of one status
MAX_REASON_BYTES = 1_024
MAX_MARKS = 255  # different reasons in one answer of a filter


class PodAnswer(msgspec.Struct):
    """A guest's answer about one pod; plugins/abi/README.md lists the fields of each extension point."""

    status: list[int | str] | None = None
    state: bytes | None = None
    only: bytes | None = None
    verdicts: bytes | None = None
    reasons: list[list[int | str]] = []
    scores: bytes | None = None
    wait_ms: int = 0
    error: str | None = None


class _Answer(msgspec.Struct):
    pods: list[PodAnswer] | None = None
    error: str | None = None


class GuestError(Exception):
    """The guest itself reports that a call, or its work on a pod, failed. Its instance can still be used."""


_decode_answer = msgpack_decoder(_Answer)
_ALLOWED: dict[Point, Collection[Code]] = {  # allowed codes beside success and error
    Point.PRE_ENQUEUE: REJECTED,
    Point.PRE_FILTER: REJECTED | {Code.SKIP},
    Point.PRE_SCORE: {Code.SKIP},
    Point.RESERVE: REJECTED,
    Point.PERMIT: REJECTED | {Code.WAIT},
    Point.PRE_BIND: REJECTED,
}


def read_answers(packed: bytes, point: Point, pods: int) -> list[PodAnswer]:
    """Decode one answer per pod. Raises GuestFault if the ABI is violated, GuestError if the guest reports an error."""
    answer = _decode(packed, f"ks_call({point.word})")
    if answer.pods is None:
        return [PodAnswer() for _ in range(pods)]
    if len(answer.pods) != pods:
        raise bad_answer(point, f"pods: expected {counted(pods, 'answer')}, got {len(answer.pods)}")
    for each in answer.pods:
        if each.state is not None and len(each.state) > MAX_STATE_BYTES:
            raise bad_answer(point, f"state: expected at most {MAX_STATE_BYTES} bytes, got {len(each.state)}")
    return answer.pods


def read_acknowledgement(packed: bytes, function: str) -> None:
    """Check a guest's answer to ks_configure or ks_table, functions that only acknowledge what they got.

    Raises GuestFault, or GuestError if the guest reports an error.
    """
    _decode(packed, function)


def _decode(packed: bytes, function: str) -> _Answer:
    if not packed:
        return _Answer()
    try:
        answer = _decode_answer(packed)
    except DecodeError as error:
        raise GuestFault(FaultKind.BAD_ANSWER, f"{function}: {error}") from error
    if answer.error is not None:
        raise GuestError(f"{function}: {_cut(answer.error)}")
    return answer


def status_of(answer: PodAnswer, point: Point) -> Status | None:
    """Return the plugin status of one pod; None for success.

    Raises GuestError if the guest reports an error for the pod.
    """
    if answer.error is not None:
        raise GuestError(_cut(answer.error))
    if answer.status is None:
        return None
    return _status(answer.status, point, _ALLOWED[point])


def reasons_of(answer: PodAnswer) -> list[Status]:
    """Return the statuses with which a guest's Filter answer rejects nodes.

    The answer has a mark for each node: 0 if it is feasible, else 1 + the index of its status.
    """
    if len(answer.reasons) > MAX_MARKS:
        raise bad_answer(Point.FILTER, f"reasons: expected at most {MAX_MARKS}, got {len(answer.reasons)}")
    found = [_status(written, Point.FILTER, REJECTED) for written in answer.reasons]
    for number, status in enumerate(found):
        if status is None or status.code is Code.ERROR:
            raise bad_answer(Point.FILTER, f"reason {number}: expected code 2, 3 or 6, got {answer.reasons[number][0]}")
    return [status for status in found if status is not None]


def wait_of(answer: PodAnswer) -> float:
    """Return how long Permit lets the pod wait, in seconds. Raises GuestFault if it is out of range."""
    if not 0 <= answer.wait_ms <= MAX_WAIT_MS:
        raise bad_answer(Point.PERMIT, f"wait_ms: expected 0..{MAX_WAIT_MS}, got {answer.wait_ms}")
    return answer.wait_ms / 1_000


def read_marks(answer: PodAnswer, rows: int) -> tuple[bytes, list[Status]]:
    """Return a mark for each node of a question at Filter, and the statuses that marks refer to.

    A mark is 0 if the node is feasible, else 1 + the index of the status that rejects it.
    """
    marks, reasons = answer.verdicts, reasons_of(answer)
    if marks is None:
        return bytes(rows), reasons
    if len(marks) != rows:
        raise bad_answer(Point.FILTER, f"verdicts: expected {_bytes_for(rows, rows)}, got {len(marks)}")
    if marks and (highest := max(marks)) > len(reasons):
        row = marks.index(highest)
        raise bad_answer(Point.FILTER, f"verdicts: entry {row} is reason {highest}, of {len(reasons)}")
    return marks, reasons


def read_scores(answer: PodAnswer, rows: int) -> array[int]:
    """Return a guest's score for each node of a question.

    Their range is not checked, as it matters for feasible nodes only.
    """
    return array("q", packed_scores(answer, rows))


def packed_scores(answer: PodAnswer, rows: int) -> bytes:
    """Return the scores of the nodes that the guest was asked about as packed int64, zeros if it gave none."""
    if answer.scores is None:
        return bytes(8 * rows)
    if len(answer.scores) != 8 * rows:
        raise bad_answer(Point.SCORE, f"scores: expected {_bytes_for(8 * rows, rows)}, got {len(answer.scores)}")
    return answer.scores


def bad_answer(point: Point, message: str) -> GuestFault:
    return GuestFault(FaultKind.BAD_ANSWER, f"ks_call({point.word}): {message}")


def _status(written: list[int | str], point: Point, allowed: Collection[Code]) -> Status | None:
    code, *reasons = written or [-1]
    if code == Code.SUCCESS:
        return None
    if not isinstance(code, int) or (code not in allowed and code != Code.ERROR):
        codes = ", ".join(str(int(each)) for each in sorted({Code.SUCCESS, Code.ERROR, *allowed}))
        raise bad_answer(point, f"status: expected one of the codes {codes}, got {code!r:.60}")
    texts = [reason for reason in reasons if isinstance(reason, str)]
    if len(texts) != len(reasons):
        raise bad_answer(point, "status: expected text as reasons, got a number")
    return Status(Code(code), tuple(_cut(text) for text in texts[:MAX_REASONS]))


def _cut(text: str) -> str:
    """Shorten a text to at most MAX_REASON_BYTES bytes of UTF-8."""
    packed = text.encode()
    return text if len(packed) <= MAX_REASON_BYTES else packed[:MAX_REASON_BYTES].decode(errors="ignore")


def _bytes_for(size: int, rows: int) -> str:
    return f"{counted(size, 'byte')} for {counted(rows, 'row')}"
