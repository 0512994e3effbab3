"""A side of a comparison that is a report of `kscheduler simulate`: figures, and perhaps where pods were placed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kscheduler import __version__
from kscheduler.compare.kept_attempts import KeptDecisions, kept_attempts
from kscheduler.compare.pod_outcomes import NEVER, NOT_PLACED, PodOutcomes
from kscheduler.compare.sides import Run
from kscheduler.compare.watching import Attempts, Watched
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.simulator.report import Report
from kscheduler.simulator.run import Progress

MAX_BYTES = 1 << 30


class _Details(msgspec.Struct):
    """What the plugins answered, which only a report with decisions has."""

    decisions: KeptDecisions | None = None


class _Version(msgspec.Struct):
    version: str


_decode_version = json_decoder(_Version)
_decode = json_decoder(Report)
_decode_details = json_decoder(_Details)


class ReportSide:
    """A report that was read from a file. What the plugins answered is known if it has decisions."""

    kind = "report"
    arrivals = 0

    def __init__(self, name: str, report: Report, pods: PodOutcomes | None, decisions: KeptDecisions | None) -> None:
        self.name = name
        self._run = Run(report, pods)
        self._decisions = decisions

    def run(self, progress: Progress | None = None) -> Run:
        return self._run

    def attempts(self, watched: Watched, until_s: float | None) -> Attempts | None:
        return None if self._decisions is None else kept_attempts(self._decisions, watched)


def read_report(path: Path, content: bytes) -> ReportSide:
    """Return the side of a report's JSON. Raises ConfigError, naming the file and the first fault, if it is none."""
    try:
        report, details = _decode(content), _decode_details(content)
        pods = _pods(report)
    except DecodeError as error:
        expected = f"a report of `kscheduler simulate --output`{_writer(content)}"
        raise ConfigError(f"{path}: expected {expected}: {error}") from error
    return ReportSide(path.name, report, pods, details.decisions)


def _writer(content: bytes) -> str:
    """Return which other version wrote the report, for a message; "" if it is this one's, or that is not known."""
    try:
        version = _decode_version(content).version
    except DecodeError:
        return ""
    return (
        f" that this version can read, and this one is of kscheduler {version[:40]}" if version != __version__ else ""
    )


def _pods(report: Report) -> PodOutcomes:
    """Return the pods that the report names. Raises DecodeError if its lists contradict each other."""
    placements = report.placements
    pods = PodOutcomes(has_nodes=placements is not None or report.pods.placed + report.pods.existing == 0)
    if placements is not None:
        pods.node_names = placements.nodes
        if not len(placements.pods) == len(placements.node) == len(placements.bound_s):
            raise DecodeError("placements: expected lists of one length")
        if any(not 0 <= node < len(placements.nodes) for node in placements.node):
            raise DecodeError("placements: expected indexes of nodes, got others")
        for key, node, bound_s in zip(placements.pods, placements.node, placements.bound_s, strict=True):
            pods.add(key, node, bound_s)
    for each in report.unplaced:
        pods.add(each.pod, NOT_PLACED, NEVER, each.priority, each.message)
    return pods
