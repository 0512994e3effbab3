"""Pods that need a feature of the kubelet go only to nodes that declare it."""

from __future__ import annotations

import pytest

from kscheduler._fast import FEASIBLE, Verdicts
from kscheduler.api.decode import decode_object
from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugins.nodedeclaredfeatures import REASON, NodeDeclaredFeatures, needed_features
from kscheduler.framework.status import SKIP, unresolvable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod

RESTART = "RestartAllContainersOnContainerExits"
USERS = "UserNamespacesHostNetworkSupport"


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
    assert needed_features(pod(spec).spec) == needed


def test_a_pod_that_needs_nothing_is_not_filtered() -> None:
    assert NodeDeclaredFeatures().pre_filter(CycleState(), PodInfo(make_pod("p").obj())) == (None, SKIP)


def test_only_nodes_that_declare_the_feature_pass_in_both_forms() -> None:
    cache = Cache()
    cache.set_node(make_node("without").obj())
    cache.set_node(make_node("other").declared_feature(USERS).obj())
    cache.set_node(make_node("with").declared_feature(USERS).declared_feature(RESTART).obj())
    plugin, state, info = NodeDeclaredFeatures(), CycleState(), PodInfo(NEEDY)
    assert plugin.pre_filter(state, info) == (None, None)
    verdicts = Verdicts()
    verdicts.reset(cache.table.columns)
    plugin.filter_table(state, info, cache.table, verdicts, 1)
    expected = {"without": unresolvable(REASON), "other": unresolvable(REASON), "with": None}
    assert {node.name: plugin.filter(state, info, node) for node in cache.table} == expected
    passed = {node.name for node in cache.table if verdicts.code(node.row) == FEASIBLE}
    assert passed == {"with"}
    assert plugin.explain(state, info, 0) == unresolvable(REASON)
