"""Counters against a walk over all pods: statuses, skips and scores agree through any sequence of changes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast import FEASIBLE, Scores, Verdicts
from kscheduler.api.pod_affinity import has_preferred_terms
from kscheduler.cache.cache import Cache
from kscheduler.config.releases import RELEASES
from kscheduler.config.types import InterPodAffinityArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.interpodaffinity.by_node import score_by_pair
from kscheduler.framework.plugins.interpodaffinity.own_terms import own_terms
from kscheduler.framework.plugins.interpodaffinity.plugin import InterPodAffinity
from kscheduler.framework.status import SKIP, Code, code_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.interpodaffinity.filter_walk import FilterWalk
from tests.framework.plugins.moves import check_moves
from tests.support.affinities import APPS, NAMESPACES, TEAMS, with_pod_affinity
from tests.support.checks import check_cache

NODES = 5
PODS = 6
CODE = 7


async def bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise AssertionError


class Cluster:
    """Changes drawn at random, and the questions after each of them."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.cache = Cache()
        release = self._draw(st.sampled_from(list(RELEASES.values())))
        self.quirk = release.matches_selectors_without_labels
        self.handle = Handle(self.cache.table, random.Random(0), bind_nothing, release=release)
        self.args = InterPodAffinityArgs(
            hard_pod_affinity_weight=self._draw(st.sampled_from([0, 1, 50])),
            ignore_preferred_terms_of_existing_pods=self._draw(st.booleans()),
        )
        self.plugin = InterPodAffinity(self.handle, self.args)
        for index in range(NODES):
            self.set_node(index)

    def set_node(self, index: int) -> None:
        node = make_node(f"node{index}")
        for key in ("zone", "rack"):
            value = self._draw(st.sampled_from(["", "a", "b"]))
            node = node.label(key, value) if value else node
        self.cache.set_node(node.obj())

    def set_namespace(self) -> None:
        name = self._draw(st.sampled_from(NAMESPACES[:3]))
        team = self._draw(st.sampled_from(["", *TEAMS]))
        if self._draw(st.integers(0, 4)) == 0:
            self.handle.namespaces.remove(name)
        else:
            self.handle.namespaces.set(name, {"team": team} if team else {})

    def pod(self, name: str, node_name: str = "") -> PodInfo:
        builder = make_pod(name, self._draw(st.sampled_from(NAMESPACES))).uid(name).node(node_name)
        if node_name and self._draw(st.integers(0, 5)) == 0:
            builder = builder.terminating()
        return PodInfo(self._draw(with_pod_affinity(builder)).obj())

    def change(self) -> None:
        kind = self._draw(st.integers(0, 9))
        node = self._draw(st.integers(0, NODES - 1))
        pod = f"pod{self._draw(st.integers(0, PODS - 1))}"
        if kind < 6:
            self.cache.set_pod(self.pod(pod, f"node{node}"))
        elif kind == 6:
            self.cache.remove_pod(pod)
        elif kind == 7:
            self.cache.remove_node(f"node{node}")
        elif kind == 8:
            self.set_node(node)
        else:
            self.set_namespace()

    # --- questions ---

    def check_filter(self, pod: PodInfo) -> None:
        state, table = CycleState(), self.cache.table
        own = own_terms(pod.affinity, self.handle.namespaces, matches_selectors_without_labels=self.quirk)
        walk = FilterWalk.of(pod, own, table, self.handle.namespaces)
        is_skipped = self.plugin.pre_filter(state, pod)[1] == SKIP
        assert is_skipped == (not own.affinity and not own.anti_affinity and not walk.existing)
        verdicts = Verdicts()
        verdicts.reset(table.columns)
        self.plugin.filter_table(state, pod, table, verdicts, CODE)
        for node in table:
            expected = self.plugin.filter(state, pod, node)
            assert (expected is None) == (
                walk.satisfies_affinity(pod, own, node.labels)
                and walk.satisfies_anti_affinity(own, node.labels)
                and walk.satisfies_existing(node.labels)
            ), node.name
            if verdicts.code(node.row) == FEASIBLE:
                assert expected is None, node.name
            else:
                assert self.plugin.explain(state, pod, verdicts.detail(node.row)) == expected, node.name

    def check_score(self, pod: PodInfo) -> None:
        state, table = CycleState(), self.cache.table
        own = own_terms(pod.affinity, self.handle.namespaces, matches_selectors_without_labels=self.quirk)
        pairs = score_by_pair(pod, own, table, self.handle.namespaces, self.args.hard_pod_affinity_weight)
        is_ignored = self.args.ignore_preferred_terms_of_existing_pods and not has_preferred_terms(pod.pod)
        is_skipped = code_of(self.plugin.pre_score(state, pod)) is Code.SKIP
        assert is_skipped == (is_ignored or not pairs)
        if is_skipped:
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


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_both_forms_agree_through_any_changes(data: st.DataObject) -> None:
    cluster = Cluster(data)
    for _ in range(data.draw(st.integers(0, 4))):
        for _ in range(data.draw(st.integers(1, 6))):
            cluster.change()
        pod = cluster.pod("new")
        cluster.check_filter(pod)
        cluster.check_score(pod)
    check_cache(cluster.cache)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_it_follows_pods_that_move_in_thought(seed: int) -> None:
    rng = random.Random(seed)
    cache = Cache()
    names = [f"n{index}" for index in range(4)]
    for name in names:
        cache.set_node(make_node(name).label(zone=rng.choice("ab"), host=name).obj())
    made = [_near_or_far(rng, make_pod(f"p{index}").uid(f"p{index}"), 0.3) for index in range(8)]
    for pod in made[:5]:
        cache.set_pod(PodInfo(pod.node(rng.choice(names)).obj()))
    incoming = PodInfo(_near_or_far(rng, make_pod("new"), 0.9).obj())
    there = cache.table.get(name := rng.choice(names))
    assert there is not None
    leaving = [other for other in there.pods.values() if rng.random() < 0.7]
    coming = [PodInfo(pod.obj()) for pod in made[5:] if rng.random() < 0.3]
    plugin = InterPodAffinity(Handle(cache.table, random.Random(0), bind_nothing), InterPodAffinityArgs())
    check_moves(cache, plugin, incoming, name, leaving, coming)


def _near_or_far(rng: random.Random, pod: PodBuilder, share: float) -> PodBuilder:
    """With a label, and up to two terms that mean others by it; each with this probability."""
    pod = pod.label(app=rng.choice(APPS))
    if rng.random() < share:
        pod = pod.pod_anti_affinity(rng.choice(["zone", "host"]), {"app": rng.choice(APPS)})
    if rng.random() < share / 2:
        for _ in range(rng.randint(1, 2)):
            pod = pod.pod_affinity(rng.choice(["zone", "host"]), {"app": rng.choice(APPS)})
    return pod
