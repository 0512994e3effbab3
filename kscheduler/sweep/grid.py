"""Reads a grid: the traces, clusters and configurations of a sweep, each of which is combined with each other one.

    traces:
    - openb.csv                                   # pods in the openb format; .zst: a record; .yaml: a workload file
    - {name: burst, pods: 2000, arrival: "poisson:100", duration: "exp:60"}     # generated, as `simulate` does
    cluster:
    - {name: small, nodes: nodes.csv, scale: [0.5, 1]}                          # two clusters
    configs:
    - default.yaml
    - name: packed
      base: default.yaml                          # none: the record's, or else the default configuration
      emulatedVersion: "1.37"                     # none: the record's, or else 1.36
      featureGates: {GenericWorkload: true}       # besides the record's
      patches:                                    # each list gives one configuration for each of its values
        profiles[0].pluginConfig[name=NodeResourcesFit].args.scoringStrategy.type: [MostAllocated]
        profiles[0].plugins.multiPoint.enabled[name=NodeResourcesFit].weight: [1, 5]
    metrics: [placed, pending-p99, "allocated:cpu"]                             # the first one is the quality
    stop: {maxTime: 2h}                           # of virtual time
    settings: {bindLatency: 5ms, firstOnTie: true}

Files are relative to the grid. Without `cluster` a generated or listed trace is played on the default nodes; a record
brings its own nodes. Without `configs` the default configuration is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.client.adaptive_limit import DEFAULT_BIND_CONCURRENCY
from kscheduler.config.decode import decode, describe
from kscheduler.config.document import read_document
from kscheduler.config.duration import Duration
from kscheduler.config.emulated_version import parse_emulated_version
from kscheduler.errors import ConfigError
from kscheduler.simulator.traces import DEFAULT_GPU_RESOURCE
from kscheduler.sweep.metrics import DEFAULT_METRICS, check_metric
from kscheduler.sweep.spelling import did_you_mean

MAX_SCALE = 10_000
DEFAULT_LATENCY = Duration.of_seconds(0.005)
DEFAULT_RETRY = Duration.of_seconds(300)


class _Fields(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""


class TraceEntry(_Fields, frozen=True):
    """Where pods come from, by the names that `simulate` has for its flags."""

    pods: str | int | None = None
    workload: str | None = None
    record: str | None = None
    arrival: str | None = None
    duration: str | None = None
    speedup: float = 1.0
    arrivals_only: bool = False
    gpu_resource: str = DEFAULT_GPU_RESOURCE


class ClusterEntry(_Fields, frozen=True):
    """Where nodes come from; each factor of `scale` gives one cluster."""

    nodes: str | int | None = None
    scale: tuple[float, ...] = (1.0,)


class ConfigEntry(_Fields, frozen=True):
    """A configuration, or several: `patches` maps a path to the values that are set there."""

    base: str | None = None
    emulated_version: str | None = None  # None: the record's, or else the default release
    feature_gates: dict[str, bool] = {}  # besides the record's
    patches: dict[str, Any] = {}


class Stop(msgspec.Struct, frozen=True, rename="camel"):
    max_time: Duration | None = None


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """Settings of the simulated scheduler and apiserver, which are the same in all runs."""

    first_on_tie: bool = False
    bind_latency: Duration = DEFAULT_LATENCY
    bind_concurrency: int = DEFAULT_BIND_CONCURRENCY
    retry_waiting: Duration = DEFAULT_RETRY


class Grid(msgspec.Struct, frozen=True, rename="camel"):
    traces: tuple[TraceEntry, ...] = ()
    cluster: tuple[ClusterEntry, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    metrics: tuple[str, ...] = DEFAULT_METRICS
    stop: Stop = Stop()
    settings: Settings = Settings()


_LISTS: dict[str, type[Any]] = {"traces": TraceEntry, "cluster": ClusterEntry, "configs": ConfigEntry}
_MAPPINGS: dict[str, type[Any]] = {"stop": Stop, "settings": Settings}


def read_grid(source: str | Mapping[str, Any]) -> Grid:
    """Return the grid in a file or a mapping, with the paths of its files resolved.

    Raises ConfigError that names the place and, for an unknown key, the nearest valid one.
    """
    if isinstance(source, str):
        return parse_grid(read_document(source, "traces, cluster and configs"), source, os.path.dirname(source))
    return parse_grid(dict(source), "grid", "")


def parse_grid(document: dict[str, Any], source: str, directory: str) -> Grid:
    """Return the grid in a document. `source`: its name in messages; `directory`: where its files are."""
    try:
        grid = decode(Grid, _normal(document))
        assert grid is not None  # without a list for faults, decode raises them
        _check(grid)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    return _resolved(_named(grid), directory)


# --- keys ---------------------------------------------------------------------------------------------------------


def _normal(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with every entry as a mapping, after its keys were checked."""
    _check_keys("", document, Grid)
    normal = dict(document)
    for key, kind in _LISTS.items():
        entries = document.get(key)
        if isinstance(entries, (str, dict)):
            raise ConfigError(f"{key}: expected a list, got {describe(entries)}")
        if isinstance(entries, Sequence):
            normal[key] = [_entry(f"{key}[{index}]", key, kind, entry) for index, entry in enumerate(entries)]
    for key, kind in _MAPPINGS.items():
        if isinstance(document.get(key), dict):
            _check_keys(key, document[key], kind)
    return normal


