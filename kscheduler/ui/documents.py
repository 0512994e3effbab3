"""Reads reports and comparisons from files, so far as to say what is wrong with one before the page shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder

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


class _Kind(msgspec.Struct):
    differences: msgspec.Raw = msgspec.Raw()  # comparisons only have this field


_decode_kind = json_decoder(_Kind)
_decode_report = json_decoder(_Report)
_decode_comparison = json_decoder(_Comparison)


@dataclass(frozen=True, slots=True)
class Document:
    """A report or a comparison as the page gets it: its JSON, and the name under which it is shown."""

    name: str
    content: bytes
    is_comparison: bool = False


def read_document(path: Path) -> Document:
    """Read a report that `kscheduler simulate --output` wrote, or a comparison of `kscheduler compare --output json`.

    Raises ConfigError, naming the file and the first fault, if it is neither.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"{path}: expected a report of at most {MAX_BYTES:,} bytes, got {size:,}")
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        is_comparison = bool(bytes(_decode_kind(content).differences))
        if is_comparison:
            _decode_comparison(content)
        else:
            _decode_report(content)
    except DecodeError as error:
        expected = "a report of `kscheduler simulate --output`, a comparison, or a record of `kscheduler record`"
        raise ConfigError(f"{path}: expected {expected}: {error}") from error
    return Document(path.name, content, is_comparison)
