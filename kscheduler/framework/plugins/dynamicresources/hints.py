"""Queueing hints for pods that DynamicResources has rejected or gates, about ResourceClaims and pods' own claims."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.objects import Pod
from kscheduler.framework.events import Grouping
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.framework.plugins.dynamicresources.claims import NotReady, claim_keys, find_claims
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo


class ClaimHints:
    """The hints; they ask whether a pod's claims are all there."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def after_claim(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if devices became free, or if one of the pod's own claims was created or has another status."""
        before = old if isinstance(old, ResourceClaim) else None
        after = new if isinstance(new, ResourceClaim) else None
        if after is None:
            return before is None or before.status.allocation is not None
        try:
            uses = any(claim.metadata.uid == after.metadata.uid for claim in find_claims(waiting, self._devices))
        except NotReady:
            return False
        if before is not None and before.status.allocation is not None and after.status.allocation is None:
            return True
        return uses and (before is None or before.status != after.status)

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if the waiting pod itself was updated, and all of its claims are there now."""
        if not isinstance(new, Pod):
            return True
        if new.metadata.uid != waiting.metadata.uid:
            return False
        try:
            find_claims(new, self._devices)
        except NotReady:
            return False
        return True


def _key(pod: PodInfo) -> Hashable:
    """Return what `after_claim` reads of a pod: its claims, and its uid if some were made for it alone."""
    is_own = False
    for entry in pod.pod.spec.resource_claims or ():
        is_own = is_own or entry.resource_claim_template_name is not None
    return frozenset(claim_keys(pod.pod)), pod.uid if is_own else "", pod.pod.metadata.namespace


def _options(key: Hashable) -> Sequence[Options]:
    claims = key[0] if isinstance(key, tuple) else ()
    return [[tuple(claims)]] if claims else []


def _brought(old: object, new: object) -> Sequence[str] | None:
    before = old if isinstance(old, ResourceClaim) else None
    if not isinstance(new, ResourceClaim):
        return [] if before is not None and before.status.allocation is None else None
    if before is not None and before.status.allocation is not None and new.status.allocation is None:
        return None
    return [new.key]


# The same, and whether it requests more than cpu and memory, which devices may back.
WITH_RESOURCES = Grouping(lambda pod: (_key(pod), bool(pod.resources.total.scalars)))
BY_CLAIMS = Grouping(_key, lambda: Narrowing(_options, _brought))
