"""The cluster's ResourceClaims, ResourceSlices and DeviceClasses, what is assumed of claims, and the devices in use.

The event handlers of these kinds report them here. A claim may be *assumed*: after a write the apiserver's answer
counts, until the watch brings a newer version. Allocations are *in flight* from the decision until they are written, by
the uid of their claim. A class may back an extended resource, of a name that it states and of one made of its own name.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping
from dataclasses import dataclass

from kscheduler.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    EXTENDED_RESOURCE_PREFIX,
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import PodGroup
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.change_log import ChangeLog
from kscheduler.devices.slice_index import SliceIndex
from kscheduler.devices.taints import with_taint_rules
from kscheduler.errors import InternalError
from kscheduler.snapshot.device_use import DeviceUse

# Called with a claim before and after a change, reported or assumed; None before it existed, or after it is deleted.
ClaimListener = Callable[[ResourceClaim | None, ResourceClaim | None], None]
SliceChange = tuple[ResourceSlice | None, ResourceSlice | None]

IN_MEMORY = "<extended-resources>"  # the name of a special claim that the apiserver does not know yet; no valid one


@dataclass(slots=True)
class _InFlight:
    """An allocation that is decided and not written yet. `sharers`: how many decisions rely on it."""

    allocation: AllocationResult
    sharers: int = 1


class Devices:
    """Claims, slices, classes and taint rules, as a scheduler of one release of Kubernetes reads them."""

    def __init__(self, release: Release = DEFAULT_RELEASE) -> None:
        self._release = release
        self.claims: dict[str, ResourceClaim] = {}  # namespace/name -> newest version, which may be assumed; to read
        self._reported: dict[str, ResourceClaim] = {}  # the same keys -> as the watch reported it last
        self.accepts_groups = release.has_group_claims  # may claims be those of PodGroups?
        self.groups: dict[str, PodGroup] = {}  # namespace/name -> PodGroup; filled by the watch of PodGroups if so
        self._in_flight: dict[str, _InFlight] = {}  # claim uid -> allocation
        self._special: dict[str, dict[str, None]] = {}  # pod uid -> keys of the claims for its extended resources
        self._use = DeviceUse(by_shares=release.has("DRAConsumableCapacity"))
        self._claim_listeners: list[ClaimListener] = []
        self._slices: dict[str, ResourceSlice] = {}  # name -> slice as it was reported
        self._tainted: dict[str, ResourceSlice] = {}  # name -> slice with the taints of rules
        self._index = SliceIndex(release)  # the same
        self._rules: dict[str, DeviceTaintRule] = {}  # name -> rule
        self._classes: dict[str, DeviceClass] = {}  # name -> class
        self._by_resource: dict[str, DeviceClass] = {}  # name of an extended resource -> the class that backs it
        self.classes_generation = 0  # bumped when a class comes, changes or goes
        self.resources_generation = 0  # bumped when an extended resource gets another class, or has none any more

    # --- claims ---

    def watch_claims(self, listener: ClaimListener) -> None:
        self._claim_listeners.append(listener)

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the newest version of a claim, reported or assumed; None if it is unknown."""
        return self.claims.get(f"{namespace}/{name}")

    def reported_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._reported.get(f"{namespace}/{name}")

    def set_claim(self, claim: ResourceClaim) -> None:
        """Take a claim that the watch reported. A version that is no newer than an assumed one changes nothing."""
        metadata = claim.metadata
        key = f"{metadata.namespace}/{metadata.name}"  # as `claim.key`, without its call for each report
        before = self.claims.get(key)
        if before is None:
            self.claims[key] = self._reported[key] = claim
            self._changed(key, None, claim)
            return
        is_assumed = before is not self._reported[key]
        self._reported[key] = claim
        if claim.metadata.resource_version == before.metadata.resource_version:
            if not is_assumed:  # a list brought it again
                self.claims[key] = claim
            return
        if is_assumed and int(metadata.resource_version or 0) <= int(before.metadata.resource_version or 0):
            return
        self.claims[key] = claim
        self._changed(key, before, claim)

    def remove_claim(self, namespace: str, name: str) -> None:
        key = f"{namespace}/{name}"
        before = self.claims.pop(key, None)
        if before is not None:
            del self._reported[key]
            self._changed(key, before, None)

    def assume_claim(self, claim: ResourceClaim) -> None:
        """Assume the apiserver's answer to a write. Raises InternalError if the claim is unknown, or newer by now."""
        metadata = claim.metadata
        key = f"{metadata.namespace}/{metadata.name}"
        before = self.claims.get(key)
        if before is None:
            raise InternalError(f"claim {claim.key}: expected one that is known, to assume its changes")
        if int(metadata.resource_version or 0) < int(before.metadata.resource_version or 0):
            raise InternalError(
                f"claim {claim.key} is out of sync: known in version {before.metadata.resource_version}, "
                f"to be assumed in version {claim.metadata.resource_version}"
            )
        if metadata.resource_version and metadata.resource_version == before.metadata.resource_version:
            return  # one write may reserve a claim for several pods, each of which assumes it
        self.claims[key] = claim
        self._changed(key, before, claim)

    def restore_claim(self, namespace: str, name: str) -> None:
        """Go back to the version that the watch reported."""
        key = f"{namespace}/{name}"
        before = self.claims.get(key)
        if before is not None and before is not self._reported[key]:
            self.claims[key] = self._reported[key]
            self._changed(key, before, self.claims[key])

    def special_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim that was made for the pod's extended resources, or None."""
        for key in self._special.get(pod.metadata.uid, ()):
            claim = self.claims[key]
            if any(
                owner.controller and owner.name == pod.metadata.name and owner.uid == pod.metadata.uid
                for owner in claim.metadata.owner_references or ()
            ):
                return claim
        return None

    def _changed(self, key: str, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        freed = None if before is None else before.status.allocation
        taken = None if after is None else after.status.allocation
        if freed is not taken and freed != taken:
            if freed is not None:
                self._use.deallocate(freed)
            if taken is not None:
                self._use.allocate(taken)
        for claim in (before, after):
            if claim is not None and EXTENDED_RESOURCE_CLAIM in (claim.metadata.annotations or ()):
                self._index_special(key, before, after)
                break
        for listener in self._claim_listeners:
            listener(before, after)

    def _index_special(self, key: str, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        for claim, is_known in ((before, False), (after, True)):
            if claim is None or (claim.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
                continue
            for owner in claim.metadata.owner_references or ():
                keys = self._special.setdefault(owner.uid, {})
                if is_known:
                    keys[key] = None
                else:
                    keys.pop(key, None)
                if not keys:
                    del self._special[owner.uid]

    # --- allocations in flight ---

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """Return the allocation in flight of the claim with this uid, or None."""
        found = self._in_flight.get(uid)
        return None if found is None else found.allocation

    def begin_allocation(self, uid: str, claim: ResourceClaim) -> None:
        """Note that the claim's allocation is in flight; a second call with the uid counts another decision for it.

        Raises InternalError if the claim is unknown, where the release looks it up again. A claim that has been
        allocated meanwhile is left as it is there.
        """
        found = self._in_flight.get(uid)
        if found is not None:
            found.sharers += 1
            return
        allocation = claim.status.allocation
        if allocation is None:
            raise InternalError(f"claim {claim.key}: expected an allocation to keep in flight, got none")
        if self._release.in_flight_until_bound and not is_special(claim):
            latest = self.claim(claim.metadata.namespace, claim.metadata.name)
            if latest is None:
                raise InternalError(f"look up assumed claim {claim.key}, UID={uid}: {unknown_claim(claim.key)}")
            if latest.metadata.uid == uid and latest.status.allocation is not None:
                return
        self._in_flight[uid] = _InFlight(allocation)
        self._use.begin(allocation)

    def end_allocation(self, uid: str, *, for_all: bool) -> bool:
        """End the claim's allocation in flight, or with other decisions for it only this one's share in it.

        `for_all`: end it for all decisions. Returns True if the allocation is in flight no longer, and was before.
        """
        found = self._in_flight.get(uid)
        if found is None:
            return False
        if not for_all and found.sharers > 1:
            found.sharers -= 1
            return False
        del self._in_flight[uid]
        self._use.end(found.allocation)
        return True

    @property
    def in_flight(self) -> KeysView[str]:
        """The uids of the claims whose allocations are in flight."""
        return self._in_flight.keys()

    @property
    def allocated(self) -> AllocatedState:
        """The devices in use by claims and by allocations in flight; for reading only; it changes with them."""
        return self._use.total

    @property
    def use_changes(self) -> ChangeLog[DeviceID]:
        """The devices whose use has changed, by claims or by allocations in flight."""
        return self._use.changes

    # --- slices and taint rules ---

    @property
    def slices(self) -> SliceIndex:
        """All slices, with the taints that DeviceTaintRules give to their devices."""
        return self._index

    def set_slice(self, reported: ResourceSlice) -> SliceChange:
        """Take a slice that the watch reported. Returns it before and after, with the taints of rules."""
        name = reported.metadata.name
        before = self._tainted.get(name)
        self._slices[name] = reported
        after = self._tainted[name] = with_taint_rules(reported, tuple(self._rules.values()), self._release)
        self._index.put(after)
        return before, after

    def remove_slice(self, name: str) -> SliceChange:
        self._slices.pop(name, None)
        self._index.remove(name)
        return self._tainted.pop(name, None), None

    def set_taint_rule(self, rule: DeviceTaintRule) -> list[SliceChange]:
        """Take a rule that the watch reported. Returns the slices whose devices' taints it changes."""
        self._rules[rule.metadata.name] = rule
        return self._taint_again()

    def remove_taint_rule(self, name: str) -> list[SliceChange]:
        return self._taint_again() if self._rules.pop(name, None) is not None else []

    def _taint_again(self) -> list[SliceChange]:
        changes: list[SliceChange] = []
        rules = tuple(self._rules.values())
        for name, reported in self._slices.items():
            before, after = self._tainted[name], with_taint_rules(reported, rules, self._release)
            if before != after:
                self._tainted[name] = after
                self._index.put(after)
                changes.append((before, after))
        return changes

    # --- classes and extended resources ---

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """All classes, by name."""
        return self._classes

    @property
    def resources(self) -> KeysView[str]:
        """The names of the extended resources that are backed by a class."""
        return self._by_resource.keys()

    def class_of_resource(self, name: str) -> DeviceClass | None:
        """Return the class whose devices an extended resource stands for, or None."""
        return self._by_resource.get(name)

    def set_class(self, device_class: DeviceClass) -> None:
        name = device_class.metadata.name
        before = self._classes.get(name)
        self._classes[name] = device_class
        self.classes_generation += 1
        if self._release.has("DRAExtendedResource"):
            self._map(device_class, before)

    def remove_class(self, name: str) -> None:
        device_class = self._classes.pop(name, None)
        self.classes_generation += 1
        if device_class is not None and self._release.has("DRAExtendedResource"):
            self._unmap(device_class)
            self.resources_generation += 1

    def _map(self, device_class: DeviceClass, before: DeviceClass | None) -> None:
        """Let a class back its extended resources.

        As in kube-scheduler, of two classes with one name of a resource the newer counts, or of equally old ones the
        first by name; the other, if it comes later, gets no resource, not even that of its own name.
        """
        wanted = device_class.spec.extended_resource_name
        rival = None if wanted is None else self._by_resource.get(wanted)
        if rival is not None:
            new, old = device_class.metadata, rival.metadata
            if (new.creation_timestamp or "") < (old.creation_timestamp or ""):
                return
            if (new.creation_timestamp or "") == (old.creation_timestamp or "") and new.name >= old.name:
                return
        if before is not None:
            self._unmap(before)
        if wanted is not None:
            self._by_resource[wanted] = device_class
        self._by_resource[EXTENDED_RESOURCE_PREFIX + device_class.metadata.name] = device_class
        self.resources_generation += 1

    def _unmap(self, device_class: DeviceClass) -> None:
        self._by_resource.pop(EXTENDED_RESOURCE_PREFIX + device_class.metadata.name, None)
        if device_class.spec.extended_resource_name is not None:
            self._by_resource.pop(device_class.spec.extended_resource_name, None)


def is_special(claim: ResourceClaim) -> bool:
    """Return True for the claim for a pod's extended resources while it exists in memory only."""
    return claim.metadata.name == IN_MEMORY


def unknown_claim(key: str) -> str:
    """Return kube-scheduler's words for a claim (namespace/name) that is not there."""
    return f'could not find ResourceClaim "{key}"'
