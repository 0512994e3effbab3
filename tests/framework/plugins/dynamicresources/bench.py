"""One plugin DynamicResources on nodes in memory, with an apiserver's claims that a test can change and refuse."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocationResult,
    ClaimMeta,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from kscheduler.api.objects import (
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    SelectorRequirement,
)
from kscheduler.cache.cache import Cache
from kscheduler.client.merge_patch import patched, versioned
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import APIError, Conflict, NotFound
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources.binding import Timeouts
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.dynamicresources.state import PodClaims
from kscheduler.framework.status import SKIP, Status
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.devices.building import DRIVER, FakeSelectors, devices, make_class, make_slice, request

NOW = "2026-01-01T00:10:00Z"


class FakeWrites(ClaimWrites):
    """An apiserver's claims. `refusals`: verb -> errors that answer the next requests of that kind."""

    def __init__(self, known: Devices) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.requests: list[tuple[str, str]] = []  # (verb, key of the claim)
        self.refusals: dict[str, list[APIError | None]] = {}
        self.pod_claims: dict[str, PodExtendedResourceClaimStatus] = {}
        self.node_resources: dict[str, list[NodeAllocatableResourceClaimStatus]] = {}
        self.events: list[tuple[str, str]] = []
        self.reports: list[tuple[str, ...]] = []
        self.background: list[Coroutine[Any, Any, None]] = []
        self.age_s = 0.0  # of every time that is asked about
        self._known = known
        self._version = 100

    def put(self, claim: ResourceClaim, *, is_seen: bool = True) -> ResourceClaim:
        """Store a claim under a new version; `is_seen`: the watch shows it at once."""
        self._version += 1
        claim = replace(claim, metadata=replace(claim.metadata, resource_version=str(self._version)))
        self.claims[claim.key] = claim
        if is_seen:
            self._known.set_claim(claim)
        return claim

    def _ask(self, verb: str, key: str) -> None:
        self.requests.append((verb, key))
        errors = self.refusals.get(verb)
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        self._ask("get", claim.key)
        return self.claims[claim.key]

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        self._ask("create", claim.key)
        name = f"{claim.metadata.generate_name}x"
        return self.put(replace(claim, metadata=replace(claim.metadata, name=name, uid=f"uid-{name}")))

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return self._patch("patch", claim, patch)

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        return self._patch("patch status", claim, {"status": patch})

    def _patch(self, verb: str, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        self._ask(verb, claim.key)
        current, version = self.claims.get(claim.key), claim.metadata.resource_version
        if current is None:
            raise NotFound("not found")
        if current.metadata.resource_version != version:
            raise Conflict("the object has been modified")
        return self.put(patched(current, versioned(patch, version)), is_seen=False)

    async def release(self, claim: ResourceClaim, consumer_uid: str) -> ResourceClaim:
        self._ask("release", claim.key)
        claim = self.claims[claim.key]
        kept = [each for each in claim.status.reserved_for or () if each.uid != consumer_uid]
        return self.put(replace(claim, status=replace(claim.status, reserved_for=kept or None)), is_seen=False)

    async def delete(self, claim: ResourceClaim) -> None:
        self._ask("delete", claim.key)
        if self.claims.pop(claim.key, None) is None:
            raise NotFound("not found")

    async def set_pod_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        self._ask("set pod claim", pod.key)
        self.pod_claims[pod.key] = status

    async def set_pod_node_resources(self, pod: Pod, statuses: list[NodeAllocatableResourceClaimStatus]) -> None:
        self._ask("set node resources", pod.key)
        self.node_resources[pod.key] = statuses

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        self.background.append(work)

    def run_background(self) -> None:
        """Do the work that was begun; an APIError ends it, as in a running scheduler."""
        for work in self.background:
            try:
                asyncio.run(work)
            except APIError as error:
                self.reports.append(("failed", str(error)))
        self.background.clear()

    def record_event(self, pod: Pod, reason: str, note: str) -> None:
        self.events.append((reason, note))

    def created(self, result: str) -> None:
        self.reports.append(("created", result))

    def waited(self, profile: str, driver: str, result: str, seconds: float) -> None:
        self.reports.append(("waited", profile, driver, result))

    def conditions_ended(self, profile: str, driver: str, result: str) -> None:
        self.reports.append(("conditions", profile, driver, result))

    def now(self) -> str:
        return NOW

    def seconds_since(self, time: str) -> float:
        return self.age_s


class Bench:
    """The plugin with nodes n0, n1, ..., each with a pool of `gpus` GPUs, and the class `gpu`."""

    def __init__(
        self, release: Release = DEFAULT_RELEASE, *, nodes: int = 2, gpus: int = 1, binding_s: float = 600.0
    ) -> None:
        self.cache = Cache()
        self.devices = Devices(release)
        self.writes = FakeWrites(self.devices)
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None
        for index in range(nodes):
            self.cache.set_node(make_node(f"n{index}").label(zone=f"z{index}").capacity(cpu="4", memory="8Gi").obj())
            if gpus:
                self.publish(f"n{index}", gpus)
        self.devices.set_class(make_class())
        self.handle = Handle(
            table=self.cache.table,
            rng=random.Random(1),
            devices=self.devices,
            claims=self.writes,
            release=release,
            sleep=self._sleep,
        )
        self.plugin = DynamicResources(self.handle, "profile", Timeouts(binding_s=binding_s), selectors=FakeSelectors())

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.writes.age_s += seconds
        self.on_sleep()

    def publish(self, node: str, gpus: int, **fields: Any) -> None:
        published = devices(*(f"g{index}" for index in range(gpus)))
        self.devices.set_slice(make_slice(node, published, node_name=node, pool=node, **fields))

    # --- the cycle --------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, group: CycleState | None = None) -> tuple[CycleState, Status | None]:
        """Run PreFilter; `group`: what the members of a gang share."""
        state = CycleState()
        state.group = group
        _, status = self.plugin.pre_filter(state, pod)
        if status is SKIP:
            state.skip_filter.add(self.plugin.name)
        return state, status

    def filter(self, pod: PodInfo) -> dict[str, str]:
        """Node name -> why it rejects the pod, "" if it does not."""
        state, status = self.pre_filter(pod)
        if status is SKIP:
            return {node.name: "" for node in self.cache.table}
        assert status is None, status
        return self.filter_all(state, pod)

    def filter_all(self, state: CycleState, pod: PodInfo) -> dict[str, str]:
        found = {node.name: self.plugin.filter(state, pod, node) for node in self.cache.table}
        return {name: "" if status is None else status.message for name, status in found.items()}

    def reserved(self, pod: PodInfo, node: str = "n0", group: CycleState | None = None) -> CycleState:
        """The state of a pod's cycle after Reserve on the node."""
        state, status = self.pre_filter(pod, group)
        assert status is None, status
        self.filter_all(state, pod)
        status = self.plugin.reserve(state, pod, node)
        assert status is None, status
        return state

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str = "n0") -> str:
        """Run PreBind; the message of its status, "" for success."""
        status = asyncio.run(self.plugin.pre_bind(state, pod, node))
        return "" if status is None else status.message

    def cycle(self, state: CycleState) -> PodClaims:
        return state.read("DynamicResources/claims", PodClaims)

    def add(self, claim: ResourceClaim) -> ResourceClaim:
        return self.writes.put(claim)


