"""Generated clusters with devices for the plugin: exotic ones from the generator of the comparison with
kube-scheduler, and plain ones in which counts of devices decide; and random changes of what there is.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from kscheduler.api.objects import Node
from kscheduler.cache.cache import Cache
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import Release
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.dynamicresources.binding import Timeouts
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.snapshot.devices import Devices
from kscheduler.testing import make_node
from tests.devices.building import (
    alternative,
    counter_set,
    device,
    first_available,
    in_zone,
    make_class,
    make_slice,
    request,
    toleration,
)
from tests.framework.plugins.dynamicresources.bench import FakeWrites, claim
from tests.parity.devices.generate import generate
from tests.support.devices import GPU, backing

SELECTORS = Selectors()
MOST_STEPS = 2_000  # of the search on one node
TIMED_OUT = "timed out"
_MODEL = 'device.attributes["gpu.example.com"].model == "{}"'


class GeneratedCluster:
    """A cluster that changes, and one plugin that sees it. Time passes by one with each look at the clock."""

    def __init__(
        self, seed: int, release: Release, nodes: list[Node], slices: list[ResourceSlice], classes: list[DeviceClass]
    ) -> None:
        self.rng = random.Random(seed)
        self.cache = Cache()
        self.devices = Devices(release)
        self.nodes, self.slices = nodes, slices
        self._names = itertools.count()
        self._written: list[ResourceClaim] = []
        self._in_flight: list[str] = []
        clock = itertools.count()
        self.handle = Handle(
            table=self.cache.table,
            rng=self.rng,
            devices=self.devices,
            claims=FakeWrites(self.devices),
            release=release,
            stopwatch=lambda: float(next(clock)),
        )
        self.plugin = self.new_plugin()
        for node in nodes:
            self.cache.set_node(node)
        for each in slices:
            self.devices.set_slice(each)
        for device_class in classes:
            self.devices.set_class(device_class)

    def new_plugin(self) -> DynamicResources:
        return DynamicResources(self.handle, "", Timeouts(filter_s=MOST_STEPS), selectors=SELECTORS)

    def put_claims(self, claims: Sequence[ResourceClaim]) -> list[str]:
        """Add claims under new names, which are returned."""
        names = [f"claim-{next(self._names)}" for _ in claims]
        for name, each in zip(names, claims, strict=True):
            metadata = replace(each.metadata, name=name, namespace="default", uid=f"uid-{name}", resource_version="1")
            self.devices.set_claim(replace(each, metadata=metadata))
        return names

    def change(self) -> None:
        """Change something about nodes, slices or allocations at random."""
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 0:
            self.devices.set_slice(msgspec.structs.replace(rng.choice(self.slices)))
        elif kind == 1:
            self.devices.remove_slice(rng.choice(self.slices).metadata.name)
        elif kind == 2:
            self._change_node(rng.choice(self.nodes))
        elif kind in (3, 4):
            self._allocate(in_flight=kind == 4)
        elif kind == 5 and self._written:
            gone = self._written.pop(rng.randrange(len(self._written)))
            self.devices.remove_claim(gone.metadata.namespace, gone.metadata.name)
        elif kind == 6 and self._in_flight:
            self.devices.end_allocation(self._in_flight.pop(rng.randrange(len(self._in_flight))), for_all=True)
        else:
            self._change_slice(rng.choice(self.slices))

    def _change_node(self, node: Node) -> None:
        name = node.metadata.name
        if name in {each.name for each in self.cache.table} and self.rng.random() < 0.3:
            self.cache.remove_node(name)
            return
        labels = {**(node.metadata.labels or {}), "zone": self.rng.choice("ab")}
        self.cache.set_node(replace(node, metadata=replace(node.metadata, labels=labels)))

    def _change_slice(self, each: ResourceSlice) -> None:
        published = list(each.spec.devices or ())
        self.rng.shuffle(published)
        if published and self.rng.random() < 0.5:
            taint = DeviceTaint(key="example.com/broken", effect="NoSchedule")
            published[0] = replace(published[0], taints=[taint])
        self.devices.set_slice(replace(each, spec=replace(each.spec, devices=published or None)))

    def _allocate(self, *, in_flight: bool) -> None:
        spec = self.rng.choice(self.slices).spec
        if not spec.devices:
            return
        chosen = self.rng.sample(spec.devices, self.rng.randint(1, min(3, len(spec.devices))))
        allocation = AllocationResult(
            DeviceAllocationResult(
                [
                    DeviceRequestAllocationResult(
                        request="r",
                        driver=spec.driver,
                        pool=spec.pool.name,
                        device=each.name,
                        share_id="share" if each.allow_multiple_allocations and self.rng.random() < 0.8 else None,
                    )
                    for each in chosen
                ]
            )
        )
        made = replace(claim(f"old-{next(self._names)}"), status=ResourceClaimStatus(allocation=allocation))
        if in_flight:
            self.devices.set_claim(replace(made, status=ResourceClaimStatus()))
            self.devices.begin_allocation(made.metadata.uid, made)
            self._in_flight.append(made.metadata.uid)
        else:
            self.devices.set_claim(made)
            self._written.append(made)


def exotic_cluster(seed: int, release: Release) -> tuple[GeneratedCluster, list[list[ResourceClaim]]]:
    """Return a cluster with everything that slices can have, and the claims of some pods."""
    case = generate(seed, release.version)
    gates = case.config.get("gates", {})
    cluster = GeneratedCluster(
        seed,
        release.with_gates({name: gates[name] for name in ("DRADerivedAttributes",) if name in gates}),
        _decoded(case.cluster["nodes"], list[Node]),
        _decoded(case.cluster["resourceSlices"], list[ResourceSlice]),
        _decoded(case.cluster["deviceClasses"], list[DeviceClass]),
    )
    return cluster, [_decoded(pod["claims"], list[ResourceClaim]) for pod in case.pending]


def plain_cluster(
    seed: int, release: Release, *, with_counters: bool
) -> tuple[GeneratedCluster, list[list[ResourceClaim]]]:
    """Return nodes with GPUs of two models in their own pools, pools for several nodes, and claims for numbers of them.

    The class `gpu` backs an extended resource, which some nodes have themselves.

    Some devices lack their model, which selectors of classes do not forgive.
    """
    rng = random.Random(seed)
    nodes = [
        make_node(f"n{index}").label(zone=rng.choice("ab")).capacity(**({GPU: "4"} if rng.random() < 0.3 else {})).obj()
        for index in range(rng.randint(1, 6))
    ]
    lacking = rng.random() < 0.3
    slices = [
        each
        for node in nodes
        for each in _pool(rng, node.metadata.name, with_counters=with_counters, is_lacking=lacking)
    ]
    if rng.random() < 0.3:
        published = [device(f"net{index}", {"model": "A"}) for index in range(3)]
        slices.append(make_slice("everywhere", published, pool="net", all_nodes=True))
    if rng.random() < 0.4:
        slices += _rack(rng, nodes, with_counters=with_counters, is_lacking=lacking)
    classes = [backing("gpu", GPU), make_class("a", _MODEL.format("A")), make_class("b", _MODEL.format("B"))]
    return GeneratedCluster(seed, release, nodes, slices, classes), [_claims(rng) for _ in range(6)]


def _rack(rng: random.Random, nodes: list[Node], *, with_counters: bool, is_lacking: bool) -> list[ResourceSlice]:
    """Return a pool whose devices name their nodes one by one."""
    devices, *counters = _pool(rng, "rack", with_counters=with_counters, is_lacking=is_lacking)
    places: list[dict[str, Any]] = [{"node_name": node.metadata.name} for node in nodes]
    places += [{"node_selector": in_zone("a")}, {"node_selector": in_zone("b")}, {"all_nodes": True}]
    published = [replace(each, **rng.choice(places)) for each in devices.spec.devices or ()]
    spec = replace(devices.spec, node_name=None, per_device_node_selection=True, devices=published or None)
    rack = [replace(devices, spec=spec)]
    return rack + [replace(each, spec=replace(each.spec, node_name=None, all_nodes=True)) for each in counters]


def _pool(rng: random.Random, node: str, *, with_counters: bool, is_lacking: bool) -> list[ResourceSlice]:
    made = []
    for index in range(rng.randint(0, 5)):
        attributes = {} if is_lacking and rng.random() < 0.1 else {"model": rng.choice("AB")}
        consumes = {"set": {"memory": "10Gi"}} if with_counters and rng.random() < 0.5 else {}
        taints = [DeviceTaint(key="example.com/broken", effect="NoSchedule")] if rng.random() < 0.1 else None
        made.append(
            device(
                f"g{index}",
                attributes,
                capacity={"memory": "40Gi"} if rng.random() < 0.5 else None,
                consumes=consumes,
                taints=taints,
            )
        )
    fields: dict[str, Any] = {"node_name": node, "pool": node, "slices": 1 + with_counters}
    slices = [make_slice(node, made, **fields)]
    if with_counters:
        slices.append(make_slice(f"{node}-counters", shared_counters=[counter_set("set", memory="20Gi")], **fields))
    return slices


def _claims(rng: random.Random) -> list[ResourceClaim]:
    if rng.random() < 0.25:
        alternatives = (
            alternative(f"a{place}", rng.choice((1, 2, 3)), device_class_name=rng.choice(("gpu", "a", "b")))
            for place in range(rng.randint(1, 3))
        )
        return [claim("c", first_available("r", *alternatives))]
    return [
        claim(f"c{number}", *(_request(rng, f"r{each}") for each in range(rng.choice((1, 1, 1, 2, 3)))))
        for number in range(rng.choice((1, 1, 2)))
    ]


def _request(rng: random.Random, name: str) -> DeviceRequest:
    fields = {
        "device_class_name": rng.choice(("gpu", "a", "b")),
        "tolerations": [toleration()] if rng.random() < 0.2 else None,
    }
    if rng.random() < 0.15:
        return first_available(name, alternative("x", 3, **fields), alternative("y", 1, device_class_name="b"))
    return request(name, rng.choice((1, 1, 2, 3)), **fields)


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)
