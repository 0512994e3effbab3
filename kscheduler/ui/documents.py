"""Reads reports, comparisons and what-ifs from files, so far as to say what is wrong with one before it is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder

EXPECTED = "a report of `kscheduler simulate --output`, a comparison, a what-if, or a record of `kscheduler record`"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # which a terminal could obey
MAX_BYTES = 1 << 30  # a browser cannot show more either


class _Latency(msgspec.Struct):
    count: int
    distribution: list[tuple[float, float]]


class _Report(msgspec.Struct):
    """The fields without which the page cannot show a report; every version of a report has them."""

    version: str
    parameters: dict[str, str]
    notes: list[str]
    ending: str
    simulated_s: float
    busiest_s: float
    violations: list[str]
    pods: dict[str, int]
    latency: _Latency
    priorities: list[dict[str, Any]]
    resources: list[dict[str, Any]]
    nodes: dict[str, int]
    reasons: list[dict[str, Any]]
    unplaced: list[dict[str, Any]]
    series: dict[str, Any]
    node_utilisation: dict[str, Any]


class _Side(msgspec.Struct):
    name: str
    report: _Report


class _Difference(msgspec.Struct):
    pod: str
    node_a: str
    node_b: str
    at_s: float | None
    why: dict[str, Any]
    because: str
    given: str
    changed: list[str]


class _Comparison(msgspec.Struct):
    """The fields without which the page cannot show what `kscheduler compare --output json` writes."""

    a: _Side
    b: _Side
    parameters: list[tuple[str, str, str]]
    notes: list[str]
    pods: dict[str, Any]
    differences: list[_Difference]
    not_listed: int
    figures: list[dict[str, Any]]
    paired: dict[str, Any] | None


class _Goal(msgspec.Struct):
    text: str
    value: float
    unit: str


class _Trial(msgspec.Struct):
    nodes: int
    figures: list[str]
    met: bool
    values: list[float | None]


class _Needed(msgspec.Struct):
    shape: str
    nodes: int
    objectives: list[_Goal]
    trials: list[_Trial]


class _Waiting(msgspec.Struct):
    share: str
    before_s: float | None
    after_s: float | None


class _WhatIf(msgspec.Struct):
    """The fields without which the page cannot show what `kscheduler whatif --output json` writes."""

    command: str
    changes: list[str]
    needed: _Needed | None
    scheduled: list[str]
    no_longer_scheduled: list[str]
    on_added_nodes: int
    by_chance: dict[str, Any] | None
    waiting: list[_Waiting]
    pending: list[dict[str, Any]]
    comparison: _Comparison

    def __post_init__(self) -> None:
        """Raise ValueError unless the command, which people copy into a shell, is one command for it and no more."""
        if not self.command.startswith("kscheduler whatif ") or not _is_one_command(self.command):
            raise ValueError("`command`: expected a `kscheduler whatif` command, quoted for a shell")


def _is_one_command(text: str) -> bool:
    if _CONTROL.search(text):
        return False
    try:
        return shlex.join(shlex.split(text)) == text
    except ValueError:  # a quotation mark without its partner
        return False


class DocumentKind(StrEnum):
    """What a document is, in words."""

    REPORT = "report"
    COMPARISON = "comparison"
    WHAT_IF = "what-if"


class _Beginning(msgspec.Struct):
    """The fields that only one kind of document has."""

    differences: msgspec.Raw = msgspec.Raw()  # of a comparison
    comparison: msgspec.Raw = msgspec.Raw()  # of a what-if

    @property
    def kind(self) -> DocumentKind:
        if bytes(self.comparison):
            return DocumentKind.WHAT_IF
        return DocumentKind.COMPARISON if bytes(self.differences) else DocumentKind.REPORT


_decode_beginning = json_decoder(_Beginning)
_DECODERS: dict[DocumentKind, Callable[[bytes], object]] = {
    DocumentKind.REPORT: json_decoder(_Report),
    DocumentKind.COMPARISON: json_decoder(_Comparison),
    DocumentKind.WHAT_IF: json_decoder(_WhatIf),
}


@dataclass(frozen=True, slots=True)
class Document:
    """A document as the page gets it: its JSON, and the name under which it is shown."""

    name: str
    content: bytes
    kind: DocumentKind = DocumentKind.REPORT


def read_document(path: Path) -> Document:
    """Read a report of `kscheduler simulate --output`, or what `compare` or `whatif` print with `--output json`.

    Raises ConfigError, naming the file and the first fault, if it is none of them.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"{path}: expected a report of at most {MAX_BYTES:,} bytes, got {size:,}")
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        kind = _decode_beginning(content).kind
        _DECODERS[kind](content)
    except DecodeError as error:
        raise ConfigError(f"{path}: expected {EXPECTED}: {error}") from error
    return Document(path.name, content, kind)
