"""From a profile to plugins at extension points."""

from __future__ import annotations

import random

from kscheduler.config.load import default_config, parse_config
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.registry import IN_TREE, build, known_plugins
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

# In kube-scheduler's order; further plugins come between and after.
FIRST_FILTERS = ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"]
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


async def bind_nothing(pod: PodInfo, node_name: str) -> None:
    raise AssertionError


def points_of(text: str = "") -> dict[str, list[tuple[str, int]]]:
    config = parse_config(HEAD + text) if text else default_config()
    built = build(config.profiles[0], Handle(NodeTable(), random.Random(0), bind_nothing))
    return {point: [(plugin.name, weight) for plugin, weight in entries] for point, entries in built.items()}


def test_the_default_profile_runs_kube_schedulers_plugins_in_its_order_with_its_weights() -> None:
    points = points_of()
    filters = [name for name, _ in points["filter"]]
    assert [name for name in filters if name in FIRST_FILTERS] == FIRST_FILTERS
    scores = [(name, weight) for name, weight in points["score"] if name in WEIGHTS]
    assert scores == list(WEIGHTS.items())
    assert points["queueSort"] == [("PrioritySort", points["queueSort"][0][1])]
    assert [name for name, _ in points["bind"]] == ["DefaultBinder"]


def test_one_plugin_object_serves_all_its_points() -> None:
    handle = Handle(NodeTable(), random.Random(0), bind_nothing)
    built = build(default_config().profiles[0], handle)
    fits = {id(plugin) for entries in built.values() for plugin, _ in entries if plugin.name == "NodeResourcesFit"}
    assert len(fits) == 1


def test_disabled_plugins_do_not_run_and_weights_are_the_profiles() -> None:
    text = "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: ImageLocality}, {name: NodeAffinity}], "
    points = points_of(text + "enabled: [{name: NodeAffinity, weight: 7}]}}}]\n")
    scores = dict(points["score"])
    assert "ImageLocality" not in scores
    assert scores["NodeAffinity"] == 7


def test_the_known_plugins_are_those_in_the_tree() -> None:
    assert set(known_plugins()) == set(IN_TREE)
