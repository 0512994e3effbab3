"""The slice index over time: what a change makes it forget, and which nodes it reports."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.devices import ResourceSlice
from kscheduler.api.objects import Node, NodeSelector, NodeSelectorTerm, SelectorRequirement
from kscheduler.config.releases import Release
from kscheduler.devices.allocator import AllocationError
from kscheduler.devices.slice_index import SliceIndex
from tests.devices.building import NEW, RELEASES, device, devices, in_zone, make_node, make_slice
from tests.parity.devices.generate import generate

NODES = [make_node("n1", zone="z1"), make_node("n2", zone="z1"), make_node("n3", zone="z2"), make_node("n4")]


def asked(*slices: ResourceSlice) -> SliceIndex:
    """Return an index that was asked about all nodes."""
    index = SliceIndex(NEW, slices)
    for node in NODES:
        index.pools_of(node)
    return index


def changed(index: SliceIndex, published: ResourceSlice) -> list[str] | None:
    """Publish a slice. Returns the nodes that the index reports then; None: all of them may see another pool."""
    before = index.node_changes.count
    index.put(published)
    found = index.node_changes.since(before)
    return None if found is None else sorted(found)


def of_zone(name: str, zone: str) -> ResourceSlice:
    return make_slice(name, devices("d"), pool=name, node_selector=in_zone(zone))


def test_a_changed_slice_concerns_the_nodes_that_see_its_pool() -> None:
    index = asked(of_zone("one", "z1"), of_zone("two", "z2"), make_slice("own", devices("d"), node_name="n4"))
    kept = index.pools_of(NODES[2])
    assert changed(index, of_zone("one", "z1")) == ["n1", "n2"]
    assert index.pools_of(NODES[2]) is kept


def test_nodes_that_a_changed_slice_leaves_or_comes_to_are_concerned() -> None:
    index = asked(of_zone("one", "z1"), of_zone("two", "z2"))
    assert changed(index, of_zone("one", "z2")) == ["n1", "n2", "n3"]
    by_name = make_slice("two", devices("d"), pool="two", node_name="n4")
    assert changed(index, by_name) == ["n3", "n4"]


def test_nodes_with_other_slices_of_the_pool_are_concerned() -> None:
    index = asked(
        make_slice("part1", devices("a"), pool="both", slices=2, node_name="n1"),
        make_slice("part2", devices("b"), pool="both", slices=2, node_name="n2"),
        of_zone("other", "z2"),
    )
    part3 = make_slice("part3", devices("c"), pool="both", generation=2, node_name="n4")
    assert changed(index, part3) == ["n1", "n2", "n4"]
    assert [pool.devices for pool in index.pools_of(NODES[0]).pools] == []


def test_devices_that_name_their_nodes_concern_these() -> None:
    index = asked(of_zone("other", "z2"))
    published = [device("a", node_name="n4"), device("b", node_selector=in_zone("z1"))]
    rack = make_slice("rack", published, pool="rack", per_device_node_selection=True)
    assert changed(index, rack) == ["n1", "n2", "n4"]
    everywhere = make_slice(
        "rack", [*published, device("c", all_nodes=True)], pool="rack", per_device_node_selection=True
    )
    assert changed(index, everywhere) is None


def test_the_first_slice_that_depends_on_labels_may_concern_all_nodes() -> None:
    """Until then the index did not look at labels, and may have old ones."""
    index = asked(make_slice("own", devices("d"), node_name="n1"))
    index.pools_of(make_node("n4", zone="z9"))
    assert changed(index, of_zone("one", "z9")) is None
    assert index.pools_of(make_node("n4", zone="z9")).pools


def test_nodes_with_a_fault_are_concerned_by_every_change() -> None:
    bad = NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "Near", ["z1"])])])
    index = SliceIndex(NEW, [make_slice("bad", devices("d"), pool="bad", node_selector=bad)])
    with pytest.raises(AllocationError):
        index.pools_of(NODES[0])
    before = index.node_changes.count
    index.remove("bad")
    assert index.node_changes.since(before) == ["n1"]
    assert not index.pools_of(NODES[0]).pools


def test_nodes_that_are_gone_are_forgotten() -> None:
    index = asked(of_zone("one", "z1"))
    index.forget_other_nodes({"n1", "n3"})
    assert index.known_nodes == 2
    assert changed(index, of_zone("one", "z1")) == ["n1"]


def shown(index: SliceIndex, node: Node) -> Any:
    """Return all about the pools of a node that decisions depend on."""
    try:
        found = index.pools_of(node)
    except AllocationError:
        return "malformed"
    return found.table(index.features) is None, [
        (
            str(pool),
            pool.is_incomplete,
            pool.fault,
            [device.name for device in pool.devices],
            [device.name for device in pool.accessible],
            pool.counters.totals,
        )
        for pool in found.pools
    ]


def _decoded(objects: object, kind: type) -> list:  # type: ignore[type-arg]
    return msgspec.json.decode(msgspec.json.encode(objects), type=kind)


@given(st.integers(0, 1 << 32), st.sampled_from(RELEASES))
@settings(max_examples=60, deadline=None)
def test_a_reader_that_looks_at_reported_nodes_alone_knows_all_pools(seed: int, release: Release) -> None:
    """The slices of two generated clusters take each other's places, and nodes get other labels."""
    rng = random.Random(seed)
    cases = [generate(each, release.version) for each in (seed, seed + 1)]
    published = [each for case in cases for each in _decoded(case.cluster["resourceSlices"], list[ResourceSlice])]
    nodes = {each.metadata.name: each for case in cases for each in _decoded(case.cluster["nodes"], list[Node])}
    index, present = SliceIndex(release), dict[str, ResourceSlice]()
    known: dict[str, Any] = {}
    position, relabelled = -1, set[str]()
    for _ in range(25):
        kind = rng.randrange(6)
        if kind == 0:
            node = rng.choice(list(nodes.values()))
            labels = {**(node.metadata.labels or {}), "zone": rng.choice("ab")}
            nodes[node.metadata.name] = replace(node, metadata=replace(node.metadata, labels=labels))
            relabelled.add(node.metadata.name)
        elif kind == 1 and present:
            name = rng.choice(list(present))
            index.remove(name)
            del present[name]
        else:
            each = replace(rng.choice(published))
            present.pop(each.metadata.name, None)
            present[each.metadata.name] = each
            index.put(each)
        if rng.random() < 0.3:
            continue
        reported = index.node_changes.since(position)
        for name in nodes if reported is None else {*reported, *relabelled} & nodes.keys():
            known[name] = shown(index, nodes[name])
        position, relabelled = index.node_changes.count, set()
        fresh = SliceIndex(release, present.values())
        assert known == {name: shown(fresh, node) for name, node in nodes.items()}
