"""Reads the input of a what-if, and makes the two scenarios of it. Nothing is simulated yet."""

from __future__ import annotations

from dataclasses import replace

from kscheduler.config.gate_flag import with_gates
from kscheduler.config.releases import release_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.simulator.configuration import load_simulated, simulated_config, warnings_on_gates
from kscheduler.simulator.inputs import Sources, build_scenario, with_nodes
from kscheduler.simulator.options import SimulateArguments, settings_of
from kscheduler.simulator.real_run import seed_of
from kscheduler.simulator.scenario import Scenario, with_warnings
from kscheduler.simulator.workload import DEFAULT_NODE_SHAPES
from kscheduler.sweep.running import KeptSources
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.whatif.configuration import changed_config
from kscheduler.whatif.demand import estimated_nodes
from kscheduler.whatif.node_changes import changed_scenario, nodes_of
from kscheduler.whatif.options import NEW_GATES, WhatIfArguments
from kscheduler.whatif.played_side import PlayedSide
from kscheduler.whatif.shapes import Shapes

AS_IT_IS, OTHER_SEED, CHANGED = "as it is", "as it is, with another seed", "changed"


class WhatIf:
    """A scenario as it is, and what it is changed to."""

    def __init__(self, arguments: WhatIfArguments) -> None:
        """Read all inputs. Raises ConfigError for what is unreadable, unknown or invalid."""
        simulate = arguments.simulate
        self._arguments = arguments
        self._guests = GuestPlugins(cache_dir=None, reloads=False)
        self.config = simulated_config(simulate, self._guests)
        self._warnings = warnings_on_gates(simulate)
        self._new_warnings: tuple[str, ...]  # set by the next line
        self.new_config = self._changed_config()
        self._names = frozenset(profile.scheduler_name for profile in self.config.profiles)
        sources = KeptSources()  # the workload file is asked for twice, and may be a pipe
        self._scenario = _scenario(simulate, self.config, sources)
        plan = None if simulate.workload is None else sources.workload(simulate.workload).nodes
        known = nodes_of(self._scenario)
        self._shapes = Shapes(known, DEFAULT_NODE_SHAPES if plan is None else plan.shapes)
        self.changed_scenario(0)  # which checks what the flags name
        if not known and not arguments.nodes.add:
            raise ConfigError("expected an input with nodes, or --nodes, got none")

    @property
    def seed(self) -> int:
        """The seed of the scenario as it is."""
        return seed_of(self._arguments.simulate, self._scenario)

    @property
    def arrivals(self) -> int:
        return len(self._scenario.arrivals)

    def as_it_is(self, *, seed: int | None = None) -> PlayedSide:
        """Return the scenario as it is; `seed`: another one than the arguments'."""
        scenario = with_warnings(self._scenario, self._warnings)
        return self._side(AS_IT_IS if seed is None else OTHER_SEED, scenario, self.config, seed)

    def changed(self, sought: int = 0) -> PlayedSide:
        """Return the changed scenario. `sought`: how many nodes an addition without a number adds."""
        scenario = with_warnings(self.changed_scenario(sought), self._new_warnings)
        return self._side(CHANGED, scenario, self.new_config, None)

    def changed_scenario(self, sought: int) -> Scenario:
        return changed_scenario(self._scenario, self._arguments.nodes, self._shapes, self._names, sought=sought)

    def estimated(self) -> int:
        """Return how many nodes of the shape whose number is to be found the pods need by what they request."""
        scenario = self.changed_scenario(0)
        further = next(self._shapes.make(self._arguments.sought, 1)).node
        return estimated_nodes(scenario.arrivals, nodes_of(scenario), further)

    def _side(self, name: str, scenario: Scenario, config: SchedulerConfig, seed: int | None) -> PlayedSide:
        simulate = self._arguments.simulate
        return PlayedSide(
            name,
            scenario,
            config,
            simulate if seed is None else replace(simulate, seed=seed),
            self._guests,
            parameters=settings_of(simulate, config.release),
        )

    def _changed_config(self) -> SchedulerConfig:
        path, version, base = self._arguments.new_config, self._arguments.new_emulated_version, self.config
        release = base.release if version is None else release_of(version)
        release, warnings = with_gates(release, dict(self._arguments.new_feature_gates), NEW_GATES)
        # Gates of the scenario as it is hold in the changed one as well, unless it has another release.
        self._new_warnings = warnings if version is not None else (*self._warnings, *warnings)
        if path is not None:
            base = load_simulated(path, self._guests, release)
        elif release != base.release:
            gates = tuple(sorted(release.set_gates.items()))
            simulate = replace(self._arguments.simulate, emulated_version=release.version, feature_gates=gates)
            base = simulated_config(simulate, self._guests)
        changed = changed_config(base, self._arguments.configuration, self._guests)
        names, expected = ({profile.scheduler_name for profile in config.profiles} for config in (changed, self.config))
        if names != expected:
            raise ConfigError(
                f"expected the profiles {', '.join(sorted(expected))}, as they are, got {', '.join(sorted(names))}: "
                "pods name them"
            )
        return changed


def _scenario(arguments: SimulateArguments, config: SchedulerConfig, sources: Sources) -> Scenario:
    if arguments.record is None:
        return build_scenario(arguments, sources)
    from kscheduler.simulator.recorded import read_recorded  # records need an extra

    schedulers = frozenset(profile.scheduler_name for profile in config.profiles)
    recorded = read_recorded(arguments.record, schedulers, arguments.max_pods, jobs_run_on=True)
    return with_nodes(recorded.scenario, arguments)