def claim(name: str = "c", *requests: DeviceRequest, owner: str = "", **status: Any) -> ResourceClaim:
    """A claim in the namespace default with the uid `uid-<name>`, controlled by a pod with the uid `owner`."""
    owners = [OwnerReference("v1", "Pod", "p", owner, controller=True)] if owner else None
    metadata = ClaimMeta(
        name=name, namespace="default", uid=f"uid-{name}", resource_version="1", owner_references=owners
    )
    spec = ResourceClaimSpec(DeviceClaim(list(requests or (request(),))))
    return ResourceClaim(metadata, spec, ResourceClaimStatus(**status))


def allocation(device: str = "n0/g0", *, zone: str = "", request: str = "req", **result: Any) -> AllocationResult:
    """An allocation of a device, pool/name; `zone`: for nodes there only."""
    pool, _, name = device.partition("/")
    results = [DeviceRequestAllocationResult(request=request, driver=DRIVER, pool=pool, device=name, **result)]
    selector = None
    if zone:
        term = NodeSelectorTerm(match_expressions=[SelectorRequirement("zone", "In", [zone])])
        selector = NodeSelector([term])
    return AllocationResult(DeviceAllocationResult(results), selector)


def reserved_for(*uids: str) -> list[ResourceClaimConsumerReference]:
    return [ResourceClaimConsumerReference(resource="pods", name=uid, uid=uid) for uid in uids]


def pod_with(
    *claims: str, name: str = "p", templates: Sequence[tuple[str, str | None]] = (), **amounts: str
) -> PodInfo:
    """A pod with the uid `uid-<name>` and these claims; `templates`: (template, name of the claim made from it).

    `amounts` are its container's requests, with __ for / and _ for . in names.
    """
    builder = make_pod(name).uid(f"uid-{name}").req(cpu="100m")
    made = builder.obj()
    if amounts:
        requests = {key.replace("__", "/").replace("_", "."): value for key, value in amounts.items()}
        made = PodBuilder(made).req(**requests).obj()
    entries = [PodResourceClaim(each, resource_claim_name=each) for each in claims]
    entries += [PodResourceClaim(f"e-{each}", resource_claim_template_name=each) for each, _ in templates]
    statuses = [PodResourceClaimStatus(f"e-{each}", claim_name) for each, claim_name in templates]
    status = replace(made.status, resource_claim_statuses=statuses or None)
    return PodInfo(replace(made, spec=replace(made.spec, resource_claims=entries or None), status=status))
