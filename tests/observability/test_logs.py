"""Log records as lines: fields, levels, and values that resist being written."""

from __future__ import annotations

import io
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

import kscheduler
from kscheduler.cut_text import MOST_BYTES
from kscheduler.errors import ConfigError
from kscheduler.observability.log_levels import OUTCOME, TRACE
from kscheduler.observability.log_modules import module_verbosities, parse_vmodule
from kscheduler.observability.logs import QUIET, JSONFormatter, TextFormatter, configure, level_of, set_verbosity


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.fixture
def stream(logging_restored: None) -> io.StringIO:
    return io.StringIO()


def record(message: str = "pod bound", level: int = OUTCOME, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("kscheduler.queue").makeRecord(
        "kscheduler.queue", level, "queue.py", 1, message, (), None, extra=extra
    )
    made.created = 1_763_712_000.25  # 2025-11-21 08:00:00.25 UTC
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(JSONFormatter().format(made))
    return document


def failing(error: Exception, level: int = logging.ERROR) -> logging.LogRecord:
    made = record("plugin failed", level)
    try:
        raise error
    except Exception as caught:
        made.exc_info = (type(caught), caught, caught.__traceback__)
    return made


def test_what_an_exception_says_is_cut() -> None:
    document = as_json(failing(RuntimeError("far too much " * 100_000)))
    assert {len(document[name]) for name in ("err", "stack")} == {MOST_BYTES, MOST_BYTES + len("RuntimeError: ")}


def test_a_text_line_has_klogs_head_the_quoted_message_and_the_fields() -> None:
    line = TextFormatter().format(record(pod="ns/name", node="n1", feasible=812, cached=True))
    assert line == 'I1121 08:00:00.250000 queue] "pod bound" pod="ns/name" node="n1" feasible=812 cached=true'


@pytest.mark.parametrize(
    ("level", "letter"),
    [(logging.ERROR, "E"), (logging.WARNING, "W"), (logging.DEBUG, "I"), (TRACE, "I"), (logging.CRITICAL, "F")],
)
def test_the_first_letter_is_the_severity(level: int, letter: str) -> None:
    assert TextFormatter().format(record(level=level)).startswith(letter)


def test_a_text_record_stays_one_line_whatever_its_values_hold() -> None:
    line = TextFormatter().format(
        record("a\nb", pod="x\ny", reasons=["p\nq"], error=failing(ValueError("v\nw")).exc_info)
    )
    assert "\n" not in line


def test_json_has_klogs_keys_and_the_fields() -> None:
    assert as_json(record(pod="ns/name", node="n1")) == {
        "ts": 1_763_712_000.25,
        "v": 2,
        "logger": "queue",
        "msg": "pod bound",
        "pod": "ns/name",
        "node": "n1",
    }


def test_a_field_cannot_replace_the_keys_of_the_record() -> None:
    assert as_json(record(ts="yesterday", v="x"))["ts"] == 1_763_712_000.25


def test_json_names_the_level_of_warnings_and_errors() -> None:
    assert as_json(record(level=logging.WARNING))["level"] == "warning"


def test_an_exception_becomes_err_and_for_errors_stack() -> None:
    document = as_json(failing(ConfigError("no such file")))
    assert document["err"] == "no such file"
    assert "Traceback" in document["stack"]


def test_a_warnings_exception_has_no_stack() -> None:
    assert "stack" not in as_json(failing(ConfigError("x"), logging.WARNING))


def test_a_builtin_exception_names_its_type() -> None:
    assert as_json(failing(KeyError("x")))["err"] == "KeyError: 'x'"


def test_values_without_a_json_form_are_written_by_repr() -> None:
    assert as_json(record(value=object))["value"] == "<class 'object'>"


@pytest.mark.parametrize("formatter", [JSONFormatter(), TextFormatter()])
@pytest.mark.parametrize(
    "value",
    [Unprintable(), UnprintableError(), {1: Unprintable()}, float("nan"), "\ud800", b"\xff", 10**30, {("a",): 1}],
    ids=lambda value: type(value).__name__,
)
def test_no_value_makes_formatting_raise(formatter: logging.Formatter, value: Any) -> None:
    assert "pod bound" in formatter.format(record(value=value))


@pytest.mark.parametrize("formatter", [JSONFormatter(), TextFormatter()])
def test_a_value_that_holds_itself_is_still_written(formatter: logging.Formatter) -> None:
    value: list[Any] = []
    value.append(value)
    assert "pod bound" in formatter.format(record(value=value))


def test_a_message_that_does_not_fit_its_arguments_is_kept() -> None:
    made = record("%d pods")
    made.args = ("many",)
    assert "%d pods" in TextFormatter().format(made)


def test_an_exception_whose_text_fails_is_written_by_its_repr() -> None:
    assert "UnprintableError" in as_json(failing(UnprintableError()))["err"]


@pytest.mark.parametrize(
    ("verbosity", "level"),
    [
        (QUIET, logging.WARNING),
        (0, logging.INFO),
        (1, logging.INFO),
        (2, OUTCOME),
        (3, OUTCOME),
        (4, logging.DEBUG),
        (9, logging.DEBUG),
        (10, TRACE),
    ],
)
def test_verbosity_maps_to_a_level(verbosity: int, level: int) -> None:
    assert level_of(verbosity) == level


def test_configure_writes_to_the_stream_and_replaces_itself(stream: io.StringIO) -> None:
    configure("json", 2, stream)
    configure("json", 2, stream)
    logging.getLogger("kscheduler.queue").info("pod added", extra={"pod": "ns/name"})
    lines = stream.getvalue().splitlines()
    assert [json.loads(line)["pod"] for line in lines] == ["ns/name"]


def test_verbosity_changes_while_running(stream: io.StringIO) -> None:
    configure("text", 2, stream)
    log = logging.getLogger("kscheduler.queue")
    log.debug("not shown")
    set_verbosity(10)
    log.log(TRACE, "shown")
    assert "not shown" not in stream.getvalue()
    assert "shown" in stream.getvalue()


def test_libraries_are_quiet_until_asked(stream: io.StringIO) -> None:
    configure("text", 2, stream)
    logging.getLogger("library").info("chatter")
    assert stream.getvalue() == ""


def test_a_closed_stream_loses_the_record_and_nothing_else(stream: io.StringIO) -> None:
    configure("text", 2, stream)
    stream.close()
    logging.getLogger("kscheduler.queue").info("pod added")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        configure("xml")


# --- verbosity of single modules ---


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", ()),
        ("queue=5", (("queue", 5),)),
        ("queue=5,,bind*=4,", (("queue", 5), ("bind*", 4))),
    ],
)
def test_settings_of_modules_are_read_as_klog_reads_them(text: str, settings: tuple[tuple[str, int], ...]) -> None:
    assert parse_vmodule(text) == settings


