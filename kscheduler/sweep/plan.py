"""Plans the runs of a sweep: every trace on every cluster with every configuration and seed, in this order.

A run is a function of trace, cluster, configuration, settings, seed and the program's version. Its key is a digest of
the content of these, so that neither names nor places of files matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kscheduler import __version__
from kscheduler.config.document import parse_document, read_document
from kscheduler.config.load import parse_config
from kscheduler.config.types import API_VERSION, DEFAULT_SCHEDULER_NAME, KIND
from kscheduler.errors import ConfigError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.simulator.configuration import check_simulated
from kscheduler.simulator.options import SimulateArguments, check_arguments
from kscheduler.simulator.recorded import recorded_configuration
from kscheduler.sweep.files import InputFile, input_file, with_content
from kscheduler.sweep.grid import ClusterEntry, ConfigEntry, Grid, TraceEntry
from kscheduler.sweep.patches import choice_name, choices, count_choices, patched
from kscheduler.wasm.loading.plugins import GuestPlugins

FORMAT = 1  # of results; raised when the same run would get other figures from this package
MAX_RUNS = 10_000
_OWN_NODES = "own"  # the name of the cluster that a trace brings itself, or of the default nodes


class Run(msgspec.Struct, frozen=True):
    """One run: its key, and the names under which it is reported."""

    key: str
    trace: str
    cluster: str
    config: str
    seed: int


class Inputs(msgspec.Struct, frozen=True):
    """All inputs of a run but its seed. Paths in `arguments` are those of `files`."""

    arguments: SimulateArguments
    files: tuple[InputFile, ...]
    configuration: str  # KubeSchedulerConfiguration as JSON; "": the default one
    scale: float = 1.0  # factor for the number of nodes


class Task(msgspec.Struct, frozen=True):
    """One run with its inputs, ready to be carried out in any process."""

    run: Run
    inputs: Inputs


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
        self._combinations = list(_combinations(grid))
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


def _combinations(grid: Grid) -> Iterator[_Combination]:
    guests = GuestPlugins(cache_dir=None, reloads=False)
    known: dict[str, InputFile] = {}
    checked: dict[tuple[str, str], str] = {}  # (name of a configuration, its text) -> its text
    for trace in grid.traces:
        configurations = list(_configurations(grid.configs or (ConfigEntry("default"),), trace))
        for name, text in configurations:
            if (name, text) not in checked:
                checked[name, text] = _checked(name, text, guests)
        for cluster_name, cluster, scale in _clusters(grid.cluster, trace):
            arguments = _arguments(grid, trace, cluster)
            if arguments.nodes is not None and _is_count(arguments.nodes):
                arguments = replace(arguments, nodes=str(max(1, round(int(arguments.nodes) * scale))))
                scale = 1.0
            files = tuple(_known(known, path) for path in _paths(arguments))
            for name, text in configurations:
                inputs = Inputs(arguments, files, text, scale)
                yield _Combination(trace.name, cluster_name, name, inputs, _content_digest(inputs))


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
    return value.replace("_", "").isdigit()


def _known(known: dict[str, InputFile], path: str) -> InputFile:
    if path not in known:
        known[path] = input_file(path)
    return known[path]


def _content_digest(inputs: Inputs) -> str:
    """Return the digest of everything that a run depends on but its seed."""
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
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


# --- configurations -----------------------------------------------------------------------------------------------


def _configurations(entries: Sequence[ConfigEntry], trace: TraceEntry) -> Iterator[tuple[str, str]]:
    """Yield (name, configuration as JSON) of all configurations for a trace: those of a record depend on it."""
    for entry in entries:
        base = _base(entry, trace)
        for choice in choices(entry.patches):
            name = choice_name(entry.name, entry.patches, choice)
            try:
                document = patched(base or _empty(), choice) if choice else base
            except ConfigError as error:
                raise ConfigError(f'config "{entry.name}": {error}') from None
            yield name, msgspec.json.encode(document, order="deterministic").decode() if document else ""


def _base(entry: ConfigEntry, trace: TraceEntry) -> dict[str, Any]:
    """Return the document that patches are applied to; {} for the default configuration."""
    if entry.base is not None:
        return read_document(entry.base)
    text = recorded_configuration(trace.record) if trace.record else ""
    return parse_document(text.encode(), f"{trace.record}: configuration") if text else {}


def _empty() -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME}]}


def _checked(name: str, text: str, guests: GuestPlugins) -> str:
    """Return the configuration's text. Raises ConfigError with its name if a simulation cannot use it."""
    if text:
        source = f'config "{name}"'
        config = parse_config(text, source, find_plugins=lambda found: find_plugins(found, guests=guests))
        check_simulated(config, source, guests)
        _check_guests(source, parse_document(text.encode(), source))
    return text


def _check_guests(source: str, document: Any) -> None:
    """Raise ConfigError for a guest without a digest: its content would not be in the keys of runs."""
    if isinstance(document, list):
        for item in document:
            _check_guests(source, item)
    elif isinstance(document, dict):
        if "guestURL" in document and not document.get("sha256"):
            raise ConfigError(f"{source}: expected sha256 beside guestURL: a result is kept by the content it is of")
        for item in document.values():
            _check_guests(source, item)
