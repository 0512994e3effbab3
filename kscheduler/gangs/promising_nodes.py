"""Tells on which nodes a gang that was planned in vain may fit once pods there are gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.status import Code
from kscheduler.framework.verdict_statuses import NodeStatuses
from kscheduler.gangs.planner import Plan
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable

MOST_ASKED = 8  # members that fit nowhere, of different kinds


def promising_nodes(
    plan: Plan, profiles: Mapping[str, Framework], table: NodeTable, *, counting: str
) -> Collection[NodeInfo]:
    """Return the nodes that reject members for reasons that may go with pods; the plan is still assumed.

    `counting`: a plugin whose PreFilter rejects members because of what pods use anywhere; "": none.
    """
    asked: dict[object, QueuedPodInfo] = {}
    for each in plan.failed:
        asked.setdefault(each.queued.pod_info.signature or each.queued.uid, each.queued)
    if len(asked) > MOST_ASKED:
        return list(table)
    nodes: dict[int, NodeInfo] = {}
    for queued in asked.values():
        pod, state = queued.pod_info, CycleState()
        state.skips_post_filter = True
        found = profiles[pod.pod.spec.scheduler_name].schedule_pod(state, pod)
        if isinstance(found, Decision):  # Reserve refused it before
            return list(table)
        if counting and found.diagnosis.pre_filter_message and found.diagnosis.unschedulable_plugins == {counting}:
            return list(table)
        statuses = found.diagnosis.node_statuses()
        if isinstance(statuses, NodeStatuses):
            nodes.update((node.row, node) for node in statuses.nodes_with(Code.UNSCHEDULABLE))
    return nodes.values()
