"""Keeps the results of a sweep in a directory, so that it can go on after a crash.

`results.jsonl` has one line a finished run, and is the same for every number of processes. `timings.jsonl` has what the
runs cost this machine. `plan.json` has the runs in order, with what the report needs. A line is written at once by one
write; a last line that a killed process left incomplete is dropped, and its run is repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kscheduler.counted import counted
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.sweep.metrics import Timing
from kscheduler.sweep.runs import Run

T = TypeVar("T")

RESULTS = "results.jsonl"
TIMINGS = "timings.jsonl"
PLAN = "plan.json"


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one run: its figures, or the error with which it failed."""

    key: str
    trace: str
    cluster: str
    config: str
    seed: int
    ending: str = ""
    figures: dict[str, float] = {}
    error: str = ""

    @classmethod
    def failed(cls, run: Run, error: str) -> Result:
        return cls(run.key, run.trace, run.cluster, run.config, run.seed, error=error)


def renamed(result: Result, run: Run) -> Result:
    """Return a result under the names of a run with the same key."""
    return msgspec.structs.replace(result, trace=run.trace, cluster=run.cluster, config=run.config)


class Finished(msgspec.Struct, frozen=True):
    """A finished run: its result, and its cost unless it failed."""

    result: Result
    timing: Timing | None = None


class PlanFile(msgspec.Struct, frozen=True):
    """The runs of a sweep in order, and what its report shows."""

    version: str
    metrics: list[str]
    baseline: str
    runs: list[Run]
    warnings: list[str] = []  # about the configurations, for the report


_decode_result = json_decoder(Result)
_decode_timing = json_decoder(Timing)
_decode_plan = json_decoder(PlanFile)
_encode = msgspec.json.encode


class Results:
    """The results in one directory. Use it as a context manager: nobody else may write there at the same time."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self.by_key: dict[str, Result] = {}
        self.timings: dict[str, Timing] = {}
        self.notes: list[str] = []  # sentences about lines that were dropped
        self._lock = -1

    def __enter__(self) -> Results:
        """Make the directory if missing, and read what is there.

        Raises ConfigError if another process writes there, or a line is not a result.
        """
        try:
            if self.directory.exists() and not self.directory.is_dir():
                raise ConfigError(f"{self.directory}: expected a directory for results, this is a file")
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"{self.directory}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self._unlock()
            raise ConfigError(f"{self.directory}: another sweep is writing its results here") from None
        except OSError as error:  # of the lock, on some network file systems, or of a line that is cut off
            self._unlock()
            raise ConfigError(f"{self.directory}: cannot be written: {error.strerror}") from error
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._unlock()

    def add(self, finished: Finished) -> None:
        """Append the result of one run to the files, its cost first: a result that is there is complete."""
        if finished.timing is not None:
            self.timings[finished.timing.key] = finished.timing
            self._append(TIMINGS, finished.timing)
        self.by_key[finished.result.key] = finished.result
        self._append(RESULTS, finished.result)

    def put_in_order(self, runs: Iterable[Run]) -> None:
        """Rewrite the files in the order of the runs, with their names; results of other runs follow."""
        ordered: dict[str, Result] = {}
        for run in runs:
            if (found := self.by_key.get(run.key)) is not None:
                ordered[run.key] = renamed(found, run)
        self.by_key = {**ordered, **{key: found for key, found in self.by_key.items() if key not in ordered}}
        self.timings = {key: self.timings[key] for key in self.by_key if key in self.timings}
        self._replace(RESULTS, b"".join(_encode(result) + b"\n" for result in self.by_key.values()))
        self._replace(TIMINGS, b"".join(_encode(timing) + b"\n" for timing in self.timings.values()))

    def write_plan(self, plan: PlanFile) -> None:
        self._replace(PLAN, msgspec.json.format(_encode(plan), indent=1) + b"\n")

    def read_plan(self) -> PlanFile:
        """Return the plan of the sweep that was begun here. Raises ConfigError if there is none."""
        path = self.directory / PLAN
        try:
            return _decode_plan(path.read_bytes())
        except FileNotFoundError:
            raise ConfigError(
                f"{path}: expected the plan that `kscheduler sweep --out` writes, there is none"
            ) from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        except DecodeError as error:
            raise ConfigError(f"{path}: expected the plan of a sweep: {error}") from None

    # --- files --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        timings: list[Timing] = self._lines(TIMINGS, _decode_timing)
        results: list[Result] = self._lines(RESULTS, _decode_result)
        self.timings = {timing.key: timing for timing in timings}
        self.by_key = {result.key: result for result in results}

    def _lines(self, name: str, decode: Any) -> list[Any]:
        path = self.directory / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        whole, _, rest = data.rpartition(b"\n")
        if rest:
            size = counted(len(rest), "byte")
            self.notes.append(f"{path}: the last line is cut off ({size}): it is dropped, its run repeated")
            os.truncate(path, len(data) - len(rest))
        found = []
        for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
            try:
                found.append(decode(line))
            except DecodeError as error:
                raise ConfigError(f"{path}:{number}: expected a line of a sweep's results: {error}") from None
        return found

    def _append(self, name: str, line: Result | Timing) -> None:
        path = self.directory / name
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                data = _encode(line) + b"\n"
                if os.write(descriptor, data) < len(data):
                    raise ConfigError(f"{path}: cannot be written: no space for a whole line")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error

    def _replace(self, name: str, data: bytes) -> None:
        """Replace a file as a whole, so that it is never seen half written."""
        path = self.directory / name
        new = path.with_name(f".{name}.new")
        try:
            with open(new, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error

    def _unlock(self) -> None:
        os.close(self._lock)
