"""Small scenarios for what-ifs, their sides, and arguments."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.api.objects import Node
from kscheduler.client.kinds import NODES
from kscheduler.client.protocol import EventType
from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.simulations import WhatIfOptions
from kscheduler.config.load import default_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.simulator.object_changes import ObjectChange
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.testing import make_node
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.whatif.options import WhatIfArguments, read_arguments
from kscheduler.whatif.played_side import PlayedSide
from tests.simulator.objects import pod

OURS = frozenset(["default-scheduler"])
ZONE = "topology.kubernetes.io/zone"


def small(name: str, zone: str = "a") -> Node:
    labels = {"kubernetes.io/hostname": name, ZONE: zone, "node-shape": "small"}
    return make_node(name).capacity(cpu="4", memory="16Gi").label(**labels).obj()


def two_nodes() -> Scenario:
    """Two nodes with room for four pods each, ten pods that stay, and one that fits on no node."""
    arrivals = [Arrival(float(number), pod(f"p{number}")) for number in range(10)]
    return Scenario([small("n0"), small("n1", "b")], [*arrivals, Arrival(10.0, pod("huge", "64"))])


def recorded(scenario: Scenario, *later: ObjectChange) -> Scenario:
    """Return the scenario as a record has it: its nodes are changes at the start."""
    added = [ObjectChange(0.0, NODES, EventType.ADDED, node) for node in scenario.nodes]
    return Scenario(arrivals=scenario.arrivals, changes=[*added, *later])


def side(scenario: Scenario, config: SchedulerConfig | None = None, name: str = "as it is") -> PlayedSide:
    arguments = SimulateArguments(first_on_tie=True)
    guests = GuestPlugins(cache_dir=None, reloads=False)
    return PlayedSide(name, scenario, config or default_config(), arguments, guests)


def names(nodes: Iterable[Node]) -> list[str]:
    return [node.metadata.name for node in nodes]


def read(*flags: str) -> WhatIfArguments:
    options = parse(["whatif", *flags])
    assert isinstance(options, WhatIfOptions)
    return read_arguments(options.arguments)
