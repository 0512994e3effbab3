"""Formats log records as klog's text or as JSON, with the fields of `extra=` as keys. Logging never raises.

User info and query of URLs are removed from records, since errors of libraries and their stacks may contain the
requested URL.

Levels and kube-scheduler's -v: 0-1 INFO (the program's actions), 2-3 OUTCOME (the result for each pod), 4-9 DEBUG
(reasons), 10 TRACE (scores). A line of the text form:

    I1121 08:00:00.000000 queue] "pod added" pod="ns/name"
"""

from __future__ import annotations

import enum
import json
import logging
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from kscheduler.cut_text import cut_text
from kscheduler.input.redaction import Secret, hide_urls
from kscheduler.observability.log_levels import OUTCOME, TRACE
from kscheduler.observability.log_modules import ModuleVerbosity, module_verbosities
from kscheduler.observability.pipe_writer import PipeWriter, pipe_writer

QUIET = -1  # the verbosity at which only warnings and errors are shown

ROOT = "kscheduler"
LIBRARIES_SPEAK_AT = 6  # from this -v on, INFO messages of other libraries are shown, too

_LETTERS = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"))  # lower levels: I, as in klog
_VERBOSITY = ((logging.INFO, 0), (OUTCOME, 2), (logging.DEBUG, 4))  # level -> lowest -v that shows it; others: 10

_raised: list[str] = []  # names of the loggers whose level --vmodule has changed

# The attributes that every record has; all others come from `extra=`.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LogFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


def configure(
    format: LogFormat | str = LogFormat.TEXT,
    verbosity: int = 0,
    stream: TextIO | None = None,
    *,
    vmodule: Sequence[ModuleVerbosity] = (),
    longest_wait_s: float | None = None,
) -> None:
    """Write all logs to `stream` (None: stderr) in this format; a further call replaces the earlier settings.

    `vmodule` raises the verbosity of single modules. `longest_wait_s`: how long a pipe's reader is waited for, before
    lines are dropped; None: for ever. Raises ValueError for an unknown format.
    """
    formatter = JSONFormatter() if LogFormat(format) is LogFormat.JSON else TextFormatter()
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(formatter)
    if longest_wait_s is not None:
        handler.limit_waiting(longest_wait_s)
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    set_verbosity(verbosity, vmodule)


def set_verbosity(verbosity: int, vmodule: Sequence[ModuleVerbosity] = ()) -> None:
    """Change the verbosity at once, including that of modules imported later."""
    for name in _raised:
        logging.getLogger(name).setLevel(logging.NOTSET)
    _raised.clear()
    for name, more in module_verbosities(vmodule).items():
        if more > verbosity:
            logging.getLogger(name).setLevel(level_of(more))
            _raised.append(name)
    logging.getLogger(ROOT).setLevel(level_of(verbosity))
    libraries = logging.INFO if verbosity >= LIBRARIES_SPEAK_AT else logging.WARNING
    logging.getLogger().setLevel(libraries)


def level_of(verbosity: int) -> int:
    """Return the lowest logging level that is shown at -v `verbosity`."""
    if verbosity >= 10:
        return TRACE
    if verbosity >= 4:
        return logging.DEBUG
    if verbosity >= 2:
        return OUTCOME
    return logging.INFO if verbosity > QUIET else logging.WARNING


if TYPE_CHECKING:
    _TextHandler = logging.StreamHandler[TextIO]
else:
    _TextHandler = logging.StreamHandler  # takes no type argument before CPython 3.11


class _Handler(_TextHandler):
    """A stream handler that drops records it cannot write, for example because the stream was closed."""

    _pipe: PipeWriter | None = None  # in place of the stream, if that is a pipe that is not waited for for ever

    def limit_waiting(self, longest_wait_s: float) -> None:
        """If the stream is a pipe, wait for its reader for a limited time only, and then drop records."""
        self._pipe = pipe_writer(self.stream, longest_wait_s, self._dropped)

    def emit(self, record: logging.LogRecord) -> None:
        if self._pipe is None:
            super().emit(record)
            return
        try:
            self._pipe.write(self._line(record))
        except Exception:
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}{self.terminator}".encode(errors="backslashreplace")

    def _dropped(self, lines: int) -> bytes:
        """Return the line about lines that were dropped because nobody read the pipe."""
        fields = {"msg": "log lines were dropped: they were not read in time", "lines": lines}
        record = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", **fields}
        return self._line(logging.makeLogRecord(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        pass


class JSONFormatter(logging.Formatter):
    """Formats a record as one line of JSON: ts (seconds), v, msg, logger, err, then the fields of `extra=`."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {"ts": round(record.created, 6)}
        if record.levelno >= logging.WARNING:
            document["level"] = record.levelname.lower()
        document |= {"v": _verbosity_of(record.levelno), "logger": _short_name(record.name), "msg": _message(record)}
        document |= {name: value for name, value in _fields(record).items() if name not in document}
        return hide_urls(_encode_json(document))


class TextFormatter(logging.Formatter):
    """Formats a record as a line of klog: severity, date, time, logger, quoted message, key="value" fields."""

    def format(self, record: logging.LogRecord) -> str:
        letter = next((letter for level, letter in _LETTERS if record.levelno >= level), "I")
        moment = datetime.fromtimestamp(record.created, tz=UTC)
        head = f"{letter}{moment:%m%d %H:%M:%S.%f} {_short_name(record.name)}] {_quote(_message(record))}"
        fields = "".join(f" {name}={_text_value(value)}" for name, value in _fields(record).items())
        return hide_urls(head + fields)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a format string that does not fit its arguments must not lose the record
        return f"{_safe_repr(record.msg)} {_safe_repr(record.args)}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of `extra=` in order, then an exception as `err`, with its stack from level ERROR on."""
    fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        fields.setdefault("err", error)
        if record.levelno >= logging.ERROR:
            fields["stack"] = _stack(error)
    return fields


def _stack(error: BaseException) -> str:
    try:
        return cut_text("".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
    except Exception:  # an exception whose own text fails
        return _safe_repr(error)


def _verbosity_of(level: int) -> int:
    return next((verbosity for lowest, verbosity in _VERBOSITY if level >= lowest), 10)


def _short_name(name: str) -> str:
    return name.removeprefix(f"{ROOT}.")


# --- values -----------------------------------------------------------------------------------------------------


def _encode_json(document: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(document, enc_hook=_plain).decode()
    except Exception:  # a key that is no text, a value that holds itself, text that is not Unicode
        safe = {
            name: value if isinstance(value, (int, float)) else _safe_repr(value) for name, value in document.items()
        }
        return json.dumps(safe)


def _plain(value: Any) -> str:
    """Convert a value that JSON has no type for to text: a secret redacted, an exception's message, else the repr."""
    if isinstance(value, Secret):
        return value.shown
    return _error_text(value) if isinstance(value, BaseException) else _safe_repr(value)


def _text_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, (BaseException, Secret)):
        return _quote(_plain(value))
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except Exception:
        return _quote(_safe_repr(value))


def _quote(text: str) -> str:
    """Return text in double quotes, with newlines and control characters escaped so that it stays on one line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _error_text(error: BaseException) -> str:
    """Return an exception's message; with its type if it is a built-in one or has no message (KeyError: 'x')."""
    try:
        text = cut_text(str(error))
    except Exception:
        return _safe_repr(error)
    if not text or type(error).__module__ == "builtins":
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} whose repr failed>"
