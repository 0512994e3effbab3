"""The compiled lane decides about pods with claims as the general lane does, and they get the same devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.devices import (
    DeviceRequest,
    NodeAllocatableMapping,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.objects import Pod, PodResourceClaim
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.testing import make_node, make_pod
from tests.devices.building import alternative, device, first_available, make_class, make_slice, request, request_all
from tests.framework.plugins.dynamicresources.bench import claim
from tests.support.lanes import Outcome, TwoLanes

ZONES = ("a", "b")
RESOURCE = "example.com/gpu"
MODEL = 'device.attributes["gpu.example.com"].model == "{}"'
OF_ZONE_A = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 7, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}
"""
GATE = {"DRANodeAllocatableResources": True}
TAKING = {
    f"devices take cpu in {each.version}": default_config(each.with_gates(GATE))
    for each in (RELEASE_1_36, RELEASE_1_37)
}
CONFIGS = {"defaults": default_config(), "by zone": parse_config(OF_ZONE_A), **TAKING}
REQUESTS: tuple[DeviceRequest, ...] = (
    request("one"),
    request("two", 2),
    request("a", 1, device_class_name="a"),
    request("b", 2, device_class_name="b"),
    request("missing", 1, device_class_name="missing"),
    request_all("all", device_class_name="b"),
    first_available("none", alternative("x", 9), alternative("y", 1)),
    first_available("or", alternative("x", 2, device_class_name="a"), alternative("y", 1)),
)


class Devices:
    """The devices and claims of both lanes."""

    def __init__(self, lanes: TwoLanes) -> None:
        self.lanes = lanes
        self._made = 0
        of_a = make_class("a", MODEL.format("A"))
        for side in lanes.sides:
            for each in (
                make_class(),
                replace(of_a, spec=replace(of_a.spec, extended_resource_name=RESOURCE)),
                make_class("b", MODEL.format("B")),
            ):
                side.handle.devices.set_class(each)

    def publish(self, published: ResourceSlice) -> None:
        for side in self.lanes.sides:
            side.handle.devices.set_slice(published)

    def pod(self, *requests: DeviceRequest, **fields: Any) -> Pod:
        """A pod with a claim of its own for each request."""
        self._made += 1
        entries = []
        for place, each in enumerate(requests):
            made = claim(f"c{self._made}-{place}", each)
            entries.append(PodResourceClaim(f"e{place}", resource_claim_name=made.metadata.name))
            self.put(made)
        pod = make_pod(f"p{self._made}").uid(f"p{self._made}").req(cpu=fields.get("cpu", "100m"))
        if "zone" in fields:
            pod = pod.node_selector(zone=fields["zone"])
        if "spread" in fields:
            pod = pod.label(app="web").pod_anti_affinity("kubernetes.io/hostname", {"app": "web"})
        made_pod = pod.obj()
        return replace(made_pod, spec=replace(made_pod.spec, resource_claims=entries or None))

    def extended(self, count: int, **fields: Any) -> Pod:
        """A pod that requests an extended resource, which the class for models A backs."""
        self._made += 1
        made = make_pod(f"p{self._made}").uid(f"p{self._made}").req(cpu="100m").req(**{RESOURCE: count, **fields})
        return made.limits(**{RESOURCE: count}).obj()

    def sharing(self, name: str, **fields: Any) -> Pod:
        """A pod that uses a claim by its name."""
        made = self.pod(**fields)
        return replace(made, spec=replace(made.spec, resource_claims=[PodResourceClaim("e", resource_claim_name=name)]))

    def write(self, uid: str) -> str:
        """Write the claim's allocation that is in flight, as PreBind does. Returns the claim's name."""
        name = ""
        for side in self.lanes.sides:
            known = side.handle.devices
            allocation = known.pending_allocation(uid)
            for each in [known.claim("default", f"c{number}-0") for number in range(self._made + 1)]:
                if each is not None and each.metadata.uid == uid:
                    name = each.metadata.name
                    version = str(int(each.metadata.resource_version or 0) + 1)
                    metadata = replace(each.metadata, resource_version=version)
                    status = replace(each.status, allocation=allocation)
                    known.set_claim(replace(each, metadata=metadata, status=status))
                    known.end_allocation(uid, for_all=True)
        return name

    def put(self, made: ResourceClaim) -> None:
        for side in self.lanes.sides:
            side.handle.devices.set_claim(made)

    def schedule(self, *pods: Pod) -> list[Outcome]:
        """Decide on both sides, and require that they allocate the same devices."""
        outcomes = self.lanes.schedule(*pods)
        general, compiled = (side.handle.devices for side in self.lanes.sides)
        assert set(general.in_flight) == set(compiled.in_flight)
        for uid in general.in_flight:
            assert general.pending_allocation(uid) == compiled.pending_allocation(uid)
        assert general.allocated == compiled.allocated
        return outcomes

    def free(self, uid: str) -> None:
        for side in self.lanes.sides:
            side.handle.devices.end_allocation(uid, for_all=True)