@pytest.mark.parametrize("text", ["queue", "queue=", "=5", "queue=5=6", "queue=-1", "queue=x", "queue=2147483648"])
def test_settings_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern=N format|parsing verbosity in"):
        parse_vmodule(text)


def test_patterns_fit_the_last_part_of_a_modules_name_and_the_first_counts() -> None:
    names = module_verbosities(parse_vmodule("binder=4,bind*=6,cli?nt=3"))
    assert names["kscheduler.client.binder"] == 4
    assert names["kscheduler.cycle.binding_tasks"] == 6
    assert names["kscheduler.client"] == 3  # a package goes by its own name
    assert "kscheduler.client.informer" not in names
    assert all(name.rpartition(".")[2].startswith(("bind", "client")) for name in names)


def test_every_module_that_logs_can_be_named() -> None:
    known = set(module_verbosities(parse_vmodule("*=1")))
    package = Path(kscheduler.__file__).parent
    logging_modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
        if "getLogger(__name__)" in path.read_text()
    }
    assert logging_modules
    assert logging_modules <= known


@pytest.mark.usefixtures("logging_restored")
@pytest.mark.parametrize("format", ["text", "json"])
def test_a_pipe_that_nobody_reads_does_not_hold_the_program_up(format: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb", buffering=0) as reader:
        configure(format, 2, stream, longest_wait_s=0.0)
        for number in range(10_000):
            logging.getLogger("kscheduler.queue").info("pod added", extra={"number": number})
        before = reader.read(1 << 20)
        logging.getLogger("kscheduler.queue").info("the last one")
        *_, notice, last = (before + reader.read(1 << 20)).decode().splitlines()
        written = before.count(b"\n")
    assert "log lines were dropped: they were not read in time" in notice
    assert any(f"{10_000 - written - begun}" in notice for begun in (0, 1)), "one may have been begun"
    assert "the last one" in last


def test_a_stream_that_is_no_pipe_is_written_as_ever(stream: io.StringIO) -> None:
    configure("text", 2, stream, longest_wait_s=0.0)
    logging.getLogger("kscheduler.queue").info("pod added")
    assert stream.getvalue().endswith('queue] "pod added"\n')


def test_a_module_says_more_than_the_others_and_less_never(stream: io.StringIO) -> None:
    configure("text", 2, stream, vmodule=parse_vmodule("binder=4,informer=0"))
    logging.getLogger("kscheduler.client.binder").debug("a reason")
    logging.getLogger("kscheduler.client.recorder").debug("hidden")
    logging.getLogger("kscheduler.client.informer").log(OUTCOME, "an outcome")
    assert [line.split("]")[0].split()[-1] for line in stream.getvalue().splitlines()] == [
        "client.binder",
        "client.informer",
    ]


def test_configuring_again_forgets_the_modules_of_before(stream: io.StringIO) -> None:
    configure("text", 0, stream, vmodule=parse_vmodule("binder=10"))
    configure("text", 0, stream)
    logging.getLogger("kscheduler.client.binder").debug("hidden")
    assert stream.getvalue() == ""
