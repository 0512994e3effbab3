"""Which slices make up a node's pools: generations, completeness, validity, nodes, order."""

from __future__ import annotations

import pytest

from kscheduler.api.devices import DeviceCounterConsumption, ResourceSlice
from kscheduler.api.objects import NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.releases import Release
from kscheduler.devices.allocator import AllocationError, PoolError
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import (
    NEW,
    OLD,
    Cluster,
    counter_set,
    device,
    devices,
    in_zone,
    make_claim,
    make_node,
    make_slice,
    request,
    request_all,
)

# --- nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("published", "is_usable"),
    [
        (make_slice("s", devices("a"), node_name="node-1"), True),
        (make_slice("s", devices("a"), node_name="node-2"), False),
        (make_slice("s", devices("a"), all_nodes=True), True),
        (make_slice("s", devices("a"), node_selector=in_zone("z1", "z2")), True),
        (make_slice("s", devices("a"), node_selector=in_zone("z2")), False),
        (make_slice("s", devices("a"), node_selector=NodeSelector([])), False),
        (make_slice("s", [device("a", node_name="node-1")], per_device_node_selection=True), True),
        (make_slice("s", [device("a", all_nodes=True)], per_device_node_selection=True), True),
        (make_slice("s", [device("a", node_selector=in_zone("z1"))], per_device_node_selection=True), True),
        (make_slice("s", [device("a", node_selector=in_zone("z2"))], per_device_node_selection=True), False),
        (make_slice("s", devices("a"), per_device_node_selection=True), False),
        (make_slice("s", devices("a"), all_nodes=None), False),
    ],
)
def test_a_slice_can_be_used_from_the_nodes_that_it_names(
    release: Release, published: ResourceSlice, is_usable: bool
) -> None:
    found = Cluster(release, [published]).chosen(make_claim(request()), node=make_node("node-1", zone="z1"))
    assert found == ([["a"]] if is_usable else None)


def test_devices_of_a_slice_may_name_nodes_one_by_one(release: Release) -> None:
    published = [device("a", node_name="node-2"), device("b", node_name="node-1"), device("c", all_nodes=True)]
    cluster = Cluster(release, [make_slice("s", published, per_device_node_selection=True)])
    assert cluster.chosen(make_claim(request("req", 2))) == [["b", "c"]]
    assert cluster.chosen(make_claim(request_all())) == [["b", "c"]]


def test_a_malformed_node_selector_is_an_error(release: Release) -> None:
    bad = NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "Near", ["z"])])])
    cluster = Cluster(release, [make_slice("s", devices("a"), node_selector=bad)])
    with pytest.raises(AllocationError, match="gather pool information: failed to perform node selection for slice s"):
        cluster.allocate(make_claim(request()))


# --- generations and completeness -------------------------------------------------------------------------------


def test_only_the_newest_generation_of_a_pool_counts(release: Release) -> None:
    slices = [
        make_slice("s1", devices("old")),
        make_slice("s3", devices("newest"), generation=3),
        make_slice("s2", devices("newer"), generation=2),
    ]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["newest"]]
    assert Cluster(release, slices).allocate(make_claim(request("req", 2))) is None


def test_devices_of_an_incomplete_pool_are_not_allocated(release: Release) -> None:
    slices = [make_slice("s1", devices("a"), slices=2), make_slice("p", devices("b"), pool="other")]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["b"]]
    assert Cluster(release, slices).allocate(make_claim(request("req", 2))) is None


def test_slices_for_other_nodes_complete_a_pool(release: Release) -> None:
    slices = [
        make_slice("s1", devices("a"), slices=2),
        make_slice("s2", devices("b"), slices=2, node_name="node-2"),
    ]
    assert Cluster(release, slices).chosen(make_claim(request_all())) == [["a"]]


