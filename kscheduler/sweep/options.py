"""The arguments of `kscheduler sweep`, `sweep collect` and `sweep index`."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass

from kscheduler.config.duration import Duration
from kscheduler.errors import ConfigError
from kscheduler.sweep.job import DEFAULT_IMAGE
from kscheduler.sweep.plan import MAX_RUNS

DEFAULT_SEEDS = "1..5"
MAX_SEEDS = 100_000
_RANGE = re.compile(r"\s*(-?\d{1,15})\s*(?:\.\.\s*(-?\d{1,15})\s*)?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class SweepArguments:
    """The arguments of `kscheduler sweep GRID`."""

    grid: str
    seeds: list[int]
    jobs: int
    out: str
    on: str  # "local" or "job"
    resume: bool
    baseline: str  # "": the first configuration
    html: str | None
    max_time_s: float | None
    dry_run: bool
    max_runs: int
    job_name: str
    namespace: str
    image: str
    apply: bool
    kubeconfig: str


@dataclass(frozen=True, slots=True)
class CollectArguments:
    """The arguments of `kscheduler sweep collect`."""

    logs: list[str]  # files; "-": standard input
    out: str
    job_name: str  # "": only files are read
    namespace: str
    kubeconfig: str
    html: str | None


@dataclass(frozen=True, slots=True)
class IndexArguments:
    """The arguments of `kscheduler sweep index`, which runs in the pods of a Job."""

    plan: str
    indexes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Simulate every trace of a grid on every cluster with every configuration and seed, keep the results, and "
        "compare the configurations. Runs that have a result are not repeated. "
        "`kscheduler sweep collect` reads the results of a Job."
    )
    parser.add_argument(
        "grid", metavar="GRID", help="a YAML file with traces, cluster, configs, metrics, stop, settings"
    )
    parser.add_argument("--seeds", default=DEFAULT_SEEDS, metavar="A..B", help=f"or a list (default {DEFAULT_SEEDS})")
    parser.add_argument("--jobs", type=int, default=None, metavar="N", help="runs at a time (default: one a core)")
    parser.add_argument("--resume", action="store_true", help="go on in --out, and try failed runs again")
    parser.add_argument(
        "--baseline", default="", metavar="NAME", help="configuration to compare with (default the first)"
    )
    parser.add_argument("--max-time", default=None, metavar="DURATION", help="begin no run after so long, such as 10m")
    parser.add_argument(
        "--max-runs", type=int, default=MAX_RUNS, metavar="N", help=f"refuse a grid with more (default {MAX_RUNS:,})"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the grid and print what would run")
    _add_output(parser)
    group = parser.add_argument_group("on a cluster")
    group.add_argument("--on", choices=("local", "job"), default="local", help="job: write an Indexed Job into --out")
    group.add_argument("--apply", action="store_true", help="create the Job, too")
    group.add_argument("--image", default=DEFAULT_IMAGE, help=f"of this version (default {DEFAULT_IMAGE})")
    _add_job(group, "kscheduler-sweep")


def add_collect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Join the results that the pods of a sweep's Job printed into the directory of the sweep."
    parser.add_argument("logs", nargs="*", metavar="LOG", help="saved logs of pods; - is standard input")
    _add_output(parser)
    _add_job(parser, "", "read the logs of this Job's pods")


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Carry out the runs of one index of a sweep's Job. The Job's pods run this."
    parser.add_argument("--plan", required=True, metavar="DIR", help="where the plan's ConfigMaps are mounted")
    parser.add_argument("--indexes", required=True, type=int, metavar="N", help="completions of the Job")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="DIR", help="where results are kept, from one call to the next")
    parser.add_argument("--html", metavar="FILE", help="write the comparison as one HTML page")


def _add_job(to: argparse._ActionsContainer, name: str, text: str = "") -> None:
    to.add_argument("--job-name", default=name, metavar="NAME", help=text or f"the Job's name (default {name})")
    to.add_argument("-n", "--namespace", default="default", metavar="NAME", help="of the Job (default default)")
    to.add_argument("--kubeconfig", default="", metavar="FILE", help="default: that of the environment")


def read_arguments(namespace: argparse.Namespace) -> SweepArguments:
    """Convert the parsed arguments. Raises ConfigError that names the flag, what was expected and what was given."""
    values = {name: getattr(namespace, name) for name in SweepArguments.__slots__ if hasattr(namespace, name)}
    jobs = len(os.sched_getaffinity(0)) if namespace.jobs is None else namespace.jobs
    _check_count("--jobs", jobs)
    _check_count("--max-runs", namespace.max_runs)
    _check_name(namespace.job_name)
    if namespace.apply and namespace.on != "job":
        raise ConfigError("--apply: expected --on job beside it")
    values |= {"seeds": parse_seeds(namespace.seeds), "jobs": jobs, "max_time_s": _seconds(namespace.max_time)}
    return SweepArguments(**values)


def read_collect_arguments(namespace: argparse.Namespace) -> CollectArguments:
    """Convert the parsed arguments. Raises ConfigError if there is nothing to read from."""
    arguments = CollectArguments(**{name: getattr(namespace, name) for name in CollectArguments.__slots__})
    if not arguments.logs and not arguments.job_name:
        raise ConfigError("expected saved logs, - for standard input, or --job-name")
    if arguments.job_name:
        _check_name(arguments.job_name)
    return arguments


def read_index_arguments(namespace: argparse.Namespace) -> IndexArguments:
    _check_count("--indexes", namespace.indexes)
    return IndexArguments(namespace.plan, namespace.indexes)


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of a text such as `42..51` or `1,2,10..12`. Raises ConfigError."""
    seeds: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ConfigError(f'--seeds: expected numbers and ranges such as 42..51, got "{text[:60]}"')
        low = int(found[1])
        high = low if found[2] is None else int(found[2])
        if high < low:
            raise ConfigError(f"--seeds: expected a rising range, got {low}..{high}")
        if high - low + len(seeds) >= MAX_SEEDS:
            raise ConfigError(f"--seeds: expected at most {MAX_SEEDS:,} seeds, got {low}..{high}")
        seeds += range(low, high + 1)
    return list(dict.fromkeys(seeds))


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = Duration.parse(text).seconds
    except ValueError as error:
        raise ConfigError(f"--max-time: {error}") from error
    if seconds <= 0:
        raise ConfigError(f"--max-time: expected a duration above zero, got {text}")
    return seconds


def _check_count(flag: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"{flag}: expected at least 1, got {value}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f'--job-name: expected at most 50 lower-case letters, digits and "-", ends without "-", got "{name[:80]}"'
        )
