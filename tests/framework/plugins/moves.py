"""What a plugin says after it has followed pods to and from a node, held against what it says if they really moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import SKIP, Status
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.snapshot.pod_info import PodInfo


def check_moves(
    cache: Cache, plugin: Any, pod: PodInfo, node_name: str, leaving: Sequence[PodInfo], coming: Sequence[PodInfo]
) -> None:
    """The pods that move stay where they are put. Nothing is compared where PreFilter skips, before or after."""
    node, state = cache.table.get(node_name), CycleState()
    assert node is not None
    if plugin.pre_filter(state, pod)[1] is not None:
        return
    # 1. In thought, on a state of its own; first too many pods move, and some of them back.
    before = verdicts(cache, plugin, state, pod)
    imagined, copy = state.clone(), NodeCopy(node, cache.table.request_of)
    for other in leaving:
        copy.remove(other)
        assert plugin.remove_pod(imagined, pod, other, copy) is None
    for other in coming:
        copy.add(other)
        assert plugin.add_pod(imagined, pod, other, copy) is None
    reported = verdicts(cache, plugin, imagined, pod)
    back = imagined.clone()
    for other in reversed(coming):
        copy.remove(other)
        plugin.remove_pod(back, pod, other, copy)
    for other in reversed(leaving):
        copy.add(other)
        plugin.add_pod(back, pod, other, copy)
    assert verdicts(cache, plugin, back, pod) == verdicts(cache, plugin, state, pod) == before
    assert verdicts(cache, plugin, imagined, pod) == reported
    # 2. In earnest.
    for other in leaving:
        cache.remove_pod(other.uid)
    for other in coming:
        cache.set_pod(_on(other, node_name))
    fresh = CycleState()
    if plugin.pre_filter(fresh, pod)[1] == SKIP:
        assert not any(reported.values())
    else:
        assert reported == verdicts(cache, plugin, fresh, pod)


def verdicts(cache: Cache, plugin: Any, state: CycleState, pod: PodInfo) -> dict[str, Status | None]:
    return {node.name: plugin.filter(state, pod, node) for node in cache.table}


def _on(pod: PodInfo, node_name: str) -> PodInfo:
    return PodInfo(replace(pod.pod, spec=replace(pod.pod.spec, node_name=node_name)))
