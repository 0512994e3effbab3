"""What allocated devices take of their node, from what their slices say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kscheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from kscheduler.api.objects import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
)
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.devices.node_resources import NodeResourcesError, NodeShares
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import DRIVER, device, in_zone, make_claim, make_node, make_slice

CORES = "dra.example.com/cores"
OLD, NEW = NodeShares(mappings_only=True), NodeShares(mappings_only=False)


def taking(name: str, **resources: NodeAllocatableResource) -> Device:
    return device(name, node_allocatable_resources=resources)


def standing_for(amount: str = "", **fields: Any) -> NodeAllocatableResource:
    return NodeAllocatableResource(NodeAllocatableMapping(device_multiplier=amount or None, **fields))


def needing(per_pod: str | None = None, per_container: str | None = None) -> NodeAllocatableResource:
    return NodeAllocatableResource(overhead=NodeAllocatableOverhead(per_pod, per_container))


def mapping(name: str, **resources: NodeAllocatableResourceMapping) -> Device:
    return device(name, node_allocatable_resource_mappings=resources)


def allocated(*names: str, consumed: Mapping[str, str] | None = None) -> AllocationResult:
    amounts = None if consumed is None else dict(consumed)
    results = [
        DeviceRequestAllocationResult("r", DRIVER, "pool", name, consumed_capacity=amounts)  # type: ignore[arg-type]
        for name in names
    ]
    return AllocationResult(DeviceAllocationResult(results))


def taken(
    shares: NodeShares, *published: Device, consumed: Mapping[str, str] | None = None
) -> NodeAllocatableResourceClaimStatus | None:
    """What a claim with all of these devices takes."""
    allocation = allocated(*(each.name for each in published), consumed=consumed)
    by_name = {each.name: each for each in published}
    return shares.of_claim(make_claim(name="c"), allocation, lambda result: by_name.get(result.device))


def mapped(**amounts: str) -> list[NodeAllocatableMappedResources]:
    return [NodeAllocatableMappedResources(name, amount) for name, amount in amounts.items()]


# --- 1.37 -------------------------------------------------------------------------------------------------------


def test_each_device_stands_for_its_amounts_and_those_of_a_claim_add_up() -> None:
    found = taken(NEW, *(taking(name, cpu=standing_for("2"), memory=standing_for("1Gi")) for name in ("a", "b", "c")))
    assert found == NodeAllocatableResourceClaimStatus("c", mapping=mapped(cpu="6", memory="3Gi"))


def test_what_is_used_of_a_capacity_is_multiplied() -> None:
    threads = taking("a", cpu=standing_for(capacity_key=CORES, capacity_multiplier="2"))
    assert taken(NEW, threads, consumed={CORES: "1500m"}) == NodeAllocatableResourceClaimStatus(
        "c", mapping=mapped(cpu="3")
    )
    one = taking("a", memory=standing_for(capacity_key=CORES, capacity_multiplier="1"))
    assert taken(NEW, one, consumed={CORES: "4Gi"}) == NodeAllocatableResourceClaimStatus(
        "c", mapping=mapped(memory="4Gi")
    )


def test_a_capacity_of_which_nothing_is_used_stands_for_nothing() -> None:
    assert taken(NEW, taking("a", cpu=standing_for(capacity_key=CORES)), consumed={"other": "1"}) is None


@pytest.mark.parametrize(
    ("shares", "published", "field"),
    [
        (NEW, taking("a", cpu=standing_for(capacity_key=CORES)), "NodeAllocatableResources"),
        (OLD, mapping("a", cpu=NodeAllocatableResourceMapping(CORES)), "NodeAllocatableResourceMappings"),
    ],
    ids=["1.37", "1.36"],
)
def test_a_device_that_is_not_shared_out_has_no_consumed_capacity(
    shares: NodeShares, published: Device, field: str
) -> None:
    with pytest.raises(NodeResourcesError) as caught:
        taken(shares, published)
    assert str(caught.value) == (
        "claim ns/c, device a: ConsumedCapacity is nil, but Capacity key 'dra.example.com/cores' is set in "
        f"{field} for resource cpu"
    )


def test_overheads_of_pod_and_container_add_up_by_themselves() -> None:
    found = taken(NEW, taking("a", memory=needing("100Mi", "10Mi")), taking("b", memory=needing("50Mi"), cpu=needing()))
    assert found == NodeAllocatableResourceClaimStatus(
        "c", overhead=[NodeAllocatableOverheadResources("memory", "150Mi", "10Mi")]
    )


def test_a_device_may_both_stand_for_a_resource_and_need_more_of_it() -> None:
    both = NodeAllocatableResource(NodeAllocatableMapping(device_multiplier="2"), NodeAllocatableOverhead("100m"))
    assert taken(NEW, taking("a", cpu=both)) == NodeAllocatableResourceClaimStatus(
        "c", mapping=mapped(cpu="2"), overhead=[NodeAllocatableOverheadResources("cpu", "100m")]
    )
    assert NEW.stands_for_any(taking("a", cpu=both))
    assert not NEW.stands_for_any(taking("a", cpu=needing("1")))


def test_devices_that_take_nothing_leave_no_trace() -> None:
    assert taken(NEW, device("a")) is None
    assert not NEW.takes_any(device("a"))
    assert not NEW.takes_any(mapping("a", cpu=NodeAllocatableResourceMapping(None, "1")))


@pytest.mark.parametrize(("shares", "driver"), [(NEW, True), (OLD, False)], ids=["1.37", "1.36"])
def test_a_device_that_is_not_there_is_an_error(shares: NodeShares, driver: bool) -> None:
    with pytest.raises(NodeResourcesError) as caught:
        shares.of_claim(make_claim(name="c"), allocated("lost"), lambda _: None)
    expected = "claim ns/c, device lost{}: device lost not found in pool pool{}"
    assert str(caught.value) == expected.format(
        *((f", driver {DRIVER}", f" for driver {DRIVER}") if driver else ("", ""))
    )


# --- 1.36 -------------------------------------------------------------------------------------------------------


def test_in_1_36_one_multiplier_is_for_devices_and_for_capacities() -> None:
    by_device = mapping("a", cpu=NodeAllocatableResourceMapping(None, "4"))
    by_capacity = mapping(
        "b", cpu=NodeAllocatableResourceMapping(CORES, "2"), memory=NodeAllocatableResourceMapping(CORES)
    )
    found = taken(OLD, by_device, by_capacity, consumed={CORES: "3"})
    assert found == NodeAllocatableResourceClaimStatus("c", resources={"cpu": "10", "memory": "3"})


def test_in_1_36_a_mapping_without_an_amount_stands_for_nothing_and_is_listed() -> None:
    found = taken(OLD, mapping("a", cpu=NodeAllocatableResourceMapping()))
    assert found == NodeAllocatableResourceClaimStatus("c", resources={"cpu": "0"})


def test_each_release_reads_its_own_field() -> None:
    assert OLD.takes_any(mapping("a", cpu=NodeAllocatableResourceMapping(None, "1")))
    assert not OLD.takes_any(taking("a", cpu=standing_for("1")))
    assert not OLD.stands_for_any(mapping("a", cpu=NodeAllocatableResourceMapping(None, "1")))


# --- where devices are looked for ---------------------------------------------------------------------------------


def test_a_device_is_found_where_its_slice_is_for_the_node() -> None:
    named = make_slice("named", [device("a")], pool="named", node_name="n0")
    zoned = make_slice("zoned", [device("a")], pool="zoned", node_selector=in_zone("z0"))
    everywhere = make_slice("all", [device("a")], pool="all", all_nodes=True)
    index = SliceIndex(RELEASE_1_37, [named, zoned, everywhere])
    for pool, on_n0, on_n1 in (("named", True, False), ("zoned", True, False), ("all", True, True)):
        found = [index.find_device((DRIVER, pool, "a"), make_node(f"n{i}", zone=f"z{i}")) is not None for i in (0, 1)]
        assert found == [on_n0, on_n1], pool
        assert index.find_device((DRIVER, pool, "a")) is not None


def test_a_device_that_names_its_nodes_by_itself_is_found_there() -> None:
    published = [device("a", node_name="n0"), device("b", all_nodes=True), device("c", node_selector=in_zone("z1"))]
    index = SliceIndex(RELEASE_1_37, [make_slice("s", published, per_device_node_selection=True)])
    found = [
        [index.find_device((DRIVER, "pool", name), make_node(f"n{i}", zone=f"z{i}")) is not None for i in (0, 1)]
        for name in ("a", "b", "c")
    ]
    assert found == [[True, False], [True, True], [False, True]]


def test_devices_of_other_drivers_pools_and_generations_are_not_taken_for_this_one() -> None:
    index = SliceIndex(
        RELEASE_1_36,
        [
            make_slice("old", [device("a", {"from": "old"})], node_name="n0", generation=1),
            make_slice("new", [device("a", {"from": "new"})], node_name="n0", generation=2),
            make_slice("other", [device("a", {"from": "other"})], node_name="n0", driver="other.example.com"),
        ],
    )
    found = index.find_device((DRIVER, "pool", "a"), make_node("n0"))
    assert found is not None
    assert found.attributes is not None
    assert found.attributes["from"].string == "new"
    assert index.find_device((DRIVER, "pool", "b")) is None
    assert index.find_device((DRIVER, "lost", "a")) is None
