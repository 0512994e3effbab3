"""What DynamicResources decides by a search on each node, which its other forms are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kscheduler.api.devices import AllocationResult, DeviceClaim
from kscheduler.api.objects import ContainerExtendedResourceRequest
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import running
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

Allocated = tuple[list[AllocationResult], DeviceClaim | None, Sequence[ContainerExtendedResourceRequest]]
# Node name -> why the node is rejected, or the pod's score there and what it is allocated, None for nothing.
Decisions = dict[str, Status | tuple[int, Allocated | None]]


def begin(plugin: DynamicResources, pod: PodInfo) -> tuple[CycleState, PodClaims] | Status | None:
    """The state after PreFilter, or the status with which it ends the cycle; None if there is nothing to filter."""
    state = CycleState()
    _, status = plugin.pre_filter(state, pod)
    return status or (state, state.read("DynamicResources/claims", PodClaims))


def by_node(plugin: DynamicResources, table: NodeTable, pod: PodInfo) -> Decisions | str:
    """The decisions of the per-node form; or the message of the first fault."""
    begun = begin(plugin, pod)
    assert isinstance(begun, tuple)
    state, cycle = begun
    found: Decisions = {}
    for node in table:
        status = plugin.filter(state, pod, node)
        if status is not None and not status.is_rejected:
            return running("Filter", plugin, status).message
        found[node.name] = status or (
            plugin.score(state, pod, node)[0],
            allocated_on(cycle, node.name),
        )
    return found


def allocated_on(cycle: PodClaims, name: str) -> Allocated | None:
    found = cycle.by_node.get(name)
    if found is None:
        return None
    special = None if found.special is None else found.special.spec.devices
    return without_share_ids(found.results), special, found.mappings


def without_share_ids(results: Sequence[AllocationResult]) -> list[AllocationResult]:
    """Share ids are random."""
    return [
        replace(
            each,
            devices=replace(
                each.devices, results=[replace(result, share_id=None) for result in each.devices.results or ()]
            ),
        )
        for each in results
    ]