def test_a_pool_that_is_being_replaced_on_other_nodes_is_ignored(release: Release) -> None:
    slices = [
        make_slice("s1", devices("a"), slices=2),
        make_slice("s2", devices("b"), slices=2, node_name="node-2", generation=2),
        make_slice("p", devices("c"), pool="other"),
    ]
    assert Cluster(release, slices).chosen(make_claim(request_all())) == [["c"]]


def test_an_old_generation_that_is_complete_on_a_node_is_used_there(release: Release) -> None:
    slices = [make_slice("s1", devices("a")), make_slice("s2", devices("b"), node_name="node-2", generation=2)]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["a"]]


# --- validity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "slices",
    [
        [make_slice("s1", devices("a", "b"), slices=2), make_slice("s2", devices("b"), slices=2)],
        [make_slice("s1", [device("a", consumes={"set": {"memory": "1"}})])],
        [
            make_slice("s1", [device("a", consumes={"set": {"memory": "1"}})], slices=2),
            make_slice("s2", slices=2, shared_counters=[counter_set("set", cores="1")]),
        ],
        [
            make_slice("s1", devices("a"), slices=3),
            make_slice("s2", slices=3, shared_counters=[counter_set("set", cores="1")]),
            make_slice("s3", slices=3, shared_counters=[counter_set("set", cores="1")]),
        ],
        [
            make_slice("s1", devices("a"), slices=2),
            make_slice("s2", [device("b", consumes={"set": {"memory": "1"}})], slices=2, node_name="node-2"),
        ],
    ],
    ids=["duplicate device", "unknown set", "unknown counter", "duplicate set", "unknown set on another node"],
)
def test_an_invalid_pool_is_reported_when_nothing_else_can_be_allocated(
    release: Release, slices: list[ResourceSlice]
) -> None:
    with pytest.raises(PoolError) as raised:
        Cluster(release, slices).allocate(make_claim(request()))
    assert str(raised.value) == "invalid resource pools were encountered"
    healthy = make_slice("p", devices("x"), pool="other")
    assert Cluster(release, [*slices, healthy]).chosen(make_claim(request())) == [["x"]]


def test_equal_device_names_in_slices_for_different_nodes_are_valid(release: Release) -> None:
    slices = [
        make_slice("s1", devices("a"), slices=2),
        make_slice("s2", devices("a"), slices=2, node_name="node-2"),
    ]
    assert Cluster(release, slices).chosen(make_claim(request())) == [["a"]]


def test_counters_of_another_node_concern_all_nodes_in_1_36_only() -> None:
    slices = [
        make_slice("s1", devices("a")),
        make_slice("c", pool="other", node_name="node-2", slices=2, shared_counters=[counter_set("set", cores="1")]),
    ]
    assert Cluster(NEW, slices).chosen(make_claim(request_all())) == [["a"]]
    with pytest.raises(AllocationError, match="other is currently being updated"):
        Cluster(OLD, slices).allocate(make_claim(request_all()))
    assert Cluster(OLD, slices).chosen(make_claim(request())) == [["a"]]


def test_a_slice_with_compatibility_groups_makes_its_pool_incomplete_since_1_37() -> None:
    grouped = device("b", consumes_counters=[DeviceCounterConsumption("set", {}, compatibility_groups=["g"])])
    slices = [
        make_slice("s1", devices("a"), slices=3),
        make_slice("s2", [grouped], slices=3),
        make_slice("s3", slices=3, shared_counters=[counter_set("set", cores="1")]),
    ]
    assert Cluster(OLD, slices).chosen(make_claim(request("req", 2))) == [["a", "b"]]
    assert Cluster(NEW, slices).allocate(make_claim(request())) is None
    with pytest.raises(AllocationError, match="currently being updated"):
        Cluster(NEW, slices).allocate(make_claim(request_all()))


# --- order ------------------------------------------------------------------------------------------------------