def _entry(where: str, section: str, kind: type[Any], entry: Any) -> Any:
    if section == "cluster" and isinstance(entry, (str, int)) and not isinstance(entry, bool):
        return {"nodes": entry}
    if isinstance(entry, str):
        return {"base": entry} if section == "configs" else {_kind_of_trace(entry): entry}
    if isinstance(entry, dict):
        _check_keys(where, entry, kind)
        if isinstance(entry.get("scale"), (int, float)):
            return {**entry, "scale": [entry["scale"]]}
        if isinstance(entry.get("patches"), dict):  # null is a value here: it removes what is there
            return {**entry, "patches": {path: [None] if v is None else v for path, v in entry["patches"].items()}}
    return entry


def _kind_of_trace(path: str) -> str:
    suffix = Path(path).suffix.lower()
    return {".zst": "record", ".yaml": "workload", ".yml": "workload"}.get(suffix, "pods")


def _check_keys(where: str, mapping: dict[str, Any], kind: type[Any]) -> None:
    valid = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in mapping:
        if key not in valid:
            raise ConfigError(f"{where}{': ' if where else ''}{did_you_mean('key', str(key), valid)}")


# --- values -------------------------------------------------------------------------------------------------------


def _check(grid: Grid) -> None:
    if not grid.traces:
        raise ConfigError("traces: expected at least one trace, got none")
    for index, trace in enumerate(grid.traces):
        _check_trace(f"traces[{index}]", trace)
    for index, cluster in enumerate(grid.cluster):
        if cluster.nodes is None:
            raise ConfigError(f"cluster[{index}].nodes: expected a number or a file, got nothing")
        _check_count(f"cluster[{index}].nodes", cluster.nodes)
        if not cluster.scale:
            raise ConfigError(f"cluster[{index}].scale: expected at least one factor")
        for factor in cluster.scale:
            if not 0 < factor <= MAX_SCALE:
                raise ConfigError(
                    f"cluster[{index}].scale: expected numbers above zero, at most {MAX_SCALE:,}, got {factor:g}"
                )
    for index, config in enumerate(grid.configs):
        _check_config(f"configs[{index}]", config)
    if not grid.metrics:
        raise ConfigError("metrics: expected at least one metric, got none")
    for index, metric in enumerate(grid.metrics):
        check_metric(f"metrics[{index}]", metric)
    if grid.stop.max_time is not None and grid.stop.max_time.seconds <= 0:
        raise ConfigError(f"stop.maxTime: expected a duration above zero, got {grid.stop.max_time}")


def _check_count(where: str, value: str | int | None) -> None:
    if isinstance(value, int) and value < 0:
        raise ConfigError(f"{where}: expected a number of zero or more, or a file, got {value}")


def _check_trace(where: str, trace: TraceEntry) -> None:
    if trace.pods is None and trace.workload is None and trace.record is None:
        raise ConfigError(f"{where}: expected pods, workload or record, got none of them")
    _check_count(f"{where}.pods", trace.pods)


def _check_config(where: str, config: ConfigEntry) -> None:
    try:
        if config.emulated_version is not None:
            parse_emulated_version(config.emulated_version)
    except ConfigError as error:
        raise ConfigError(f"{where}.emulatedVersion: {error}") from error


def _named(grid: Grid) -> Grid:
    """Return the grid with a name for each entry. Raises ConfigError if a name is taken twice."""
    return msgspec.structs.replace(
        grid,
        traces=_with_names("traces", grid.traces, [_first(t.record, t.pods, t.workload) for t in grid.traces]),
        cluster=_with_names("cluster", grid.cluster, [_first(c.nodes) for c in grid.cluster]),
        configs=_with_names("configs", grid.configs, [_first(c.base, "default") for c in grid.configs]),
    )


def _first(*values: str | int | None) -> str:
    value = next((value for value in values if value is not None), "")
    return Path(value).stem if isinstance(value, str) else f"{value}"


def _with_names(section: str, entries: Sequence[Any], names: Sequence[str]) -> tuple[Any, ...]:
    taken: set[str] = set()
    named = []
    for index, (entry, name) in enumerate(zip(entries, names, strict=True)):
        name = entry.name or name
        if name in taken:
            raise ConfigError(f'{section}[{index}].name: "{name}" is taken by an earlier entry: give it another name')
        taken.add(name)
        named.append(msgspec.structs.replace(entry, name=name))
    return tuple(named)


def _resolved(grid: Grid, directory: str) -> Grid:
    """Return the grid with the paths of its files relative to the current directory instead of the grid's."""

    def path(value: str | None) -> str | None:
        return None if value is None else os.path.join(directory, value)

    def path_or_count(value: str | int | None) -> str | int | None:
        is_path = isinstance(value, str) and not value.replace("_", "").isdigit()
        return path(str(value)) if is_path else value

    replace = msgspec.structs.replace
    return replace(
        grid,
        traces=tuple(
            replace(t, pods=path_or_count(t.pods), workload=path(t.workload), record=path(t.record))
            for t in grid.traces
        ),
        cluster=tuple(replace(c, nodes=path_or_count(c.nodes)) for c in grid.cluster),
        configs=tuple(replace(c, base=path(c.base)) for c in grid.configs),
    )
