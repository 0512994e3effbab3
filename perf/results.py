"""Reads and writes results in the schema of scheduler_perf: data items with unit and labels.

There is one item for each metric of each run. Additional facts are stored beside the items, under `kscheduler`: whether
the file is incomplete, on which machine it was made, and what went wrong. Labels identify the runs: Name (the
workload), Scheduler (the target), Load and Round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kscheduler.errors import KSchedulerError

VERSION = "v1"

Data = dict[str, float]  # bucket -> value


class ResultError(KSchedulerError):
    """A file of results cannot be read, or contains something unknown."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Identifies one number of a run: a metric and one of its buckets, such as Perc99."""

    metric: str
    bucket: str
    title: str
    more_is_better: bool

    @property
    def key(self) -> str:
        return f"{self.metric}.{self.bucket}"


THROUGHPUT = Figure("PodsPerSecond", "Average", "pods bound a second", True)
CPU = Figure("SchedulerCPU", "Average", "scheduler CPU, ms a pod", False)
MEMORY = Figure("SchedulerPeakMemory", "Max", "scheduler peak memory, MiB", False)
MEDIAN_LATENCY = Figure("CreateToBound", "Perc50", "created to bound, p50, ms", False)
LATENCY = Figure("CreateToBound", "Perc99", "created to bound, p99, ms", False)
FIGURES = (
    THROUGHPUT,
    Figure("SchedulingThroughput", "Average", "the same as scheduler_perf samples it", True),
    MEDIAN_LATENCY,
    LATENCY,
    Figure("CreateToBindRequest", "Perc99", "created to binding requested, p99, ms", False),
    Figure("BindRequest", "Perc99", "the binding's own answer, p99, ms", False),
    Figure("LastBinding", "Duration", "last created to last bound, s", False),
    CPU,
    MEMORY,
    Figure("ApiserverCPU", "Average", "apiserver CPU, ms a pod", False),
    Figure("PodsEvicted", "Total", "pods evicted", False),
)
UNITS = {
    "PodsPerSecond": "pods/s",
    "SchedulingThroughput": "pods/s",
    "CreatedPerSecond": "pods/s",
    "CreateToBound": "ms",
    "CreateToBindRequest": "ms",
    "BindRequest": "ms",
    "LastBinding": "s",
    "SchedulingDuration": "s",
    "SchedulerCPU": "ms/pod",
    "ApiserverCPU": "ms/pod",
    "SchedulerPeakMemory": "MiB",
    "PodsEvicted": "pods",
}


@dataclass(frozen=True, slots=True)
class Record:
    """The results of one run."""

    workload: str
    target: str
    round: int  # from 1
    metrics: Mapping[str, Data]  # metric -> its buckets
    load: str = "peak"  # or the rate at which pods were created, in words

    @property
    def title(self) -> str:
        """Workload and load."""
        return self.workload if self.load == "peak" else f"{self.workload} at {self.load}"

    def figure(self, figure: Figure) -> float | None:
        return self.metrics.get(figure.metric, {}).get(figure.bucket)


class Item(msgspec.Struct, frozen=True):
    """A DataItem as in scheduler_perf."""

    data: Data
    unit: str
    labels: dict[str, str] = {}


class Facts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about a file as a whole."""

    partial: bool
    rounds: int  # rounds planned for each workload
    targets: tuple[str, ...]
    started: str = ""
    machine: dict[str, str] = {}
    failures: dict[str, str] = {}  # workload -> why some of its rounds are missing
    problems: tuple[str, ...] = ()  # what was wrong with a cluster after a run


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """A file's content: scheduler_perf's DataItems, and our additional facts."""

    version: str
    data_items: tuple[Item, ...]
    kscheduler: Facts


@dataclass(frozen=True, slots=True)
class Results:
    """The results in one file."""

    records: Sequence[Record]
    facts: Facts = field(default_factory=lambda: Facts(False, 1, ()))

    def titles(self) -> list[str]:
        """Workloads, in the order of the runs."""
        return list(dict.fromkeys(record.title for record in self.records))

    def values(self, title: str, target: str, figure: Figure) -> list[float]:
        """A figure over the rounds."""
        chosen = [record for record in self.records if (record.title, record.target) == (title, target)]
        return [value for record in chosen if (value := record.figure(figure)) is not None]


def write(path: Path, results: Results) -> None:
    """Put the file in the place of the one before."""
    items = tuple(item for record in results.records for item in _items(record))
    encoded = msgspec.json.encode(Document(VERSION, items, results.facts))
    whole = path.with_name(f"{path.name}.new")
    whole.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
    whole.replace(path)


def read(path: Path) -> Results:
    """A file as `write` leaves it."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=Document)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise ResultError(f"{path}: {error}") from None
    if document.version != VERSION:
        raise ResultError(f"{path}: version: expected {VERSION}, got {document.version!r}")
    return Results(list(_records(path, document.data_items)), document.kscheduler)


def _items(record: Record) -> Iterable[Item]:
    for metric, data in record.metrics.items():
        if data:
            labels = {
                "Name": record.workload,
                "Metric": metric,
                "Scheduler": record.target,
                "Load": record.load,
                "Round": str(record.round),
            }
            yield Item(data, UNITS[metric], labels)


def _records(path: Path, items: Sequence[Item]) -> Iterable[Record]:
    runs: dict[tuple[str, str, str, int], dict[str, Data]] = {}  # name, load, target, round -> its metrics
    for number, item in enumerate(items):
        where = f"{path}: dataItems[{number}]"
        for label in ("Name", "Metric", "Scheduler", "Load", "Round"):
            if label not in item.labels:
                raise ResultError(f"{where}.labels.{label} is missing")
        labels = item.labels
        if not labels["Round"].isdigit():
            raise ResultError(f"{where}.labels.Round: expected a number, got {labels['Round']!r}")
        if not all(math.isfinite(value) for value in item.data.values()):
            raise ResultError(f"{where}.data: expected numbers, got {item.data}")
        run = labels["Name"], labels["Load"], labels["Scheduler"], int(labels["Round"])
        runs.setdefault(run, {})[labels["Metric"]] = item.data
    for (name, load, target, number), metrics in runs.items():
        yield Record(name, target, number, metrics, load)
