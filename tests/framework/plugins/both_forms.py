"""Clusters as Hypothesis draws them, and the two forms of a plugin compared on them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from kscheduler._fast import FEASIBLE, Scores, Verdicts
from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, TableFilterPlugin, TableNormalizeScore, TableScorePlugin
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.status import SKIP, Code, code_of
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.affinities import with_pod_affinity
from tests.support.spreads import with_spread

CODE = 7
ZONES = ("a", "b", "c")
IMAGES = ("app:1", "registry/db:2", "big")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    node = make_node(name).label("kubernetes.io/hostname", name)
    node = node.capacity(
        cpu=draw(st.sampled_from(["0", "500m", "4", "64"])),
        memory=draw(st.sampled_from(["0", "1Gi", "32Gi"])),
        pods=draw(st.integers(0, 4)),
        **{"example.com/gpu": draw(st.sampled_from(["0", "2", "8"]))},
    )
    if draw(st.booleans()):
        node = node.label("zone", draw(st.sampled_from(ZONES)))
    if draw(st.booleans()):
        node = node.label("size", str(draw(st.integers(0, 20))))
    for index in range(draw(st.integers(0, 2))):
        node = node.taint(f"key{index}", draw(st.sampled_from(["x", "y"])), draw(st.sampled_from(EFFECTS)))
    if draw(st.integers(0, 5)) == 0:
        node = node.unschedulable()
    for image in IMAGES:
        if draw(st.booleans()):
            node = node.image(image if ":" in image else f"{image}:latest", draw(st.integers(0, 2_000_000_000)))
    return node.obj()


@st.composite
def pods(draw: st.DrawFn, name: str, node: str = "") -> Pod:
    pod = make_pod(name).uid(name).node(node).image(draw(st.sampled_from(IMAGES)))
    if draw(st.booleans()):
        pod = pod.req(cpu=draw(st.sampled_from(["100m", "2", "100"])), memory=draw(st.sampled_from(["10Mi", "4Gi"])))
    if draw(st.integers(0, 3)) == 0:
        pod = pod.req(**{"example.com/gpu": str(draw(st.integers(1, 10)))})
    if draw(st.integers(0, 3)) == 0:
        address = draw(st.sampled_from(["", "10.0.0.1", "10.0.0.2"]))
        pod = pod.host_port(draw(st.sampled_from([80, 443])), host_ip=address)
    if draw(st.booleans()):
        pod = pod.toleration(
            key=draw(st.sampled_from(["", "key0", "key1", "node.kubernetes.io/unschedulable"])),
            operator="Exists",
            effect=draw(st.sampled_from(["", *EFFECTS])),
        )
    kind = draw(st.integers(0, 5))
    if kind == 0:
        pod = pod.node_selector(zone=draw(st.sampled_from(ZONES)))
    elif kind == 1:
        pod = pod.node_affinity_in("zone", ["a", "b"])
    elif kind == 2:
        pod = pod.node_affinity_in("kubernetes.io/hostname", ["node0", "node3"])
    if draw(st.booleans()):
        pod = pod.preferred_node_affinity(draw(st.integers(1, 100)), "zone", [draw(st.sampled_from(ZONES))])
    if draw(st.integers(0, 3)) == 0:
        pod = pod.preferred_node_affinity(5, "kubernetes.io/hostname", ["node1"])
    pod = draw(with_pod_affinity(pod))
    return draw(with_spread(pod.obj()))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cache, PodInfo]:
    cache = Cache()
    count = draw(st.integers(1, 8))
    for index in range(count):
        cache.set_node(draw(nodes(f"node{index}")))
    for index in range(draw(st.integers(0, 6))):
        cache.set_pod(PodInfo(draw(pods(f"old{index}", f"node{draw(st.integers(0, count - 1))}"))))
    if draw(st.booleans()):  # leaves a dead row behind
        cache.remove_node(f"node{draw(st.integers(0, count - 1))}")
    return cache, PodInfo(draw(pods("new", draw(st.sampled_from(["", "", "", "node1"])))))


def plugins_at(cache: Cache, point: str, config: SchedulerConfig | None = None) -> list[object]:
    handle = Handle(table=cache.table, rng=random.Random(0))
    return [plugin for plugin, _ in build((config or default_config()).profiles[0], handle).get(point, [])]


def check_filters(cache: Cache, pod: PodInfo, config: SchedulerConfig | None = None) -> None:
    for plugin in plugins_at(cache, "filter", config):
        assert isinstance(plugin, TableFilterPlugin)
        state = CycleState()
        pre_filter = getattr(plugin, "pre_filter", None)
        if pre_filter is not None and pre_filter(state, pod)[1] == SKIP:
            continue
        verdicts = Verdicts()
        verdicts.reset(cache.table.columns)
        plugin.filter_table(state, pod, cache.table, verdicts, CODE)
        for node in cache.table:
            expected = plugin.filter(state, pod, node)
            if verdicts.code(node.row) == FEASIBLE:
                assert expected is None, (plugin.name, node.name)
            else:
                found = plugin.explain(state, pod, verdicts.detail(node.row))
                assert expected is not None, (plugin.name, node.name)
                assert (found.code, found.reasons) == (expected.code, expected.reasons), (plugin.name, node.name)


def check_scores(cache: Cache, pod: PodInfo, config: SchedulerConfig | None = None) -> None:
    for plugin in plugins_at(cache, "score", config):
        assert isinstance(plugin, TableScorePlugin)
        state = CycleState()
        pre_score = getattr(plugin, "pre_score", None)
        if pre_score is not None and code_of(pre_score(state, pod)) is Code.SKIP:
            continue
        verdicts, scores = Verdicts(), Scores()
        verdicts.reset(cache.table.columns)
        scores.reset(cache.table.columns)
        plugin.score_table(state, pod, cache.table, verdicts, scores)
        expected = {node.name: plugin.score(state, pod, node)[0] for node in cache.table}
        assert {node.name: scores.raw(node.row) for node in cache.table} == expected, plugin.name
        normalize = getattr(plugin, "normalize_score", None)
        if normalize is not None:
            assert isinstance(plugin, TableNormalizeScore)
            normalize(state, pod, expected)
            plugin.normalize_table(state, pod, cache.table, verdicts, scores)
            assert {node.name: scores.raw(node.row) for node in cache.table} == expected, plugin.name
