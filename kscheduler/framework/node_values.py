"""Numbers from outside the cluster's objects that a plugin read for a node: to explain a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Plugin
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class NodeValue(NamedTuple):
    """One metric on one node. None: there is no such number."""

    metric: str
    used: float | None  # what rules compare; None: no fresh value, so that the rule's fallback decides
    read: float | None  # as the source said
    clamped: float | None
    smoothed: float | None
    self_load: float  # what pods that came and left since the sample add to it
    age_s: float | None  # of the sample


@runtime_checkable
class ValuingPlugin(Plugin, Protocol):
    def values_of(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[NodeValue]:
        """Return the numbers read for this node in this cycle. Asked rarely, and for few nodes."""
        ...
