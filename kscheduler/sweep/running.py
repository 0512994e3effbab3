"""Carries out one run in any process: a function of its task, which never raises for a fault of the run.

What was read from files is kept from one run to the next in the same process, within limits.
"""

from __future__ import annotations

import functools
import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from kscheduler.api.manifest import Manifests
from kscheduler.api.objects import Node
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import KSchedulerError
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.simulator.configuration import simulated_release
from kscheduler.simulator.inputs import Sources, build_scenario
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.real_run import GC_THRESHOLDS, run_real_scheduler
from kscheduler.simulator.report import build_report
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.traces import Replay
from kscheduler.simulator.workload import WorkloadSpec
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.sweep.files import LocalFiles
from kscheduler.sweep.metrics import Timing, figures_of
from kscheduler.sweep.results import Finished, Result
from kscheduler.sweep.runs import Inputs, Task
from kscheduler.wasm.plugins import GuestPlugins

if TYPE_CHECKING:
    from kscheduler.simulator.recorded import Recorded

T = TypeVar("T")

MAX_KEPT = 4  # files whose content is kept decoded: a trace and nodes of this run, and of the next combination
MAX_ERROR = 600


def carry_out(task: Task) -> Finished:
    """Carry out one run. An exception is a failed result with its message."""
    inputs = _inputs()
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        return _carried_out(task, inputs)
    except Exception as error:
        message = str(error) if isinstance(error, KSchedulerError) else f"{type(error).__name__}: {error}"
        return Finished(Result.failed(task.run, _short(inputs.files.shown(message, task.inputs.files))))
    finally:
        gc.set_threshold(*before)
        gc.collect()  # a simulation's objects refer to each other


def check_inputs(inputs: Inputs) -> int:
    """Read what a run would read and return how many pods arrive. Raises ConfigError naming file and line."""
    return len(_inputs().scenario(inputs, _inputs().config(inputs), 0).arrivals)


def _carried_out(task: Task, kept: _Inputs) -> Finished:
    run, inputs = task.run, task.inputs
    config = kept.config(inputs)
    scenario = kept.scenario(inputs, config, run.seed)
    arguments = replace(kept.arguments(inputs), seed=run.seed)
    outcome, machine = run_real_scheduler(arguments, config, scenario, kept.guests, only_figures=True)
    report = build_report(scenario, outcome, {}, machine, with_histories=False)
    if report.violations:
        return Finished(Result.failed(run, _short(f"invariant violated: {'; '.join(report.violations)}")))
    result = Result(
        run.key, run.trace, run.cluster, run.config, run.seed, ending=report.ending, figures=figures_of(report)
    )
    return Finished(result, Timing.of(run.key, machine))


class _Inputs:
    """The inputs that one process has read."""

    def __init__(self) -> None:
        self.files = LocalFiles()
        self.guests = GuestPlugins(cache_dir=None, reloads=False)
        self.sources = KeptSources()
        self._configs: OrderedDict[Hashable, SchedulerConfig] = OrderedDict()

    def arguments(self, inputs: Inputs) -> SimulateArguments:
        """Return the arguments with paths that exist in this process. Raises ConfigError if a file is missing."""
        paths = {file.path: self.files.path(file) for file in inputs.files}

        def local(value: str | None) -> str | None:
            return None if value is None else paths.get(value, value)

        given = inputs.arguments
        return replace(
            given,
            record=local(given.record),
            workload=local(given.workload),
            pods=local(given.pods),
            nodes=local(given.nodes),
        )

    def config(self, inputs: Inputs) -> SchedulerConfig:
        text, release = inputs.configuration, simulated_release(self.arguments(inputs))
        if not text:
            return default_config(release)
        find = functools.partial(find_plugins, guests=self.guests)
        key = text, release.version, *sorted(release.set_gates.items())
        return _kept(self._configs, key, lambda: parse_config(text, find_plugins=find, release=release))

    def scenario(self, inputs: Inputs, config: SchedulerConfig, seed: int) -> Scenario:
        arguments = replace(self.arguments(inputs), seed=seed)
        if arguments.record is not None:
            schedulers = frozenset(profile.scheduler_name for profile in config.profiles)
            return self.sources.recorded(arguments.record, schedulers).scenario
        if inputs.scale == 1:
            return build_scenario(arguments, self.sources)
        return build_scenario(arguments, self.sources.scaled(inputs.scale))


class KeptSources(Sources):
    """Reads files, and keeps the decoded content of the latest ones."""

    def __init__(self, scale: float = 1.0, kept: OrderedDict[Hashable, Any] | None = None) -> None:
        self._scale = scale
        self._kept: OrderedDict[Hashable, Any] = OrderedDict() if kept is None else kept

    def scaled(self, scale: float) -> KeptSources:
        """Return sources that have another number of nodes, and share what was read."""
        return KeptSources(scale, self._kept)

    def workload(self, path: str) -> WorkloadSpec:
        found: WorkloadSpec = _kept(self._kept, ("workload", path), lambda: Sources.workload(self, path))
        return found

    def manifests(self, path: str) -> Manifests:
        found: Manifests = _kept(self._kept, ("manifests", path), lambda: Sources.manifests(self, path))
        return found if self._scale == 1 else replace(found, nodes=tuple(scaled_nodes(found.nodes, self._scale)))

    def traced_nodes(self, path: str, gpu_resource: str) -> list[Node]:
        key = ("nodes", path, gpu_resource)
        found: list[Node] = _kept(self._kept, key, lambda: Sources.traced_nodes(self, path, gpu_resource))
        return found if self._scale == 1 else scaled_nodes(found, self._scale)

    def traced_arrivals(self, path: str, replay: Replay) -> list[Arrival]:
        return _kept(self._kept, ("pods", path, replay), lambda: Sources.traced_arrivals(self, path, replay))

    def recorded(self, path: str, schedulers: frozenset[str]) -> Recorded:
        from kscheduler.simulator.recorded import read_recorded  # records need an extra

        found: Recorded = _kept(self._kept, ("record", path, schedulers), lambda: read_recorded(path, schedulers))
        return found


def scaled_nodes(nodes: list[Node] | tuple[Node, ...], scale: float) -> list[Node]:
    """Return `scale` times as many nodes: taken evenly from the list, and copies under new names above 1."""
    found = []
    for index, node in enumerate(nodes):
        copies = int((index + 1) * scale + 1e-9) - int(index * scale + 1e-9)
        found += [node if number == 0 else _copy(node, number + 1) for number in range(copies)]
    return found


def _copy(node: Node, number: int) -> Node:
    name = f"{node.metadata.name}-copy{number}"
    labels = dict(node.metadata.labels or {})
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    return structs.replace(node, metadata=structs.replace(node.metadata, name=name, uid="", labels=labels or None))


def _kept(kept: OrderedDict[Hashable, T], key: Hashable, read: Callable[[], T]) -> T:
    """Return the kept value, or read and keep it in place of the one that was not used for longest."""
    if key in kept:
        kept.move_to_end(key)
        return kept[key]
    while len(kept) >= MAX_KEPT:
        kept.popitem(last=False)
    value = kept[key] = read()
    return value


@functools.cache
def _inputs() -> _Inputs:
    return _Inputs()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_ERROR else f"{line[: MAX_ERROR - 3]}..."
