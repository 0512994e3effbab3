"""The process of an oracle: requests go in as lines of JSON, answers come out, in order.

It is started with the first question and again after it has died. A fault of the oracle is an OracleError that says
what it was asked last; a fault in one request leaves the process up.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import msgspec

AHEAD = 3  # requests on their way while an answer is compared, so that both programs work at once
ANSWER_TIMEOUT_S = 60.0
_SHOWN = 2000


class OracleError(Exception):
    """The oracle refused a request, or died."""


class Question(Protocol):
    """A case, of which configuration, cluster and pods are raw JSON."""

    seed: int
    config: dict[str, Any]
    cluster: dict[str, list[Any]]
    pending: list[Any]

    def request(self) -> bytes: ...

    def copy(self: _Q) -> _Q: ...


class Reply(Protocol):
    error: str  # why the oracle refused the request; "" if it did not


_Q = TypeVar("_Q", bound=Question)
_A = TypeVar("_A", bound=Reply)


class OracleProcess(Generic[_Q, _A]):
    """`binary` is a built command of the control plane's Go module, started with `flags`; `reply`: what it answers."""

    def __init__(self, binary: Path, reply: type[_A], flags: Sequence[str] = ()) -> None:
        self._command = [str(binary), *flags]
        self._reply = reply
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()  # b"" once the process has closed its output

    def ask(self, case: _Q) -> _A:
        """The oracle's answer. Raises OracleError."""
        self._send(case)
        return self._receive(case)

    def answers(self, cases: Iterable[_Q]) -> Iterator[tuple[_Q, _A]]:
        """Each case with its answer; the oracle works on the next ones meanwhile. Raises OracleError."""
        waiting: deque[_Q] = deque()
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
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._lines = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=_read_lines, args=(process.stdout, self._lines), daemon=True).start()
        return process

    def _send(self, case: _Q) -> None:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(case.request() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death(case) from None

    def _receive(self, case: _Q) -> _A:
        try:
            line = self._lines.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            self.close()
            raise OracleError(f"seed {case.seed}: the oracle gave no answer in {ANSWER_TIMEOUT_S:.0f} s") from None
        if not line:
            raise self._death(case)
        answer = msgspec.json.decode(line, type=self._reply)
        if answer.error:
            raise OracleError(f"seed {case.seed}: the oracle refused the request: {answer.error[:_SHOWN]}")
        return answer

    def _death(self, case: _Q) -> OracleError:
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
