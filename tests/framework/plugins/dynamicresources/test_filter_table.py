"""Filter over all nodes by counts of free devices: it decides and allocates as the search on each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler._fast import FEASIBLE, Scores, Verdicts
from kscheduler.api.devices import DeviceClaim, DeviceConstraint, ResourceClaim, ResourceClaimSpec
from kscheduler.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
)
from kscheduler.config.releases import Release
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from tests.devices.building import NEW, RELEASES, alternative, first_available, request, request_all
from tests.framework.plugins.dynamicresources.bench import Bench, allocation, claim, pod_with
from tests.framework.plugins.dynamicresources.generated import (
    TIMED_OUT,
    GeneratedCluster,
    exotic_cluster,
    plain_cluster,
)
from tests.framework.plugins.dynamicresources.search_by_node import Decisions, allocated_on, begin, by_node

CODE = 7
GPU = "example_com__gpu"  # as pod_with wants it
seeds = st.integers(0, 1 << 32)
releases: st.SearchStrategy[Release] = st.sampled_from(RELEASES)


def by_table(plugin: DynamicResources, table: NodeTable, pod: PodInfo) -> Decisions | str:
    """The decisions of the table form, with what Reserve would allocate on each node."""
    begun = begin(plugin, pod)
    assert isinstance(begun, tuple)
    state, cycle = begun
    verdicts = Verdicts()
    verdicts.reset(table.columns)
    try:
        plugin.filter_table(state, pod, table, verdicts, CODE)
    except CycleFault as fault:
        return fault.status.message
    scores = Scores()
    scores.reset(table.columns)
    plugin.score_table(state, pod, table, verdicts, scores)
    found: Decisions = {}
    for node in table:
        if verdicts.code(node.row) != FEASIBLE:
            assert verdicts.code(node.row) == CODE
            found[node.name] = plugin.explain(state, pod, verdicts.detail(node.row))
            continue
        score = scores.raw(node.row)
        assert plugin.score(state, pod, node) == (score, None)
        assert plugin.reserve(state, pod, node.name) is None
        found[node.name] = score, allocated_on(cycle, node.name)
        for _, each in cycle.unallocated():
            plugin._devices.end_allocation(each.metadata.uid, for_all=True)
    return found


def check(cluster: GeneratedCluster, claims: Sequence[ResourceClaim]) -> None:
    """Compare the forms for a new pod with these claims."""
    amounts: dict[str, Any] = {GPU: str(cluster.rng.randint(1, 3))} if cluster.rng.random() < 0.3 else {}
    names = () if amounts and cluster.rng.random() < 0.7 else cluster.put_claims(claims)
    pod = pod_with(*names, **amounts)
    if not isinstance(begin(cluster.plugin, pod), tuple):
        return
    expected = by_node(cluster.plugin, cluster.cache.table, pod)
    if isinstance(expected, str) and TIMED_OUT in expected:  # counts may decide what a search does not find out in time
        return
    found = by_table(cluster.plugin, cluster.cache.table, pod)
    assert found == expected


def check_while_changing(cluster: GeneratedCluster, pods: Sequence[Sequence[ResourceClaim]]) -> None:
    for _ in range(4):
        for claims in pods:
            check(cluster, claims)
            cluster.change()
    fresh = cluster.new_plugin()._free
    kept = cluster.plugin._free
    queries = list(kept._queries)
    for one, other in zip(kept.refresh(queries), fresh.refresh(queries), strict=True):
        for node in cluster.cache.table:
            row = node.row
            assert (one.certain(row), one.most(row)) == (other.certain(row), other.most(row))
            assert (row in one.doubtful, row in one.unknown) == (row in other.doubtful, row in other.unknown)
        for number in (1, 2, 3, 5):
            assert one.too_few(number) == other.too_few(number)
            assert one.in_doubt(number) == other.in_doubt(number)


@example(1083, NEW)  # an attribute that a request derives fails on a node with too few devices
@given(seeds, releases)
@settings(max_examples=60, deadline=None)
def test_both_forms_agree_on_exotic_devices_while_they_change(seed: int, release: Release) -> None:
    check_while_changing(*exotic_cluster(seed, release))


@given(seeds, releases, st.booleans())
@settings(max_examples=60, deadline=None)
def test_both_forms_agree_on_plain_devices_while_they_change(seed: int, release: Release, with_counters: bool) -> None:
    check_while_changing(*plain_cluster(seed, release, with_counters=with_counters))


# --- where the search is asked ------------------------------------------------------------------------------------


class Searched(Bench):
    """Counts the nodes on which the table form asks the search."""

    def rows(self, pod: PodInfo) -> list[str]:
        begun = begin(self.plugin, pod)
        assert isinstance(begun, tuple)
        state, cycle = begun
        verdicts = Verdicts()
        verdicts.reset(self.cache.table.columns)
        self.plugin.filter_table(state, pod, self.cache.table, verdicts, CODE)
        return sorted(cycle.by_node)


def test_numbers_of_plain_devices_need_no_search() -> None:
    bench = Searched(NEW, nodes=3, gpus=2)
    bench.add(claim("c", request("req", 2)))
    assert bench.rows(pod_with("c")) == []
    bench.add(claim("d", request("req", 1, tolerations=[])))
    bench.add(claim("e", request("req", 1, "name=x")))  # a selector that fails: the search reports it
    with pytest.raises(CycleFault, match="no such key: name"):
        bench.rows(pod_with("e"))


def test_constraints_alternatives_and_all_are_left_to_the_search_where_enough_devices_are_free() -> None:
    bench = Searched(NEW, nodes=3, gpus=2)
    bench.add(claim("taken", allocation=allocation("n1/g0")))
    constrained = claim("c", request("req", 2))
    spec = DeviceClaim(constrained.spec.devices.requests, [DeviceConstraint(distinct_attribute="x/y")])
    bench.add(replace(constrained, spec=ResourceClaimSpec(spec)))
    bench.add(claim("d", first_available("r", alternative("a", 3), alternative("b", 1))))
    bench.add(claim("f", first_available("r", alternative("a", 1), alternative("b", 2))))
    bench.add(claim("e", request_all()))
    assert bench.rows(pod_with("c")) == []  # no device has the attribute
    assert bench.rows(pod_with("d")) == []
    assert bench.rows(pod_with("d", "f")) == ["n0", "n2"]
    assert bench.rows(pod_with("e")) == ["n0", "n2"]


def test_claims_with_equal_requests_are_searched_once_until_something_changes() -> None:
    bench = Searched(NEW, nodes=3, gpus=2)
    for name in "cde":
        bench.add(claim(name, request_all()))
    bench.add(claim("other", request_all("other")))
    assert bench.rows(pod_with("c")) == ["n0", "n1", "n2"]
    assert bench.rows(pod_with("d")) == []
    bench.add(claim("taken", allocation=allocation("n1/g0")))
    assert bench.rows(pod_with("d")) == []  # n1 was searched, and is rejected
    bench.devices.remove_claim("default", "taken")
    assert bench.rows(pod_with("e")) == ["n1"]
    bench.publish("n2", 1, generation=2)
    assert bench.rows(pod_with("e")) == ["n2"]
    assert bench.rows(pod_with("other")) == ["n0", "n1", "n2"]


def test_a_selector_is_evaluated_on_so_many_devices_at_a_time_and_the_search_asked_until_then() -> None:
    bench = Searched(NEW, nodes=4, gpus=0)
    for index in range(4):
        bench.publish(f"n{index}", 1)
    bench.plugin._free._max_evaluations, bench.plugin._free._evaluations_per_node = 2, 0
    bench.devices.set_class(replace(bench.devices.classes["gpu"]))
    bench.add(claim("c", request("req", 1, "name=x")))
    query_columns = bench.plugin._free
    with pytest.raises(CycleFault):
        bench.rows(pod_with("c"))
    (counts,) = query_columns._queries.values()
    assert len(counts.pending) == 2
    with pytest.raises(CycleFault):
        bench.rows(pod_with("c"))
    assert not counts.pending


def test_reserve_allocates_what_the_search_would_have_chosen_at_filter() -> None:
    bench = Bench(NEW, nodes=2, gpus=3)
    bench.add(claim("taken", allocation=allocation("n1/g0")))
    bench.add(claim("c", request("req", 2)))
    pod = pod_with("c")
    found = by_table(bench.plugin, bench.cache.table, pod)
    assert found == by_node(bench.plugin, bench.cache.table, pod)
    assert isinstance(found, dict)
    assert isinstance(found["n1"], tuple)
    _, allocated = found["n1"]
    assert allocated is not None
    chosen, _, _ = allocated
    assert [each.device for each in chosen[0].devices.results or ()] == ["g1", "g2"]


def on_node(*names: str) -> NodeSelector:
    only = [SelectorRequirement("metadata.name", "In", [name]) for name in names]
    return NodeSelector([NodeSelectorTerm(match_fields=[each]) for each in only])


@pytest.mark.parametrize(
    "selectors",
    [
        [on_node("n1")],
        [on_node("n1", "n2")],
        [on_node("n1", "gone"), on_node("n2", "n1")],
        [on_node("n1"), on_node("n2")],
        [None],
        [None, on_node("n0")],
        [NodeSelector([NodeSelectorTerm([SelectorRequirement("zone", "In", ["z1"])])]), on_node("n1")],
    ],
)
def test_both_forms_agree_where_allocated_claims_can_be_used(selectors: list[NodeSelector | None]) -> None:
    bench = Bench(NEW, nodes=3)
    names = [f"c{index}" for index in range(len(selectors))]
    for name, selector in zip(names, selectors, strict=True):
        bench.add(claim(name, allocation=replace(allocation(), node_selector=selector)))
    pod = pod_with(*names)
    assert by_table(bench.plugin, bench.cache.table, pod) == by_node(bench.plugin, bench.cache.table, pod)
    assert unavailable(bench, pod, in_table=True) == unavailable(bench, pod, in_table=False)


def unavailable(bench: Bench, pod: PodInfo, *, in_table: bool) -> set[int]:
    """The positions of the claims that PostFilter may deallocate."""
    begun = begin(bench.plugin, pod)
    assert isinstance(begun, tuple)
    state, cycle = begun
    if in_table:
        verdicts = Verdicts()
        verdicts.reset(bench.cache.table.columns)
        bench.plugin.filter_table(state, pod, bench.cache.table, verdicts, CODE)
    else:
        for node in bench.cache.table:
            bench.plugin.filter(state, pod, node)
    return cycle.unavailable


def test_a_node_that_is_gone_at_reserve_is_an_error() -> None:
    bench = Bench(NEW)
    bench.add(claim("c"))
    pod = pod_with("c")
    begun = begin(bench.plugin, pod)
    assert isinstance(begun, tuple)
    state, _ = begun
    verdicts = Verdicts()
    verdicts.reset(bench.cache.table.columns)
    bench.plugin.filter_table(state, pod, bench.cache.table, verdicts, CODE)
    bench.cache.remove_node("n0")
    status = bench.plugin.reserve(state, pod, "n0")
    assert status is not None
    assert status.message == 'node "n0" not found'
