"""The oracle's process: requests go in as lines of JSON, answers come out, in order.

It is started with the first question and again after it has died. A fault of the oracle is an OracleError that says
what it was asked last; a fault in one request leaves the process up.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from tests.parity.case import Case

AHEAD = 3  # requests on their way while an answer is compared, so that both programs work at once
ANSWER_TIMEOUT_S = 60.0
_SHOWN = 2000


class OracleError(Exception):
    """The oracle refused a request, or died."""


class Status(msgspec.Struct, rename="camel", omit_defaults=True):
    code: str = "Success"
    plugin: str = ""
    reasons: list[str] | None = None

    def key(self) -> tuple[str, tuple[str, ...]]:
        """What has to agree; the order of reasons may vary from run to run."""
        return self.code, tuple(sorted(self.reasons or ()))


class PluginScores(msgspec.Struct, rename="camel"):
    """One plugin's scores, by node."""

    weight: int
    raw: list[int]
    normalized: list[int]


class Decision(msgspec.Struct, rename="camel", kw_only=True):
    """What was decided about a pod, and why; `raw` and the like run parallel to `scored`."""

    pre_enqueue: Status | None = None
    pre_filter: Status | None = None
    filter_skipped: list[str] = []  # plugins whose PreFilter left them out
    statuses: dict[str, Status] = {}  # node -> why not; nodes that fit are absent
    feasible: list[str] = []  # of all nodes
    scored: list[str] = []  # of the feasible nodes those in the sample, if more than one
    scores: dict[str, PluginScores] = {}  # plugin -> scores; empty if no nodes are scored
    totals: list[int] | None = None
    host: str = ""
    evaluated: int = 0  # nodes looked at, if there is a host
    found: list[str] = []  # nodes found to fit, in the order they were found in
    failure: str = ""
    is_fit_error: bool = False
    rejected_by: list[str] | None = None
    pending_on: list[str] | None = None
    search_fault: str = ""


class WeighedPlugin(msgspec.Struct):
    name: str
    weight: int


class Happened(msgspec.Struct, rename="camel"):
    """An event that a change led to, and whom it woke."""

    event: str
    woken: dict[str, list[int]]  # plugin -> positions of the pending pods that woke, had it rejected them
    faults: dict[str, list[int]] = {}  # plugin -> positions of the pending pods for which its hint failed


class Tried(msgspec.Struct, rename="camel"):
    """A dry run of preemption on one node."""

    node: str
    rejector: str = ""  # the plugin that had turned it down
    victims: list[str] = []  # uids, the most important first
    violations: int = 0
    status: Status | None = None  # why making room does not help; None if it does


class Preempted(msgspec.Struct, rename="camel", kw_only=True):
    """Whom a pending pod would preempt, or why nobody."""

    host: str = ""  # the node that the pod fits; then no other field is set
    failure: str = ""  # the text its user reads, with what PostFilter says
    fault: str = ""  # why the search broke off; then PostFilter is not asked
    promising: int = 0  # nodes where pods could make room by leaving
    wanted: int = 0  # candidates to look for
    tried: list[Tried] = []  # in the order they were tried in
    candidates: list[str] = []  # nodes, as they were put to the choice
    chosen: str = ""
    equals: list[str] = []  # all that might be chosen
    ended: list[str] = []  # uids of the victims in the order they are ended in
    cleared: list[str] = []  # names of pods whose nomination is taken back
    code: str = ""  # of PostFilter
    message: str = ""
    nomination: str | None = None  # what becomes of the pod's; None leaves it as it is


class Answer(msgspec.Struct, rename="camel", kw_only=True):
    error: str = ""
    node_order: list[str] | None = None
    plugins: dict[str, list[WeighedPlugin]] | None = None  # "profile/point" -> plugins in order
    queue_order: list[int] | None = None  # positions of the pending pods, as they leave the queue
    pods: list[Decision] | None = None
    changes: list[list[Happened]] | None = None  # of a case of hints: for each change the events it led to
    preempted: list[Preempted] | None = None  # of a case of preemption: for each pending pod


class Oracle:
    """`binary` is the built command `oracle` of the control plane's Go module."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()  # b"" once the process has closed its output

    def ask(self, case: Case) -> Answer:
        """The oracle's answer. Raises OracleError."""
        self._send(case)
        return self._receive(case)

    def answers(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Answer]]:
        """Each case with its answer; the oracle works on the next ones meanwhile. Raises OracleError."""
        waiting: deque[Case] = deque()
        try:
            for case in cases:
                self._send(case)
                waiting.append(case)
                if len(waiting) > AHEAD:
                    first = waiting.popleft()
                    yield first, self._receive(first)
            while waiting:
                first = waiting.popleft()
                yield first, self._receive(first)
        finally:
            if waiting:  # their answers would be taken for those of later questions
                self.close()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                _close(stream)

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(self._binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._lines = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_read_lines, args=(process.stdout, self._lines), daemon=True).start()
        return process

    def _send(self, case: Case) -> None:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(case.request() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death(case) from None

    def _receive(self, case: Case) -> Answer:
        try:
            line = self._lines.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            self.close()
            raise OracleError(f"seed {case.seed}: the oracle gave no answer in {ANSWER_TIMEOUT_S:.0f} s") from None
        if not line:
            raise self._death(case)
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error:
            raise OracleError(f"seed {case.seed}: the oracle refused the request: {answer.error[:_SHOWN]}")
        return answer

    def _death(self, case: Case) -> OracleError:
        process = self._process
        assert process is not None
        assert process.stderr is not None
        process.kill()
        recorded = process.stderr.read().decode(errors="replace")[-_SHOWN:]
        code = process.wait()
        self.close()
        return OracleError(f"seed {case.seed}: the oracle ended with exit code {code}: {recorded}")


def _read_lines(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except (OSError, ValueError):
        pass  # closed under us
    lines.put(b"")


def _close(stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # what was still to be written goes nowhere
        stream.close()
