"""Why a pod fits on no node, with kube-scheduler's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kscheduler.framework.status import Code, Status

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Fitted:
    """The node that was found for a pod, which was rejected for other reasons."""

    node_name: str
    evaluated: int  # nodes filtered
    feasible: int  # nodes that fit
    details: object | None = None  # what the search found out about each node; None: nobody asked for it


@dataclass(slots=True)
class Diagnosis:
    """Why one scheduling cycle found no node: the reasons with counts, and the plugins that rejected nodes."""

    total_nodes: int
    # reason -> nodes that gave it; a node can give several, so the counts can add up to more than the nodes
    reasons: dict[str, int] = field(default_factory=dict)
    counted: list[tuple[Status, int]] = field(default_factory=list)  # (status, number of nodes with it)
    unschedulable_plugins: set[str] = field(default_factory=set)  # their registered events requeue the pod
    pending_plugins: set[str] = field(default_factory=set)  # likewise, but without backoff
    pre_filter_message: str = ""
    post_filter_message: str = ""
    # returns node name -> status, computed only when called, since a cluster has many nodes
    node_statuses: Callable[[], Mapping[str, Status]] = dict
    # Of a member of a gang, which is settled after others have been searched for; None: nobody asked for it.
    details: object | None = None  # what the search found out about each node
    fitted: Fitted | None = None  # the node that it would have had

    def count(self, status: Status, nodes: int) -> None:
        """Count a status that this many nodes got: its reasons, and the plugin that gave it."""
        self.counted.append((status, nodes))
        for reason in status.reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + nodes
        self.blame(status)

    def blame(self, status: Status) -> None:
        """Record the plugin that gave a rejecting status, so that its registered events requeue the pod."""
        if not status.plugin:
            return
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)
        else:
            self.unschedulable_plugins.add(status.plugin)

    def message(self) -> str:
        """Return kube-scheduler's FitError text: `0/5 nodes are available: 2 Insufficient cpu, 3 …. <post filter>`."""
        if self.total_nodes == 0:
            return NO_NODES
        parts = [f"0/{self.total_nodes} nodes are available:"]
        if self.pre_filter_message:
            parts.append(f"{self.pre_filter_message}.")
        elif self.reasons:
            parts.append(", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items())) + ".")
        if self.post_filter_message:
            parts.append(self.post_filter_message)
        return " ".join(parts)
