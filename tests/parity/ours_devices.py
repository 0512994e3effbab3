"""What a decision of ours has to do with devices, for `ours` and `ours_preemption`: what is allocated on each node, and
which claims PostFilter takes back."""

from __future__ import annotations

import math
import random
from collections.abc import Coroutine, Iterable, MutableSequence
from datetime import datetime
from typing import Any

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.errors import InternalError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugins.dynamicresources.deallocation import Deallocation
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.oracle import Allocated

TIMED_OUT = "timed out trying to allocate devices"  # in what we say of a node whose search has taken too many steps
_TICK_S = 0.0001  # such that the plugin's 10 seconds for a node are 100,000 looks at the clock
_NOW = datetime.fromisoformat("2026-06-01T00:00:00Z")  # far from all times in generated claims


class Ticks:
    """A clock that goes on with each look at it, so that searches end after a number of steps."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += _TICK_S
        return self._now_s


class NotedClaimWrites(ClaimWrites):
    """Notes which claims are taken back. Nothing comes of it."""

    def __init__(self) -> None:
        self.begin_notes()

    def begin_notes(self) -> None:
        self.deallocated: list[str] = []  # namespace/name
        self.deleted: list[str] = []

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return claim

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        if patch != {"allocation": None, "reservedFor": None, "devices": None}:
            raise InternalError(f"claim {claim.key}: expected a patch that deallocates it, got {patch}")
        self.deallocated.append(claim.key)
        return claim

    async def delete(self, claim: ResourceClaim) -> None:
        self.deleted.append(claim.key)

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            return
        work.close()
        raise InternalError(f"claim {claim.key}: a write waits for something, and here everything is done at once")

    def seconds_since(self, time: str) -> float:
        if not time:
            return math.nan
        return (_NOW - datetime.fromisoformat(time)).total_seconds()


class _Leading(random.Random):
    """Shuffles so that a certain one comes first."""

    def __init__(self, first: int) -> None:
        super().__init__(0)
        self._first = first

    def shuffle(self, x: MutableSequence[Any]) -> None:
        x[:] = sorted(x, key=lambda each: each != self._first)


def all_taken_back(plugin: DynamicResources, state: CycleState, pod: PodInfo, noted: NotedClaimWrites) -> list[str]:
    """The claims of which PostFilter deallocates or deletes any one, by chance, as namespace/name.

    `noted`: where the plugin writes; afterwards nothing is noted there any more.
    """
    cycle = state.get("DynamicResources/claims", PodClaims)
    if cycle is None:
        return []
    found: set[str] = set()
    for first in cycle.unavailable or {0}:
        noted.begin_notes()
        Deallocation(plugin._handle.devices, plugin._binding, _Leading(first)).of_pod(cycle, pod)
        found.update(noted.deallocated, noted.deleted)
    noted.begin_notes()
    return sorted(found)


def allocations_of(
    plugin: DynamicResources, state: CycleState, pod: PodInfo, nodes: Iterable[str]
) -> dict[str, Allocated]:
    """What the pod's claims would get on each of the nodes, which fit; nodes where that is nothing are absent.

    On nodes that passed Filter by their numbers of devices, they are allocated as Reserve would do it.
    """
    cycle = state.get("DynamicResources/claims", PodClaims)
    if cycle is None or cycle.allocator is None:
        return {}
    found = {}
    for name in nodes:
        made = cycle.by_node.get(name)
        if made is None and cycle.is_counted:
            allocated = plugin._allocate_counted(cycle, cycle.allocator, pod.pod, name)
            if isinstance(allocated, Status):
                raise InternalError(f"pod {pod.key} passed Filter on {name}, and then: {allocated.message}")
            made = allocated
        if made is not None:
            special = made.special
            requests = None if special is None else special.spec.devices.requests
            found[name] = Allocated(_as_json(made.results), _as_json(requests or []), _as_json(made.mappings))
    return found


def _as_json(objects: object) -> list[dict[str, Any]]:
    decoded: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(objects))
    return decoded
