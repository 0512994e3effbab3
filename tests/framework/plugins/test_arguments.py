"""What the arguments of the in-tree plugins change: strategies, ignored resources, added affinity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Node, Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import SKIP, Code, Status
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.both_forms import check_filters, check_scores, clusters, plugins_at

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GIBIBYTE = 1 << 30


def configure(plugin: str, args: str) -> SchedulerConfig:
    """The default profile with these arguments, given as YAML flow."""
    return parse_config(HEAD + f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")


def strategy(kind: str, resources: str = "[{name: cpu}, {name: memory}]", extra: str = "") -> SchedulerConfig:
    scoring = f"{{type: {kind}, resources: {resources}{extra}}}"
    return configure("NodeResourcesFit", f"{{scoringStrategy: {scoring}}}")


def cache_of(*nodes: Node, pods: tuple[Pod, ...] = ()) -> Cache:
    cache = Cache()
    for node in nodes:
        cache.set_node(node)
    for pod in pods:
        cache.set_pod(PodInfo(pod))
    return cache


def named(cache: Cache, name: str, config: SchedulerConfig, point: str = "filter") -> object:
    return next(plugin for plugin in plugins_at(cache, point, config) if getattr(plugin, "name", "") == name)


def scores(cache: Cache, pod: Pod, name: str, config: SchedulerConfig) -> dict[str, int]:
    plugin, state, info = named(cache, name, config, "score"), CycleState(), PodInfo(pod)
    assert plugin.pre_score(state, info) is None  # type: ignore[attr-defined]
    return {node.name: plugin.score(state, info, node)[0] for node in cache.table}  # type: ignore[attr-defined]


def filtered(cache: Cache, pod: Pod, name: str, config: SchedulerConfig) -> dict[str, Status | None]:
    plugin, state, info = named(cache, name, config), CycleState(), PodInfo(pod)
    plugin.pre_filter(state, info)  # type: ignore[attr-defined]
    return {node.name: plugin.filter(state, info, node) for node in cache.table}  # type: ignore[attr-defined]


# --- NodeResourcesFit: strategies -------------------------------------------------------------------------------

SHAPE = ", requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"
FALLING = (
    ", requestedToCapacityRatio: {shape: [{utilization: 10, score: 9}, {utilization: 37, score: 4}, "
    "{utilization: 90, score: 5}]}"
)
MIXED = "[{name: cpu, weight: 3}, {name: ephemeral-storage, weight: 2}, {name: example.com/gpu, weight: 5}]"


def half_full() -> Cache:
    return cache_of(
        make_node("empty").capacity(cpu="10", memory="10Gi").obj(),
        make_node("half").capacity(cpu="10", memory="10Gi").obj(),
        pods=(make_pod("old").req(cpu="5", memory="5Gi").node("half").obj(),),
    )


@pytest.mark.parametrize(
    ("kind", "extra", "empty", "half"),
    [
        ("LeastAllocated", "", 90, 40),
        ("MostAllocated", "", 10, 60),
        ("RequestedToCapacityRatio", SHAPE, 10, 60),
        ("RequestedToCapacityRatio", FALLING, 90, 44),  # 40 + 10·(60 − 37)/(90 − 37), cut
    ],
)
def test_a_strategy_rates_a_node_by_what_is_used_with_the_pod_there(
    kind: str, extra: str, empty: int, half: int
) -> None:
    pod = make_pod("new").req(cpu="1", memory=str(GIBIBYTE)).obj()
    assert scores(half_full(), pod, "NodeResourcesFit", strategy(kind, extra=extra)) == {"empty": empty, "half": half}


def test_a_resource_at_score_zero_takes_no_part_in_the_ratio() -> None:
    cache = cache_of(make_node("n").capacity(cpu="10", memory="1000Gi").obj())
    pod = make_pod("new").req(cpu="5", memory="1Mi").obj()
    assert scores(cache, pod, "NodeResourcesFit", strategy("RequestedToCapacityRatio", extra=SHAPE)) == {"n": 50}


def test_weights_and_extended_resources_count_as_configured() -> None:
    cache = cache_of(make_node("n").capacity(cpu="10", memory="10Gi", **{"example.com/gpu": 4}).obj())
    config = strategy("MostAllocated", "[{name: cpu, weight: 1}, {name: example.com/gpu, weight: 3}]")
    with_gpu = make_pod("new").req(cpu="1", **{"example.com/gpu": 2}).obj()
    assert scores(cache, with_gpu, "NodeResourcesFit", config) == {"n": (10 + 3 * 50) // 4}
    without = make_pod("new").req(cpu="1").obj()
    assert scores(cache, without, "NodeResourcesFit", config) == {"n": 10}


def test_storage_counts_though_the_pod_asks_for_none() -> None:
    cache = cache_of(
        make_node("n").capacity(cpu="10", ephemeral_storage="10Gi").obj(),
        pods=(make_pod("old").req(ephemeral_storage="5Gi").node("n").obj(),),
    )
    config = strategy("MostAllocated", "[{name: ephemeral-storage}]")
    assert scores(cache, make_pod("new").obj(), "NodeResourcesFit", config) == {"n": 50}


@settings(max_examples=150, deadline=None)
@given(
    clusters(),
    st.sampled_from(
        [
            strategy("LeastAllocated", MIXED),
            strategy("MostAllocated"),
            strategy("MostAllocated", MIXED),
            strategy("RequestedToCapacityRatio", extra=SHAPE),
            strategy("RequestedToCapacityRatio", MIXED, FALLING),
            configure("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: example.com/gpu}]}"),
            configure(
                "NodeResourcesBalancedAllocation",
                "{resources: [{name: cpu}, {name: memory}, {name: ephemeral-storage}, {name: example.com/gpu}]}",
            ),
        ]
    ),
)
def test_configured_scores_agree_in_both_forms(cluster: tuple[Cache, PodInfo], config: SchedulerConfig) -> None:
    check_scores(*cluster, config)


def test_more_resources_than_a_kernel_takes_are_refused_with_the_field() -> None:
    many = "[" + ", ".join(f"{{name: example.com/r{i}}}" for i in range(65)) + "]"
    with pytest.raises(ConfigError, match=r'"NodeResourcesFit": scoringStrategy.resources: expected at most 64'):
        plugins_at(Cache(), "score", strategy("MostAllocated", many))
    with pytest.raises(ConfigError, match=r'"NodeResourcesBalancedAllocation": resources: expected at most 64'):
        plugins_at(Cache(), "score", configure("NodeResourcesBalancedAllocation", f"{{resources: {many}}}"))


# --- NodeResourcesFit: ignored resources ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "reasons"),
    [
        ("{}", ("Insufficient cpu", "Insufficient example.com/gpu", "Insufficient other.org/tpu")),
        ("{ignoredResources: [example.com/gpu]}", ("Insufficient cpu", "Insufficient other.org/tpu")),
        ("{ignoredResourceGroups: [example.com]}", ("Insufficient cpu", "Insufficient other.org/tpu")),
        ("{ignoredResources: [cpu, other.org/tpu], ignoredResourceGroups: [example.com]}", ("Insufficient cpu",)),
    ],
)
def test_ignored_extended_resources_are_left_to_others(args: str, reasons: tuple[str, ...]) -> None:
    cache = cache_of(make_node("n").capacity(cpu="1", memory="1Gi").obj())
    pod = make_pod("p").req(cpu="2", **{"example.com/gpu": 1, "other.org/tpu": 1}).obj()
    status = filtered(cache, pod, "NodeResourcesFit", configure("NodeResourcesFit", args))["n"]
    assert status is not None
    assert status.reasons == reasons


def test_a_native_resource_cannot_be_ignored() -> None:
    cache = cache_of(make_node("n").capacity(cpu="1").obj())
    config = configure("NodeResourcesFit", "{ignoredResources: [hugepages-2Mi]}")
    status = filtered(cache, make_pod("p").req(**{"hugepages_2Mi": "2Mi"}).obj(), "NodeResourcesFit", config)["n"]
    assert status is not None
    assert status.reasons == ("Insufficient hugepages-2Mi",)


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_filters_with_ignored_resources_agree_in_both_forms(cluster: tuple[Cache, PodInfo]) -> None:
    check_filters(*cluster, configure("NodeResourcesFit", "{ignoredResourceGroups: [example.com]}"))


# --- NodeAffinity: addedAffinity --------------------------------------------------------------------------------

ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
OWN = "node(s) didn't match Pod's node affinity/selector"


def added(required: str = "", preferred: str = "") -> SchedulerConfig:
    parts = []
    if required:
        parts.append(f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {required}}}")
    if preferred:
        parts.append(f"preferredDuringSchedulingIgnoredDuringExecution: {preferred}")
    return configure("NodeAffinity", f"{{addedAffinity: {{{', '.join(parts)}}}}}")


ONLY_A = "[{matchExpressions: [{key: zone, operator: In, values: [a]}]}]"
PREFER_B = "[{weight: 3, preference: {matchExpressions: [{key: zone, operator: In, values: [b]}]}}]"
ONLY_NODE0 = "[{matchFields: [{key: metadata.name, operator: In, values: [node0]}]}]"
BY_HOSTNAME = "[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node0, node1]}]}]"


def zones() -> Cache:
    return cache_of(*(make_node(f"node-{zone}").label(zone=zone).capacity().obj() for zone in "abc"))


def reasons(found: dict[str, Status | None]) -> dict[str, str]:
    return {node: status.message if status else "" for node, status in found.items()}


def test_the_profile_keeps_all_its_pods_to_the_nodes_it_demands() -> None:
    found = filtered(zones(), make_pod("p").obj(), "NodeAffinity", added(ONLY_A))
    assert reasons(found) == {"node-a": "", "node-b": ENFORCED, "node-c": ENFORCED}
    status = found["node-b"]
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_the_profiles_demand_is_named_before_the_pods_own() -> None:
    pod = make_pod("p").node_selector(zone="b").obj()
    assert reasons(filtered(zones(), pod, "NodeAffinity", added(ONLY_A))) == {
        "node-a": OWN,
        "node-b": ENFORCED,
        "node-c": ENFORCED,
    }


def test_a_demand_without_terms_matches_no_node() -> None:
    found = filtered(zones(), make_pod("p").obj(), "NodeAffinity", added("[]"))
    assert set(reasons(found).values()) == {ENFORCED}


def test_the_profiles_preferences_add_to_the_pods() -> None:
    pod = make_pod("p").preferred_node_affinity(2, "zone", ["b", "c"]).obj()
    assert scores(zones(), pod, "NodeAffinity", added(preferred=PREFER_B)) == {"node-a": 0, "node-b": 5, "node-c": 2}
    assert scores(zones(), make_pod("p").obj(), "NodeAffinity", added(preferred=PREFER_B))["node-b"] == 3


def test_an_empty_added_affinity_changes_nothing() -> None:
    plugin, state = named(zones(), "NodeAffinity", added()), CycleState()
    assert plugin.pre_filter(state, PodInfo(make_pod("p").obj())) == (None, SKIP)  # type: ignore[attr-defined]


@settings(max_examples=150, deadline=None)
@given(
    clusters(),
    st.sampled_from(
        [
            added(ONLY_A, PREFER_B),
            added(ONLY_NODE0),
            added(BY_HOSTNAME, PREFER_B),
            added("[{matchExpressions: [{key: size, operator: Gt, values: ['5']}]}, {}]"),
        ]
    ),
)
def test_added_affinity_agrees_in_both_forms(cluster: tuple[Cache, PodInfo], config: SchedulerConfig) -> None:
    check_filters(*cluster, config)
    check_scores(*cluster, config)


def test_a_field_that_nodes_do_not_have_is_refused_with_its_path() -> None:
    config = added("[{matchFields: [{key: metadata.namespace, operator: In, values: [x]}]}]")
    path = r"addedAffinity\.requiredDuringSchedulingIgnoredDuringExecution\.nodeSelectorTerms\[0\]\.matchFields\[0\]"
    with pytest.raises(ConfigError, match=path):
        plugins_at(Cache(), "filter", config)
