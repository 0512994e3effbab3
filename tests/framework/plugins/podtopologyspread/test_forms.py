"""Kernels over counters must answer as a walk over all nodes and pods does, also after pods and nodes have changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler._fast import FEASIBLE, Scores, Verdicts
from kscheduler.api.objects import LabelSelector, Pod, TopologySpreadConstraint
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraints
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.framework.plugins.podtopologyspread.plugin import PodTopologySpread
from kscheduler.framework.status import SKIP
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import NodeBuilder, make_node, make_pod
from tests.framework.plugins.moves import check_moves
from tests.framework.plugins.podtopologyspread.hard_walk import HardWalk
from tests.support.checks import check_cache
from tests.support.spreads import HOSTNAME, spread, with_spread

ZONE = "topology.kubernetes.io/zone"
NODES = 6
pytestmark = pytest.mark.slow


async def _no_bind(pod: PodInfo, node: str) -> None:
    raise AssertionError("nothing is bound here")


class World:
    def __init__(self, owners: Owners, defaults: Sequence[TopologySpreadConstraint] | None) -> None:
        self.cache = Cache()
        handle = Handle(table=self.cache.table, rng=random.Random(0), bind=_no_bind, owners=owners)
        self.plugin = PodTopologySpread(handle, defaults)

    def check(self, pod: Pod) -> None:
        """Both forms say the same of every node."""
        self._check_filter(PodInfo(pod))
        self._check_score(PodInfo(pod))

    def _check_filter(self, pod: PodInfo) -> None:
        table, state = self.cache.table, CycleState()
        if self.plugin.pre_filter(state, pod)[1] == SKIP:
            return
        constraints = self.plugin._constraints(state, pod)
        verdicts = Verdicts()
        verdicts.reset(table.columns)
        self.plugin.filter_table(state, pod, table, verdicts, 7)
        walk = HardWalk(constraints, Inclusion(pod.pod), table)
        for node in table:
            feasible = verdicts.code(node.row) == FEASIBLE
            found = None if feasible else self.plugin.explain(state, pod, verdicts.detail(node.row))
            assert found == self.plugin.filter(state, pod, node), node.name
            assert (found is None) == self._fits(walk, constraints, pod, node), node.name

    @staticmethod
    def _fits(walk: HardWalk, constraints: Constraints, pod: PodInfo, node: NodeInfo) -> bool:
        """By the definition."""
        labels = pod.pod.metadata.labels or {}
        return has_all_keys(node.labels, constraints.hard) and not any(
            walk.is_too_many(position, node.labels[each.topology_key], int(each.pods.selector.matches(labels)))
            for position, each in enumerate(constraints.hard)
        )

    def _check_score(self, pod: PodInfo) -> None:
        table, state = self.cache.table, CycleState()
        if self.plugin.pre_score(state, pod) == SKIP:
            return
        verdicts, scores = Verdicts(), Scores()
        verdicts.reset(table.columns)
        scores.reset(table.columns)
        self.plugin.score_table(state, pod, table, verdicts, scores)
        expected = {node.name: self.plugin.score(state, pod, node)[0] for node in table}
        assert {node.name: scores.raw(node.row) for node in table} == expected
        self.plugin.normalize_score(state, pod, expected)
        self.plugin.normalize_table(state, pod, table, verdicts, scores)
        assert {node.name: scores.raw(node.row) for node in table} == expected


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    node = make_node(name)
    if draw(st.integers(0, 9)):
        node = node.label(HOSTNAME, draw(st.sampled_from([name, name, name, "same"])))
    for key in ("zone", ZONE, "rack"):
        if draw(st.integers(0, 4)):
            node = node.label(key, draw(st.sampled_from(["a", "b", "c", ""])))
    if draw(st.integers(0, 3)) == 0:
        node = node.taint("key", "", draw(st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])))
    return node


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    builder = make_pod(name, draw(st.sampled_from(["default", "default", "default", "other"]))).uid(name)
    if draw(st.integers(0, 3)):
        builder = builder.label(app=draw(st.sampled_from(["web", "web", "db"])))
    if draw(st.booleans()):
        builder = builder.label(tier=draw(st.sampled_from(["front", "back"])))
    if draw(st.integers(0, 4)) == 0:
        builder = builder.terminating()
    if draw(st.integers(0, 3)) == 0:
        builder = builder.toleration(key="key", operator="Exists")
    kind = draw(st.integers(0, 6))
    if kind == 0:
        builder = builder.node_selector(zone=draw(st.sampled_from(["a", "b"])))
    elif kind == 1:
        builder = builder.node_affinity_in(HOSTNAME, ["n0", "n1", "n2"])
    elif kind == 2:
        builder = builder.node_names("n1", "n3")
    elif kind == 3:
        builder = builder.node_affinity("zone", "Gt", ["no number"])
    return draw(with_spread(builder.obj()))


changes = st.one_of(
    st.tuples(st.just("pod"), st.integers(0, 9), st.integers(0, NODES - 1)),
    st.tuples(st.just("pod"), st.integers(0, 9), st.integers(0, NODES - 1)),
    st.tuples(st.just("gone"), st.integers(0, 9)),
    st.tuples(st.just("node"), st.integers(0, NODES - 1)),
    st.tuples(st.just("node gone"), st.integers(0, NODES - 1)),
    st.tuples(st.just("check")),
)
DEFAULTS = (
    None,
    (),
    (
        TopologySpreadConstraint(1, "zone", "DoNotSchedule"),
        TopologySpreadConstraint(2, "rack", "ScheduleAnyway"),
        TopologySpreadConstraint(1, HOSTNAME, "ScheduleAnyway", node_taints_policy="Honor"),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(DEFAULTS), st.booleans())
def test_both_forms_agree(data: st.DataObject, defaults: Any, has_service: bool) -> None:
    owners = Owners()
    if has_service:
        owners.set_service("default", "web", {"app": "web"})
    world = World(owners, defaults)
    for index in range(data.draw(st.integers(1, NODES))):
        world.cache.set_node(data.draw(nodes(f"n{index}")).obj())
    for change in data.draw(st.lists(changes, max_size=12)):
        apply(world, data, *change)
        check_cache(world.cache)
    world.check(data.draw(pods("new")))


def apply(world: World, data: st.DataObject, what: str, *which: int) -> None:
    if what == "pod":
        pod = data.draw(pods(f"p{which[0]}"))
        world.cache.set_pod(PodInfo(_on(pod, f"n{which[1]}")))
    elif what == "gone":
        world.cache.remove_pod(f"p{which[0]}")
    elif what == "node":
        world.cache.set_node(data.draw(nodes(f"n{which[0]}")).obj())
    elif what == "node gone":
        world.cache.remove_node(f"n{which[0]}")
    else:
        world.check(data.draw(pods("new")))


def _on(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_it_follows_pods_that_move_in_thought(seed: int) -> None:
    rng = random.Random(seed)
    world = World(Owners(), ())
    names = [f"n{index}" for index in range(4)]
    for name in names:
        node = make_node(name).label("zone", rng.choice("ab")).label(HOSTNAME, name)
        world.cache.set_node((node.taint("key", "", "NoSchedule") if rng.random() < 0.2 else node).obj())
    made = [make_pod(f"p{index}").uid(f"p{index}").label(app=rng.choice(["web", "web", "db"])) for index in range(8)]
    for pod in made[:5]:
        world.cache.set_pod(PodInfo(pod.node(rng.choice(names)).obj()))
    incoming = PodInfo(spread(make_pod("new").label(app="web").obj(), *(_hard(rng) for _ in range(rng.randint(1, 2)))))
    there = world.cache.table.get(name := rng.choice(names))
    assert there is not None
    leaving = [other for other in there.pods.values() if rng.random() < 0.7]
    coming = [PodInfo(pod.obj()) for pod in made[5:] if rng.random() < 0.3]
    check_moves(world.cache, world.plugin, incoming, name, leaving, coming)


def _hard(rng: random.Random) -> TopologySpreadConstraint:
    """One that pods at rest and pods that move both count for: its selector has a requirement."""
    return TopologySpreadConstraint(
        rng.choice([1, 1, 2]),
        rng.choice(["zone", HOSTNAME]),
        "DoNotSchedule",
        LabelSelector(match_labels={"app": "web"}),
        min_domains=rng.choice([None, 2, 3]),
        node_taints_policy=rng.choice([None, "Honor"]),
    )


def test_pods_that_move_count_by_a_wider_rule_than_pods_at_rest() -> None:
    world = World(Owners(), ())
    for name in ("n1", "n2"):
        world.cache.set_node(make_node(name).label(HOSTNAME, name).obj())
    ending = PodInfo(make_pod("ending").uid("ending").label(app="web").node("n1").terminating().obj())
    world.cache.set_pod(ending)
    constraint = TopologySpreadConstraint(1, HOSTNAME, "DoNotSchedule", LabelSelector(match_labels={"app": "web"}))
    pod, state = PodInfo(spread(make_pod("p").label(app="web").obj(), constraint)), CycleState()
    assert world.plugin.pre_filter(state, pod)[1] is None
    first, second = (node for node in world.cache.table)
    assert world.plugin.filter(state, pod, second) is None
    # It did not count while it was there, and leaves a hole all the same.
    world.plugin.remove_pod(state, pod, ending, first)
    assert world.plugin.filter(state, pod, second) is not None
