"""Writes to claims while a group is decided and bound: all succeed at once, and are noted in the oracle's format."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.devices import ResourceClaim
from kscheduler.client.merge_patch import patched
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import PreFilterResult
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.oracle import WrittenClaim
from tests.parity.ours_devices import NotedClaimWrites


class NotedGroupWrites(NotedClaimWrites):
    def begin_notes(self) -> None:
        super().begin_notes()
        self.written: dict[str, WrittenClaim] = {}  # namespace/name -> what was written last
        self.released: list[str] = []  # namespace/name, and the uid that it is not reserved for any more

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return _newer(patched(claim, patch))

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        if patch.get("allocation", ...) is None:
            return await super().patch_status(claim, patch)
        made = _newer(patched(claim, {"status": patch}))
        before = self.written.get(claim.key, WrittenClaim({}, []))
        allocation: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(made.status.allocation))
        users = [*(before.reserved_for or ()), *(each.uid for each in made.status.reserved_for or ())]
        self.written[claim.key] = WrittenClaim(allocation, users)
        return made

    async def release(self, claim: ResourceClaim, consumer_uid: str) -> ResourceClaim:
        self.released.append(f"{claim.key} {consumer_uid}")
        return claim


def _newer(claim: ResourceClaim) -> ResourceClaim:
    metadata = claim.metadata
    return replace(claim, metadata=replace(metadata, resource_version=str(int(metadata.resource_version) + 1)))


def overlook_nodes(plugin: DynamicResources) -> None:
    """Let pods use a claim that another pod of the group has just been given on any node, as kube-scheduler 1.36 does.

    We do not, since a pod cannot run where its device is not.
    """
    as_it_is = plugin.pre_filter

    def pre_filter(state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        found = as_it_is(state, pod)
        cycle = state.get("DynamicResources/claims", PodClaims)
        if cycle is not None:
            for position in cycle.shared:
                cycle.nodes[position] = None
        return found

    vars(plugin)["pre_filter"] = pre_filter


def write_claims(cycle: BindingCycle) -> Status | None:
    """Do what PreBind does about the claims of a pod that has a node."""
    plugin = cycle.framework.class_compiler.claiming
    if cycle.only_binds or not isinstance(plugin, DynamicResources):
        return None
    if plugin.pre_bind_pre_flight(cycle.state, cycle.pod, cycle.node_name) is not None:
        return None
    return asyncio.run(plugin.pre_bind(cycle.state, cycle.pod, cycle.node_name))
