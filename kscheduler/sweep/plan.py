"""Plans the runs of a sweep: every trace on every cluster with every configuration and seed, in this order.

A run is a function of trace, cluster, configuration, settings, seed and the program's version. Its key is a digest of
the content of these, so that neither names nor places of files matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kscheduler import __version__
from kscheduler.errors import ConfigError
from kscheduler.simulator.options import SimulateArguments, check_arguments
from kscheduler.sweep.configurations import Configurations
from kscheduler.sweep.files import InputFile, input_file, with_content
from kscheduler.sweep.grid import ClusterEntry, Grid, TraceEntry
from kscheduler.sweep.patches import count_choices
from kscheduler.sweep.runs import Inputs, Run, Task

FORMAT = 1  # of results; raised when the same run would get other figures from this package
MAX_RUNS = 10_000
_OWN_NODES = "own"  # the name of the cluster that a trace brings itself, or of the default nodes


@dataclass(frozen=True, slots=True)
class _Combination:
    trace: str
    cluster: str
    config: str
    inputs: Inputs
    digest: str


class Plan:
    """The runs of a grid with seeds. Everything that can be wrong with the grid is found when it is made."""

    def __init__(self, grid: Grid, seeds: Sequence[int], *, max_runs: int = MAX_RUNS) -> None:
        """Read and check the grid's files. Raises ConfigError; also if there are more than `max_runs` runs."""
        self.grid = grid
        self.seeds = list(dict.fromkeys(seeds))
        count = _count(grid) * len(self.seeds)
        if count > max_runs:
            raise ConfigError(
                f"the grid has {count:,} runs: expected at most {max_runs:,}; --max-runs {count} allows them"
            )
        configurations = Configurations(grid.configs)
        self._combinations = list(_combinations(grid, configurations))
        self.warnings = configurations.warnings  # on feature gates that do less than they seem to
        self.configs = list(dict.fromkeys(each.config for each in self._combinations))

    def tasks(self) -> Iterator[Task]:
        """Yield every run with its inputs; runs that differ only in configuration and seed follow each other."""
        for each in self._combinations:
            for seed in self.seeds:
                key = hashlib.sha256(f"{each.digest} seed {seed}".encode()).hexdigest()[:32]
                yield Task(Run(key, each.trace, each.cluster, each.config, seed), each.inputs)

    def check_traces(self) -> None:
        """Read every trace with its nodes once. Raises ConfigError, naming file and line, if one cannot be played."""
        from kscheduler.sweep.running import check_inputs

        distinct = {(each.inputs.arguments, each.inputs.scale): each for each in self._combinations}
        for each in distinct.values():
            try:
                check_inputs(each.inputs)
            except ConfigError as error:
                raise ConfigError(f'trace "{each.trace}" on "{each.cluster}": {error}') from error

    def runs(self) -> list[Run]:
        return [task.run for task in self.tasks()]

    @property
    def files(self) -> list[InputFile]:
        return list({file.path: file for each in self._combinations for file in each.inputs.files}.values())


def sent(inputs: Inputs) -> Inputs:
    """Return inputs that contain their files, for another machine. Raises ConfigError if one cannot be read."""
    return msgspec.structs.replace(inputs, files=tuple(with_content(file) for file in inputs.files))


def _count(grid: Grid) -> int:
    """Return how many combinations the grid has, without making them."""
    clusters = sum(len(cluster.scale) for cluster in grid.cluster) or 1
    configs = sum(count_choices(config.patches) for config in grid.configs) or 1
    return sum(1 if trace.record else clusters for trace in grid.traces) * configs


def _combinations(grid: Grid, configurations: Configurations) -> Iterator[_Combination]:
    known: dict[str, InputFile] = {}
    for trace in grid.traces:
        for cluster_name, cluster, scale in _clusters(grid.cluster, trace):
            arguments = _arguments(grid, trace, cluster)
            if arguments.nodes is not None and _is_count(arguments.nodes):
                count = int(arguments.nodes)
                scaled = max(1, round(count * scale)) if count > 0 else count
                arguments = replace(arguments, nodes=str(scaled))
                scale = 1.0
            files = tuple(_known(known, path) for path in _paths(arguments))
            for name, text, emulated, code in configurations.of(trace):
                arguments = replace(arguments, emulated_version=emulated.version, feature_gates=emulated.gates)
                inputs = Inputs(arguments, files, text, scale)
                yield _Combination(trace.name, cluster_name, name, inputs, _content_digest(inputs, code))


# --- traces and clusters ------------------------------------------------------------------------------------------


def _clusters(entries: Sequence[ClusterEntry], trace: TraceEntry) -> Iterator[tuple[str, ClusterEntry | None, float]]:
    if trace.record or not entries:
        yield _OWN_NODES, None, 1.0
        return
    for entry in entries:
        for factor in entry.scale:
            yield entry.name if len(entry.scale) == 1 else f"{entry.name}[scale={factor:g}]", entry, factor


def _arguments(grid: Grid, trace: TraceEntry, cluster: ClusterEntry | None) -> SimulateArguments:
    """Return the arguments that `simulate` would get. Raises ConfigError, with the trace's name, if they are wrong."""
    settings, limit = grid.settings, grid.stop.max_time
    arguments = SimulateArguments(
        record=trace.record,
        workload=trace.workload,
        pods=None if trace.pods is None else str(trace.pods),
        nodes=None if cluster is None else str(cluster.nodes),
        arrival=trace.arrival,
        duration=trace.duration,
        speedup=trace.speedup,
        arrivals_only=trace.arrivals_only,
        gpu_resource=trace.gpu_resource,
        first_on_tie=settings.first_on_tie,
        bind_latency_s=settings.bind_latency.seconds,
        bind_concurrency=settings.bind_concurrency,
        retry_waiting_s=settings.retry_waiting.seconds,
        max_time_s=None if limit is None else limit.seconds,
        quiet=True,
    )
    try:
        check_arguments(arguments)
    except ConfigError as error:
        raise ConfigError(f'trace "{trace.name}": {error}') from error
    return arguments


def _paths(arguments: SimulateArguments) -> list[str]:
    values = (arguments.record, arguments.workload, arguments.pods, arguments.nodes)
    return [value for value in values if value is not None and not _is_count(value)]


def _is_count(value: str) -> bool:
    digits = value.replace("_", "")
    return digits.isascii() and digits.isdecimal()


def _known(known: dict[str, InputFile], path: str) -> InputFile:
    if path not in known:
        known[path] = input_file(path)
    return known[path]


def _content_digest(inputs: Inputs, code: Mapping[str, str]) -> str:
    """Return the digest of everything that a run depends on but its seed. `code`: digests of plugins' sources."""
    identities = {file.path: file.identity for file in inputs.files}
    arguments = msgspec.to_builtins(inputs.arguments)
    content: dict[str, Any] = {
        "version": __version__,
        "format": FORMAT,
        "arguments": {
            name: identities.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()
        },
        "configuration": inputs.configuration,
        "scale": inputs.scale,
        "plugins": code,
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