def test_pools_are_sorted_by_driver_and_name_and_slices_by_name(release: Release) -> None:
    slices = [
        make_slice("s2", devices("b3"), driver="b", pool="p", slices=2),
        make_slice("s1", devices("b2", "b1"), driver="b", pool="p", slices=2),
        make_slice("s4", devices("a2"), driver="a", pool="q"),
        make_slice("s5", devices("a1"), driver="a", pool="p"),
    ]
    assert Cluster(release, slices).chosen(make_claim(request_all())) == [["a1", "a2", "b2", "b1", "b3"]]


def test_pools_with_binding_conditions_come_last(release: Release) -> None:
    slices = [
        make_slice("s1", [device("a", binding_conditions=["ready"]), device("b")], pool="p1"),
        make_slice("s2", devices("c"), pool="p2"),
    ]
    assert Cluster(release, slices).chosen(make_claim(request_all())) == [["c", "a", "b"]]


def test_devices_with_binding_conditions_are_left_alone_while_a_gate_is_off(release: Release) -> None:
    slices = [make_slice("s1", [device("a", binding_conditions=["ready"]), device("b")])]
    for gate in ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"):
        assert Cluster(release.with_gates({gate: False}), slices).chosen(make_claim(request())) == [["b"]]


# --- the index over time ----------------------------------------------------------------------------------------


def test_an_index_follows_slices_that_come_change_and_go(release: Release) -> None:
    index = SliceIndex(release)
    cluster = Cluster(release, index)
    claim = make_claim(request())
    assert cluster.chosen(claim) is None
    index.put(make_slice("s1", devices("a")))
    assert cluster.chosen(claim) == [["a"]]
    index.put(make_slice("s1", devices("b"), generation=2))
    assert cluster.chosen(claim) == [["b"]]
    index.put(make_slice("s2", devices("c"), generation=3, slices=2))
    assert cluster.chosen(claim) is None
    index.put(make_slice("s3", devices("d"), generation=3, slices=2, node_name="node-2"))
    assert cluster.chosen(claim) == [["c"]]
    assert cluster.chosen(claim, node=make_node("node-2")) == [["d"]]
    index.remove("s2")
    index.remove("s2")
    assert cluster.chosen(claim) == [["b"]]
    assert cluster.chosen(claim, node=make_node("node-2")) is None
    index.remove("s1")
    index.remove("s3")
    assert cluster.chosen(claim) is None
    assert len(index) == 0


def test_an_index_follows_counters_of_other_nodes() -> None:
    index = SliceIndex(OLD, [make_slice("s1", devices("a"))])
    counters = [counter_set("set", cores="1")]
    claim = make_claim(request_all())
    assert Cluster(OLD, index).chosen(claim) == [["a"]]
    index.put(make_slice("c", pool="other", node_name="node-2", slices=2, shared_counters=counters))
    with pytest.raises(AllocationError, match="other is currently being updated"):
        Cluster(OLD, index).allocate(claim)
    index.put(make_slice("d", devices("b"), pool="other", node_name="node-2", slices=2))
    assert Cluster(OLD, index).chosen(claim) == [["a"]]


def test_selectors_are_not_evaluated_again_for_slices_that_stay(release: Release) -> None:
    index = SliceIndex(release, [make_slice("s1", [device("a", {"model": "x"})])])
    kept = make_slice("s2", [device("b", {"model": "x"})], pool="other")
    index.put(kept)
    cluster = Cluster(release, index)
    claim = make_claim(request("req", 2, "model=x"))
    for _ in range(3):
        assert cluster.chosen(claim) == [["b", "a"]]
    index.put(kept)
    index.put(make_slice("s1", [device("a", {"model": "x"})]))
    assert cluster.chosen(claim) == [["b", "a"]]
    assert len(cluster.selectors.evaluated) == 3


