"""Kernels decide about pods of namespaces without a quota, and the general lane about those of the others."""

from __future__ import annotations

from kscheduler.api.objects import Pod
from kscheduler.config.load import parse_config
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.capacityscheduling.bench import make_quota
from tests.support.lanes import Side

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}
"""


def side() -> Side:
    made = Side(parse_config(CONFIG))
    made.cache.follow(made.handle.elastic_quotas)
    for number in range(3):
        made.cache.set_node(make_node(f"n{number}").capacity(cpu="16", memory="16Gi").obj())
    return made


def pods(namespace: str, count: int = 4, start: int = 0) -> list[Pod]:
    return [make_pod(f"p{number}", namespace).req(cpu="1").obj() for number in range(start, start + count)]


def test_pods_without_a_quota_are_decided_by_kernels_and_counted_all_the_same() -> None:
    made = side()
    made.handle.elastic_quotas.set(make_quota("a", {"cpu": "2"}, {"cpu": "2"}))
    outcomes, by_lane = made.by_lane([*pods("b"), *pods("a"), *pods("b", start=4)])
    assert by_lane == 8
    assert [bool(outcome.node) for outcome in outcomes] == [True] * 6 + [False] * 2 + [True] * 4
    account = made.handle.elastic_quotas.accounts.get("b")
    assert account is not None
    assert account.used[0] == 8000


def test_a_quota_that_comes_or_goes_changes_the_lane_of_its_pods() -> None:
    made = side()
    assert made.by_lane(pods("a"))[1] == 4
    made.handle.elastic_quotas.set(make_quota("a", {"cpu": "6"}))
    outcomes, by_lane = made.by_lane(pods("a", start=4))
    assert by_lane == 0
    assert sum(bool(outcome.node) for outcome in outcomes) == 2
    made.handle.elastic_quotas.remove("a", "quota")
    assert made.by_lane(pods("a", start=8))[1] == 4
