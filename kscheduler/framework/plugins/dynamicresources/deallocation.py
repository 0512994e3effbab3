"""Chooses the claims that are taken back from a pod or a gang that fits no node, since with others it might fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import PodGroup
from kscheduler.framework.plugins.dynamicresources.binding import ClaimBinding
from kscheduler.framework.plugins.dynamicresources.claims import (
    NotReady,
    claims_of_group,
    group_name,
    is_reserved_for,
)
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.devices import Devices, is_special
from kscheduler.snapshot.pod_info import PodInfo


class Deallocation:
    """Begins to take back claims of one profile's pods; `binding` writes that in the background."""

    def __init__(self, devices: Devices, binding: ClaimBinding, rng: Random) -> None:
        self._devices = devices
        self._binding = binding
        self._rng = rng

    def of_pod(self, cycle: PodClaims, pod: PodInfo) -> Status | None:
        """Begin to deallocate or delete one of the pod's claims. Returns the status that says so; None if none is."""
        # 1. Deallocate one claim that some node could not use.
        claim = self._unusable(cycle, pod)
        if claim is not None:
            self._binding.deallocate(claim)
            return unschedulable("deallocation of ResourceClaim completed")
        # 2. Delete the claim for extended resources that an earlier attempt has left.
        return unschedulable("deletion of ResourceClaim completed") if self._delete_stale(cycle) else None

    def of_gang(self, cycles: Mapping[str, PodClaims], pods: Sequence[PodInfo], *, has_placed: bool) -> Status | None:
        """Take claims back for a gang that could not be placed, as kube-scheduler's PodGroupPostFilter.

        `cycles`: the claims of its members, by uid, as they were planned. `pods`: its members without a node.
        `has_placed`: other members have one. Returns a status if that says more than that claims were released.
        """
        # 1. Each pod's own, as at PostFilter; a claim that several of them cannot use is written once.
        keeps = False  # has some pod none that could be taken back?
        taken: set[str] = set()
        for pod in pods:
            cycle = cycles.get(pod.uid)
            if cycle is None:
                continue
            places = {place for place in cycle.unavailable if cycle.claims[place].metadata.uid in taken}
            cycle.unavailable -= places
            if places:
                continue
            claim = self._unusable(cycle, pod)
            if claim is not None:
                taken.add(claim.metadata.uid)
                self._binding.deallocate(claim)
            elif not self._delete_stale(cycle):
                keeps = True
        # 2. The group's.
        if not keeps or has_placed or not pods:
            return None
        return self._release_group(pods[0].pod, cycles)

    def of_group(self, pod: Pod) -> Status | None:
        """Begin to let another group use one claim that is reserved for a pod's PodGroup. Returns None if none is."""
        group = self._group_of(pod)
        return None if group is None else self._release_reservation(pod, group)

    def _delete_stale(self, cycle: PodClaims) -> bool:
        """Begin to delete a claim for extended resources that an earlier attempt has left. Returns whether there is."""
        special = cycle.special
        if special is None or is_special(special):
            return False
        self._binding.begin_deletion(special)
        return True

    def _unusable(self, cycle: PodClaims, pod: PodInfo) -> ResourceClaim | None:
        """Return a claim that some node could not use and nobody else has; None if there is none.

        It is chosen at random: there is no better way to choose.
        """
        positions = sorted(cycle.unavailable)
        self._rng.shuffle(positions)
        for position in positions:
            claim = cycle.claims[position]
            if cycle.is_special(position):
                if not is_special(claim):
                    break
                continue
            reserved = claim.status.reserved_for or []
            if not reserved or [each.uid for each in reserved] == [pod.uid]:
                return claim
        return None

    def _release_group(self, pod: Pod, cycles: Mapping[str, PodClaims]) -> Status | None:
        """Begin to take back a claim of a pod's PodGroup, which has no pod on a node. Returns None if it has none."""
        group = self._group_of(pod)
        if group is None:
            return None
        # 1. Deallocate one that some node could not use, if nobody else has it.
        unusable = {
            claim.metadata.uid: claim
            for cycle in cycles.values()
            for claim in map(cycle.claims.__getitem__, sorted(cycle.unavailable))
            if not is_special(claim) and {each.uid for each in claim.status.reserved_for or ()} <= {group.metadata.uid}
        }
        if unusable:
            self._binding.deallocate(self._rng.choice(list(unusable.values())))
            return unschedulable("deallocation of PodGroup ResourceClaim completed")
        # 2. Else let another group use one that is reserved for this one.
        return self._release_reservation(pod, group)

    def _group_of(self, pod: Pod) -> PodGroup | None:
        name = group_name(pod)
        return None if name is None else self._devices.groups.get(f"{pod.metadata.namespace}/{name}")

    def _release_reservation(self, pod: Pod, group: PodGroup) -> Status | None:
        try:
            for claim in claims_of_group(group, self._devices):
                if claim.status.allocation is not None and is_reserved_for(claim, pod, or_group=True):
                    self._binding.begin_release(claim, group.metadata.uid)
                    return unresolvable("ResourceClaim unreserved for PodGroup")
        except NotReady as missing:
            return error_status(str(missing))
        return None
