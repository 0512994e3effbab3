"""CheapestNode: prefers nodes that cost less, and rejects nodes that cost more than the pod may spend.

A node's price is a number in one of its labels; a pod's limit is a number in one of its annotations. A node without a
price counts as the most expensive one, and is rejected for pods with a limit.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    PluginArgs,
    PodInfo,
    PreFilterResult,
    Status,
    default_normalize,
    unresolvable,
)

TOO_DEAR = "node(s) cost more than the pod may spend"
MICRO = 1_000_000  # scores are integers, prices are not
UNKNOWN = -1


class CheapestNode:
    name = "CheapestNode"

    class Args(PluginArgs, frozen=True):
        """The plugin's arguments; in a configuration file they are costLabel and limitAnnotation."""

        cost_label: str = "example.com/cost-per-hour"  # label of nodes: the price
        limit_annotation: str = "example.com/max-cost-per-hour"  # annotation of pods: the highest price accepted

    def __init__(self, args: Args, handle: Handle) -> None:
        self._args = args

    # --- filter: within the pod's limit ---

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        text = (pod.pod.metadata.annotations or {}).get(self._args.limit_annotation)
        if text is None:
            return None, SKIP
        limit = _micros(text)
        if limit == UNKNOWN:
            return None, unresolvable(f'annotation {self._args.limit_annotation}: expected a number, got "{text}"')
        state.write(self.name, limit)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        cost = self._cost(node)
        return unresolvable(TOO_DEAR) if cost == UNKNOWN or cost > state.read(self.name, int) else None

    # --- score: the cheaper the better ---

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return self._cost(node), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        highest = max(scores.values())
        for node, cost in scores.items():
            scores[node] = highest if cost == UNKNOWN else cost
        default_normalize(scores, reverse=True)
        return None

    def _cost(self, node: NodeInfo) -> int:
        return _micros(node.labels.get(self._args.cost_label, ""))

    # --- queue: what may help a pod that fits nowhere ---

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)


def _micros(text: str) -> int:
    """Parse a price and return it in millionths; UNKNOWN if it is not a number."""
    try:
        return max(round(float(text) * MICRO), UNKNOWN)
    except (ValueError, OverflowError):
        return UNKNOWN
