"""A world with devices: nodes with GPUs, a class, claims and templates, and the controller that makes claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.api.devices import (
    ClaimMeta,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourceSlice,
)
from kscheduler.api.objects import ObjectMeta, PodResourceClaim
from kscheduler.client.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.config.load import default_config
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.config.types import DynamicResourcesArgs, PluginConfig, SchedulerConfig
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.devices.building import devices, make_class, make_slice, request
from tests.support.world import World

TEMPLATE = "one-gpu"
GPU = "example.com/gpu"


class DeviceWorld(World):
    """With nodes n0 to n2, each with GPUs g0 and g1 in its own pool, the class `gpu`, and the template `one-gpu`."""

    def __init__(
        self,
        *,
        release: Release = DEFAULT_RELEASE,
        nodes: int = 3,
        gpus: int = 2,
        controller: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(config=options.pop("config", None) or default_config(release), **options)
        if controller:
            ClaimController(self.cluster, asyncio.get_running_loop().call_soon)
        for index in range(nodes):
            self.add_node(make_node(f"n{index}").label(zone=f"z{index}").capacity(cpu="4", memory="16Gi"))
            self.publish(f"n{index}", gpus)
        self.add(make_class())
        self.add(template(TEMPLATE, request()))

    async def __aenter__(self) -> DeviceWorld:
        return self

    def add(self, *items: Any) -> Any:
        """Objects; the cluster gives versions and uids. Returns the last one as it was created."""
        for item in items:
            created = self.cluster.create_object(
                replace(item, metadata=replace(item.metadata, resource_version="", uid=""))
            )
        return created

    def publish(self, node: str, gpus: int = 2, **fields: Any) -> ResourceSlice:
        """A node's slice, with so many GPUs."""
        names = devices(*(f"g{index}" for index in range(gpus)))
        return self.add(make_slice(node, names, node_name=node, pool=node, **fields))  # type: ignore[no-any-return]

    def claim(self, key: str) -> ResourceClaim:
        """A claim by its name, or by the name of the only pod that it was made for."""
        found = self.claims.get(f"default/{key}")
        if found is not None:
            return found
        owned = [
            each for each in self.claims.values() if any(o.name == key for o in each.metadata.owner_references or ())
        ]
        assert len(owned) == 1, (key, list(self.claims))
        return owned[0]

    @property
    def claims(self) -> dict[str, ResourceClaim]:
        return self.cluster.store(RESOURCE_CLAIMS).objects

    def devices_of(self, key: str) -> list[str]:
        """The devices that a claim is allocated, as pool/device."""
        allocation = self.claim(key).status.allocation
        return [] if allocation is None else [f"{each.pool}/{each.device}" for each in allocation.devices.results or ()]

    def change_claim(self, key: str, **status: Any) -> None:
        """What a driver or a controller writes to a claim's status."""
        claim = self.claim(key)
        self.cluster.update_object(replace(claim, status=replace(claim.status, **status)))

    def message(self, name: str) -> str:
        condition = self.condition(name)
        return "" if condition is None else condition.message

    def all_taken(self) -> list[str]:
        """All devices that are allocated, as pool/device, sorted."""
        return sorted(device for claim in self.claims.values() for device in self.devices_of(claim.metadata.name))

    def check_state(self) -> None:
        super().check_state()
        # The judge knows only what nodes offer of an extended resource, and not that devices back it.
        self.judge.violations[:] = [each for each in self.judge.violations if GPU not in each]
        known = self.scheduler.devices
        assert not known.in_flight
        for claim in self.claims.values():
            assert known.claim(claim.metadata.namespace, claim.metadata.name) == claim
        taken = self.all_taken()
        assert len(taken) == len(set(taken))
        for pod in self.cluster.store(PODS).objects.values():
            self._check_reserved(pod)

    def _check_reserved(self, pod: Any) -> None:
        """A pod that was bound has all its claims reserved for it."""
        if not pod.spec.node_name:
            return
        for entry in pod.spec.resource_claims or ():
            made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
            name = entry.resource_claim_name or made.get(entry.name)
            if name is not None and f"default/{name}" in self.claims:
                reserved = self.claim(name).status.reserved_for or ()
                assert pod.metadata.uid in [each.uid for each in reserved], pod.key


def template(name: str, *requests: DeviceRequest) -> ResourceClaimTemplate:
    spec = ResourceClaimSpec(DeviceClaim(list(requests)))
    return ResourceClaimTemplate(ObjectMeta(name=name), ResourceClaimTemplateSpec(spec=spec))


def named_claim(name: str, *requests: DeviceRequest) -> ResourceClaim:
    spec = ResourceClaimSpec(DeviceClaim(list(requests or (request(),))))
    return ResourceClaim(ClaimMeta(name=name, namespace="default"), spec)


def backing(name: str, resource: str | None = None, created: str | None = None) -> DeviceClass:
    """A class that backs an extended resource."""
    made = make_class(name)
    return replace(
        made,
        metadata=replace(made.metadata, creation_timestamp=created),
        spec=replace(made.spec, extended_resource_name=resource),
    )


def gpu_pod(name: str, *claims: str, templates: Sequence[str] = ()) -> PodBuilder:
    """A pod with these claims; without any, with one from the template `one-gpu`."""
    entries = [PodResourceClaim(each, resource_claim_name=each) for each in claims]
    wanted = templates or (() if claims else (TEMPLATE,))
    entries += [PodResourceClaim(f"from-{each}", resource_claim_template_name=each) for each in wanted]
    pod = make_pod(name).req(cpu="100m").obj()
    return PodBuilder(replace(pod, spec=replace(pod.spec, resource_claims=entries)))


def configured(release: Release, **args: Any) -> SchedulerConfig:
    """The default configuration with arguments of DynamicResources."""
    config = default_config(release)
    profile = config.profiles[0]
    entry = PluginConfig("DynamicResources", DynamicResourcesArgs(**args))
    others = tuple(each for each in profile.plugin_config if each.name != "DynamicResources")
    return replace(config, profiles=(replace(profile, plugin_config=(*others, entry)), *config.profiles[1:]))
