"""Clusters and claims made to take time or memory: both stay bounded."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from kscheduler.api.devices import DeviceConstraint
from kscheduler.config.releases import Release
from kscheduler.devices.allocator import SearchStopped
from kscheduler.devices.slice_index import SliceIndex
from kscheduler.devices.slices import ParsedSlice
from tests.devices.building import (
    Cluster,
    alternative,
    device,
    devices,
    first_available,
    make_claim,
    make_node,
    make_slice,
    request,
)


def stop_after(steps: int) -> Callable[[], bool]:
    left = iter(range(steps))
    return lambda: next(left, None) is None


def test_a_search_among_endless_combinations_can_be_stopped(release: Release) -> None:
    """No two of the last request's devices have the same rack, however the first one's 16 of 128 are chosen."""
    published = [device(f"d{i:03}", {"rack": i}) for i in range(128)]
    constraint = DeviceConstraint(["last"], match_attribute="gpu.example.com/rack")
    claim = make_claim(request("first", 16), request("last", 2), constraints=[constraint])
    with pytest.raises(SearchStopped):
        Cluster(release, [make_slice("s", published)]).allocate(claim, should_stop=stop_after(3000))


def test_a_search_among_endless_alternatives_can_be_stopped(release: Release) -> None:
    requests = [first_available(f"r{i}", *(alternative(f"a{j}") for j in range(8))) for i in range(12)]
    cluster = Cluster(release, [make_slice("s", devices(*(f"d{i}" for i in range(11))))])
    with pytest.raises(SearchStopped):
        cluster.allocate(make_claim(*requests), should_stop=stop_after(3000))


def test_nothing_is_kept_of_a_pool_that_is_published_again_and_again(release: Release) -> None:
    index = SliceIndex(release, [make_slice("other", devices("x"), pool="other", node_name="node-2")])
    cluster = Cluster(release, index)
    for generation in range(100):
        index.put(make_slice("s", [device("a", {"model": "m"})], generation=generation))
        assert cluster.chosen(make_claim(request("req", 1, "model=m"))) == [["a"]]
        assert cluster.chosen(make_claim(request()), node=make_node("node-2")) == [["x"]]
    gc.collect()
    # Those of other tests may still be referred to by a traceback.
    mine = [each for each in gc.get_objects() if type(each) is ParsedSlice and each.generation >= 50]
    assert len(mine) == 1
    assert len(index) == 2


def test_of_ever_new_expressions_only_the_latest_answers_are_kept(release: Release) -> None:
    index = SliceIndex(release, [make_slice("s", [device("a", {"model": "m"}), device("b", {"model": "m"})])])
    cluster = Cluster(release, index)
    for i in range(500):
        assert cluster.allocate(make_claim(request("req", 1, f"model={i}"))) is None
    before = len(cluster.selectors.evaluated)
    for i in (499, 450):
        assert cluster.allocate(make_claim(request("req", 1, f"model={i}"))) is None
    assert len(cluster.selectors.evaluated) == before
    assert cluster.allocate(make_claim(request("req", 1, "model=400"))) is None
    assert len(cluster.selectors.evaluated) == before + 2


def test_128_devices_of_32_attributes_are_looked_at_once_for_an_expression(release: Release) -> None:
    attributes = {f"a{i}": f"v{i}" for i in range(31)}
    published = [device(f"d{i}", {**attributes, "model": "y"}) for i in range(128)]
    cluster = Cluster(release, [make_slice("s", published, all_nodes=True)])
    allocator = cluster.allocator()
    for i in range(50):
        assert allocator.allocate(make_node(f"n{i}"), [make_claim(request("req", 1, "model=x"))]) is None
    assert len(cluster.selectors.evaluated) == 128
