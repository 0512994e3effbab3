"""Pods that need a feature of the kubelet go only to nodes that declare it."""

from __future__ import annotations

import random

import pytest

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.api.decode import decode_object
from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.nodedeclaredfeatures import REASON, NodeDeclaredFeatures
from kscheduler.framework.status import SKIP, unresolvable
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"
MOUNTS = "VolumeBindMountOptions"


def plugin_of(release: Release) -> NodeDeclaredFeatures:
    return NodeDeclaredFeatures(Handle(table=NodeTable(), rng=random.Random(0), release=release))


def pod(spec: str) -> Pod:
    text = f'{{"metadata": {{"name": "p", "namespace": "default", "uid": "u"}}, "spec": {spec}}}'
    return decode_object(text.encode(), Pod)


NEEDY = pod('{"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}')


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ('{"containers": [{"name": "c"}]}', set()),
        ('{"hostNetwork": true}', set()),
        ('{"hostUsers": false}', set()),
        ('{"hostNetwork": true, "hostUsers": true}', set()),
        ('{"hostNetwork": true, "hostUsers": false}', {USERS}),
        ('{"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}', set()),
        ('{"initContainers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]}', {RESTART}),
        (
            '{"hostNetwork": true, "hostUsers": false, '
            '"containers": [{"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}]}',
            {RESTART, USERS},
        ),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(spec: str, needed: set[str]) -> None:
    for release in RELEASES.values():
        assert plugin_of(release).needed_features(pod(spec).spec) == needed


@pytest.mark.parametrize(("release", "needed"), [(RELEASE_1_36, set()), (RELEASE_1_37, {MOUNTS})])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_options_of_bind_mounts_need_a_feature_in_1_37(release: Release, needed: set[str], containers: str) -> None:
    plain = '{"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"bindMountOptions": []}]}'
    mounting = '{"volumeMounts": [{"name": "v"}, {"name": "w", "bindMountOptions": ["noexec"]}]}'
    plugin = plugin_of(release)
    assert plugin.needed_features(pod(f'{{"{containers}": [{plain}]}}').spec) == set()
    pod_with_options = pod(f'{{"{containers}": [{plain}, {mounting}]}}')
    assert plugin.needed_features(pod_with_options.spec) == needed
    assert plugin.sign_pod(PodInfo(pod_with_options)) is (None if needed else True)


def test_where_the_feature_gate_is_off_pods_need_nothing() -> None:
    plugin = plugin_of(RELEASE_1_36.with_gates({"NodeDeclaredFeatures": False}))
    assert plugin.needed_features(NEEDY.spec) == set()


def test_a_pod_that_gets_options_of_bind_mounts_wakes_in_1_37() -> None:
    before, after = pod("{}"), pod('{"containers": [{"volumeMounts": [{"bindMountOptions": ["noexec"]}]}]}')
    wakes = {
        release: plugin_of(release).is_schedulable_after_pod_update(before, before, after)
        for release in (RELEASE_1_36, RELEASE_1_37)
    }
    assert wakes == {RELEASE_1_36: False, RELEASE_1_37: True}


def test_a_pod_that_needs_nothing_is_not_filtered() -> None:
    assert plugin_of(RELEASE_1_36).pre_filter(CycleState(), PodInfo(make_pod("p").obj())) == (None, SKIP)


def test_only_nodes_that_declare_the_feature_pass_in_both_forms() -> None:
    cache = Cache()
    cache.set_node(make_node("without").obj())
    cache.set_node(make_node("other").declared_feature(USERS).obj())
    cache.set_node(make_node("with").declared_feature(USERS).declared_feature(RESTART).obj())
    plugin, state, info = plugin_of(RELEASE_1_36), CycleState(), PodInfo(NEEDY)
    assert plugin.pre_filter(state, info) == (None, None)
    verdicts = Verdicts()
    verdicts.reset(cache.table.columns)
    plugin.filter_table(state, info, cache.table, verdicts, 1)
    expected = {"without": unresolvable(REASON), "other": unresolvable(REASON), "with": None}
    assert {node.name: plugin.filter(state, info, node) for node in cache.table} == expected
    passed = {node.name for node in cache.table if verdicts.code(node.row) == FEASIBLE}
    assert passed == {"with"}
    assert plugin.explain(state, info, 0) == unresolvable(REASON)