def test_a_node_finds_slices_by_its_name_and_by_its_labels(release: Release) -> None:
    """However selectors name nodes, what is found is what a look at all slices would find."""
    by_name = NodeSelector([NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "In", ["node-1"])])])
    unlike = NodeSelector([NodeSelectorTerm(match_fields=[SelectorRequirement("metadata.name", "NotIn", ["node-1"])])])
    has_rack = NodeSelector([NodeSelectorTerm([SelectorRequirement("rack", "Exists")])])
    either = NodeSelector([*in_zone("z1").node_selector_terms, *has_rack.node_selector_terms])
    both = NodeSelector(
        [NodeSelectorTerm([SelectorRequirement("zone", "In", ["z1"]), SelectorRequirement("rack", "In", ["r"])])]
    )
    selectors = {
        "name": by_name,
        "unlike": unlike,
        "rack": has_rack,
        "either": either,
        "both": both,
        "zone": in_zone("z1", "z2"),
    }
    index = SliceIndex(release)
    for name, selector in selectors.items():
        index.put(make_slice(name, [device(name, binds_to_node=True)], pool=name, node_selector=selector))
    cluster = Cluster(release, index)

    def seen(name: str, **labels: str) -> list[str]:
        chosen = cluster.chosen(make_claim(request_all()), node=make_node(name, **labels))
        return sorted(chosen[0]) if chosen else []

    assert seen("node-1") == ["name"]
    assert seen("node-2") == ["unlike"]
    assert seen("node-2", zone="z1") == ["either", "unlike", "zone"]
    assert seen("node-2", zone="z2", rack="r") == ["either", "rack", "unlike", "zone"]
    assert seen("node-1", zone="z1", rack="r") == ["both", "either", "name", "rack", "zone"]
    for name in selectors:
        index.remove(name)
    assert seen("node-1", zone="z1", rack="r") == []


def test_a_node_finds_slices_by_what_their_devices_say(release: Release) -> None:
    """It finds a slice once, however many of its devices are for the node."""
    slices = {
        "names": [device("a", node_name="node-1"), device("b", node_name="node-2")],
        "zones": [device("c", node_selector=in_zone("z1")), device("d", node_selector=in_zone("z2"))],
        "both": [device("e", node_name="node-1"), device("f", node_selector=in_zone("z1")), device("g")],
        "all": [device("h", all_nodes=True), device("i", node_name="node-1")],
    }
    index = SliceIndex(release)
    for name, published in slices.items():
        index.put(make_slice(name, published, pool=name, per_device_node_selection=True))
    cluster = Cluster(release, index)

    def seen(name: str, **labels: str) -> str:
        chosen = cluster.chosen(make_claim(request_all()), node=make_node(name, **labels))
        return "".join(sorted(chosen[0])) if chosen else ""

    assert seen("node-1") == "aehi"
    assert seen("node-1", zone="z1") == "acefhi"
    assert seen("node-1", zone="z2") == "adehi"
    assert seen("node-2", zone="z1") == "bcfh"
    assert seen("node-3") == "h"
    index.remove("all")
    assert seen("node-3") == ""
    for name in slices:
        index.remove(name)
    assert seen("node-1", zone="z1") == ""


def test_nodes_that_can_use_the_same_devices_see_one_pool_and_others_share_its_counters() -> None:
    published = [
        device("a", node_selector=in_zone("z1"), consumes={"set": {"cores": "1"}}),
        device("b", node_selector=in_zone("z2"), consumes={"set": {"cores": "1"}}),
    ]
    index = SliceIndex(NEW, [make_slice("s", published, slices=2, per_device_node_selection=True)])
    index.put(make_slice("c", slices=2, all_nodes=True, shared_counters=[counter_set("set", cores="1")]))
    nodes = [make_node("node-1", zone="z1"), make_node("node-2", zone="z1"), make_node("node-3", zone="z2")]
    pools = [index.pools_of(node) for node in nodes]
    assert pools[0] is pools[1]
    assert pools[0] is index.pools_of(make_node("node-1", zone="z1"))
    (one,), (other,) = pools[0].pools, pools[2].pools
    assert one is not other
    assert one.counters is other.counters
    assert [device.name for device in (*one.accessible, *one.inaccessible)] == ["a", "b"]
    assert [device.name for device in (*other.accessible, *other.inaccessible)] == ["b", "a"]
