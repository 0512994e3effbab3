"""Numbers from outside the API objects, such as live metrics, that a plugin read for a node; to explain a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Plugin
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class NodeValue(NamedTuple):
    """One metric's value on one node, with the steps of its processing; None where there is no such number."""

    metric: str
    used: float | None  # the value that rules use; None: no fresh value, so that the rule's fallback decides
    read: float | None  # as the source returned it
    clamped: float | None
    smoothed: float | None
    self_load: float  # the load added for pods that came or left since the sample
    age_s: float | None  # age of the sample in seconds


@runtime_checkable
class ValuingPlugin(Plugin, Protocol):
    def values_of(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[NodeValue]:
        """Return the numbers that the plugin read for this node in this cycle. Called rarely, and for few nodes."""
        ...