def node(name: str, zone: str = "a", cpu: str = "4", **own: str) -> Any:
    made = make_node(name).label("kubernetes.io/hostname", name).label("zone", zone)
    return made.capacity(cpu=cpu, pods=20, **own).obj()


def pool(name: str, models: str, *, taking: str = "", **fields: Any) -> ResourceSlice:
    """The slice of a pool; a device for each letter of `models`, - for one without a model.

    Those of the models `taking` stand for cpu of their node.
    """
    old = {"cpu": NodeAllocatableResourceMapping(None, "900m")}
    new = {"cpu": NodeAllocatableResource(NodeAllocatableMapping(None, None, "900m"))}
    takes = {"node_allocatable_resource_mappings": old, "node_allocatable_resources": new}
    made = [
        device(f"g{place}", {} if each == "-" else {"model": each}, **(takes if each in taking else {}))
        for place, each in enumerate(models)
    ]
    return make_slice(name, made, pool=name, **(fields or {"node_name": name}))


@pytest.mark.parametrize("config", CONFIGS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_both_lanes_choose_the_same_nodes_and_devices(config: str, data: st.DataObject) -> None:
    draw = data.draw
    lanes = TwoLanes(CONFIGS[config])
    taking = "A" if config in TAKING else ""
    devices = Devices(lanes)
    models = st.text("AB", max_size=4) if draw(st.integers(0, 4)) else st.text("AB-", max_size=4)
    for number in range(draw(st.integers(1, 5))):
        lanes.set_node(node(f"n{number}", draw(st.sampled_from(ZONES)), draw(st.sampled_from(["1", "4"]))))
        devices.publish(pool(f"n{number}", draw(models), taking=taking))
    if draw(st.integers(0, 4)) == 0:
        devices.publish(pool("net", draw(models), taking=taking, all_nodes=True))
    for _ in range(draw(st.integers(1, 10))):
        kind = draw(st.integers(0, 12))
        name = f"n{draw(st.integers(0, 5))}"
        if kind < 6:
            picked = draw(st.lists(st.lists(st.sampled_from(REQUESTS), max_size=2), min_size=1, max_size=6))
            zones: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
                [{}, {}, {}, {"zone": "a"}, {"cpu": "1"}, {"spread": True}]
            )
            devices.schedule(*(devices.pod(*requests, **draw(zones)) for requests in picked))
        elif kind == 6 and (held := sorted(lanes.general.handle.devices.in_flight)):
            devices.free(draw(st.sampled_from(held)))
        elif kind == 7:
            devices.publish(pool(name, draw(models), taking=taking))
        elif kind == 8:
            own = draw(st.sampled_from([{}, {}, {RESOURCE: "1"}, {RESOURCE: "0"}]))
            lanes.set_node(node(name, draw(st.sampled_from(ZONES)), **own))
        elif kind in (9, 10):
            counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
            some: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
                [{}, {}, {}, {"cpu": "1"}, {"example.com/other": 1}]
            )
            devices.schedule(*(devices.extended(count, **draw(some)) for count in counts))
        elif kind == 11:
            for uid in sorted(lanes.general.handle.devices.in_flight):
                if shared := devices.write(uid):
                    zones = st.sampled_from([{}, {}, {"zone": "a"}, {"cpu": "1"}, {"spread": True}])
                    devices.schedule(*(devices.sharing(shared, **draw(zones)) for _ in range(2)))
        else:
            lanes.remove_node(name)


