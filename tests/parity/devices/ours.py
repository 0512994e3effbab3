"""The decisions of this program's allocator about a case.

In cases with odd seeds it has the plan of a pod's claims, as in the plugin, and in the others the search alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

import msgspec

from kscheduler.api.devices import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.objects import Node
from kscheduler.cel.environment import Environment, environment_of
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import RELEASES
from kscheduler.devices.allocated import AllocatedState
from kscheduler.devices.allocator import AllocationError, Allocator, PoolError
from kscheduler.devices.integer_plan import ClaimsPlan
from kscheduler.devices.taints import with_taint_rules
from tests.devices.deciding import plan_of
from tests.parity.devices.case import DeviceCase, Object
from tests.parity.devices.oracle import Decision

T = TypeVar("T")

_SELECTORS: dict[Environment, Selectors] = {}  # the expressions that were compiled, kept between cases


class World:
    """A case's cluster. Allocations can be added to it, for the pods that are decided about afterwards."""

    def __init__(self, case: DeviceCase) -> None:
        cluster = case.cluster
        self._has_plans = case.seed % 2 == 1
        self._release = RELEASES[case.release].with_gates(case.gates)
        self._nodes = read_objects(cluster.get("nodes"), Node)
        self._classes = {each.metadata.name: each for each in read_objects(cluster.get("deviceClasses"), DeviceClass)}
        rules = read_objects(cluster.get("deviceTaintRules"), DeviceTaintRule)
        slices = read_objects(cluster.get("resourceSlices"), ResourceSlice)
        self._slices = [with_taint_rules(each, rules, self._release) for each in slices]
        self._state = AllocatedState()
        self.allocate(cluster.get("allocated", ()))
        environment = environment_of(self._release)
        self._selectors = _SELECTORS.setdefault(environment, Selectors(self._release))

    def decide(self, pod: Object) -> Iterator[Decision]:
        """What becomes of the pod's claims on each node, one allocator asked about all of them."""
        named = [msgspec.json.encode(claim) for claim in pod["claims"]]
        once = {claim: msgspec.json.decode(claim, type=ResourceClaim) for claim in named}
        claims = [once[claim] for claim in named]  # one that is named twice is one object
        numbers = count()
        allocator = Allocator(
            self._release,
            self._state,
            self._classes,
            self._slices,
            self._selectors,
            draw_share_id=lambda: f"share-{next(numbers)}",
        )
        plan = plan_of(allocator, claims) if self._has_plans else None
        for node in self._nodes:
            before = allocator.steps
            decision = _decision(allocator, node, claims, plan)
            decision.steps = allocator.steps - before
            yield decision

    def allocate(self, results: Iterable[Object]) -> None:
        """Take the devices of results, which are JSON."""
        for result in read_objects(results, DeviceRequestAllocationResult):
            self._state.add(result, self._release)


def _decision(allocator: Allocator, node: Node, claims: list[ResourceClaim], plan: ClaimsPlan | None) -> Decision:
    try:
        allocations = allocator.allocate(node, claims, plan=plan)
    except PoolError as error:
        return Decision(failure=str(error))
    except AllocationError as error:
        return Decision(failure=str(error), is_fatal=True)
    if not allocations:
        return Decision(no_solution=True)
    return Decision(results=[_as_json(each) for each in allocations])


def _as_json(allocation: AllocationResult) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(allocation))
    return decoded


def read_objects(raw: Iterable[Object] | None, kind: type[T]) -> list[T]:
    """Read API objects as they come from the apiserver, with parts that are kept undecoded."""
    return msgspec.json.decode(msgspec.json.encode(list(raw or ())), type=list[kind])  # type: ignore[valid-type]