def test_pods_with_claims_are_decided_by_the_compiled_lane() -> None:
    lanes = TwoLanes()
    devices = Devices(lanes)
    for name in ("n0", "n1", "n2"):
        lanes.set_node(node(name))
        devices.publish(pool(name, "AAB"))
    outcomes = devices.schedule(*(devices.pod(request("r", 1, device_class_name="a")) for _ in range(6)))
    assert sorted(each.node for each in outcomes) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    assert lanes.decided_by_lane == 6
    assert devices.schedule(devices.pod(request("r", 1, device_class_name="a")))[0].node == ""
    assert devices.schedule(devices.pod(request("r", 1, device_class_name="b")), devices.pod())[0].node
    assert lanes.decided_by_lane == 8


def test_pods_whose_claim_is_allocated_follow_it_in_the_compiled_lane() -> None:
    lanes = TwoLanes()
    devices = Devices(lanes)
    for name in ("n0", "n1", "n2"):
        lanes.set_node(node(name, cpu="400m"))
        devices.publish(pool(name, "A"))
    (first,) = devices.schedule(devices.pod(request("r")))
    (uid,) = lanes.general.handle.devices.in_flight
    assert devices.schedule(devices.sharing("c1-0"))[0].text.endswith("is in the process of being allocated.")
    lanes.decided_by_lane = 0
    shared = devices.write(uid)
    followers = devices.schedule(*(devices.sharing(shared) for _ in range(4)))
    assert [each.node for each in followers] == [first.node] * 3 + [""]
    assert lanes.decided_by_lane == 3
    lanes.remove_node(first.node)
    assert not devices.schedule(devices.sharing(shared))[0].node


def test_pods_with_a_backed_extended_resource_are_decided_by_the_compiled_lane() -> None:
    lanes = TwoLanes()
    devices = Devices(lanes)
    for name in ("n0", "n1", "n2"):
        lanes.set_node(node(name))
        devices.publish(pool(name, "AAB"))
    outcomes = devices.schedule(*(devices.extended(1) for _ in range(6)))
    assert sorted(each.node for each in outcomes) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    assert lanes.decided_by_lane == 6
    for side in lanes.sides:
        table = side.cache.table
        column = table.resources.column(RESOURCE)
        assert [table.columns.requested(row, column) for row in range(3)] == [2, 2, 2]
    # Where a node has the resource itself, its device plugin provides it.
    lanes.set_node(node("n3", **{RESOURCE: "1"}))
    assert [each.node for each in devices.schedule(devices.extended(1), devices.extended(1))] == ["n3", ""]
    assert lanes.decided_by_lane == 6


@pytest.mark.parametrize("config", TAKING)
def test_only_pods_that_may_get_devices_which_take_cpu_leave_the_compiled_lane(config: str) -> None:
    lanes = TwoLanes(TAKING[config])
    devices = Devices(lanes)
    for name in ("n0", "n1", "n2"):
        lanes.set_node(node(name))
        devices.publish(pool(name, "AAB", taking="A"))
    devices.schedule(*(devices.pod(request("r", device_class_name="b")) for _ in range(3)))
    assert lanes.decided_by_lane == 3
    used = devices.pod(request("r", device_class_name="a"))
    devices.schedule(used)
    assert lanes.decided_by_lane == 3
