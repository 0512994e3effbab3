from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, Pod, SelectorRequirement, TopologySpreadConstraint
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventResource,
    complete_registrations,
    matches,
)
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.podtopologyspread.plugin import MISSING_REASON, REASON, PodTopologySpread
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Code
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.framework_bench import Bench
from tests.support.spreads import HOSTNAME, spread

ZONE = "topology.kubernetes.io/zone"
WEB = LabelSelector(match_labels={"app": "web"})


def hard(key: str = ZONE, max_skew: int = 1, **fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(max_skew, key, "DoNotSchedule", **{"label_selector": WEB, **fields})


def soft(key: str = ZONE, max_skew: int = 1, **fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(max_skew, key, "ScheduleAnyway", **{"label_selector": WEB, **fields})


class Cluster:
    """Nodes a1, a2 in zone a and b1 in zone b, as long as a test does not say otherwise."""

    def __init__(self, *defaults: TopologySpreadConstraint, nodes: str = "a1 a2 b1", system: bool = True) -> None:
        self.bench = Bench({})
        self.owners = Owners()
        handle = Handle(
            table=self.bench.cache.table, rng=random.Random(1), bind=self.bench.handle.bind, owners=self.owners
        )
        plugin = PodTopologySpread(handle, None if system and not defaults else defaults)
        self.plugin = plugin
        self.bench._plugins = {point: [plugin] for point in ("preFilter", "filter", "preScore", "score")}
        self.bench.framework = self.bench.make()
        for name in nodes.split():
            node = make_node(name).label(HOSTNAME, name)
            self.bench.node(node if name.startswith("x") else node.label(ZONE, name[0]))
        self._placed = 0

    def place(self, *node_names: str, pod: PodBuilder | None = None) -> None:
        """A web pod on each of them."""
        for name in node_names:
            self._placed += 1
            builder = pod or make_pod(f"old{self._placed}").label(app="web")
            self.bench.place(builder.uid(f"old{self._placed}"), name)

    def decide(self, pod: Pod) -> Decision | Rejection:
        self.bench.state = CycleState()
        return self.bench.framework.schedule_pod(self.bench.state, PodInfo(pod))

    def feasible(self, *stated: TopologySpreadConstraint, pod: PodBuilder | None = None) -> str:
        found = self.decide(spread((pod or make_pod("p").label(app="web")).obj(), *stated))
        if isinstance(found, Rejection):
            return found.message
        verdicts = self.bench.framework.algorithm._verdicts
        return " ".join(sorted(self.bench.cache.table.at(row).name for row in verdicts.feasible_rows()))

    def scores(self, *stated: TopologySpreadConstraint, pod: PodBuilder | None = None) -> dict[str, int]:
        built = (pod or make_pod("p").label(app="web")).obj()
        found = self.decide(spread(built, *stated) if stated else built)
        assert isinstance(found, Decision)
        algorithm, table = self.bench.framework.algorithm, self.bench.cache.table
        rows = algorithm._verdicts.feasible_rows()
        return {table.at(row).name: algorithm._scores.total(row) for row in rows}


# --- hard -----------------------------------------------------------------------------------------------------------


def test_a_zone_takes_at_most_so_many_pods_more_than_the_emptiest() -> None:
    cluster = Cluster()
    assert cluster.feasible(hard()) == "a1 a2 b1"
    cluster.place("a1")
    assert cluster.feasible(hard()) == "b1"
    assert cluster.feasible(hard(max_skew=2)) == "a1 a2 b1"
    cluster.place("b1")
    assert cluster.feasible(hard()) == "a1 a2 b1"


def test_all_constraints_must_hold() -> None:
    cluster = Cluster(nodes="a1 a2 b1 b2")
    cluster.place("a1", "b1")
    assert cluster.feasible(hard(), hard(HOSTNAME)) == "a2 b2"
    cluster.place("a2")
    assert cluster.feasible(hard(), hard(HOSTNAME)) == "b2"


def test_a_pod_that_its_own_selector_does_not_match_may_go_where_others_may_not() -> None:
    cluster = Cluster()
    cluster.place("a1")
    assert cluster.feasible(hard(), pod=make_pod("p").label(app="db")) == "a1 a2 b1"


def test_rejections_say_what_kube_scheduler_says() -> None:
    cluster = Cluster(nodes="a1 a2 x1")
    cluster.place("a1", "a1")
    assert cluster.feasible(hard(min_domains=2)) == (f"0/3 nodes are available: 1 {MISSING_REASON}, 2 {REASON}.")
    found = cluster.decide(spread(make_pod("p").label(app="web").obj(), hard(min_domains=2)))
    assert isinstance(found, Rejection)
    statuses = found.diagnosis.node_statuses()
    assert statuses["a1"].code is Code.UNSCHEDULABLE
    assert statuses["x1"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_too_few_domains_count_as_an_empty_one() -> None:
    cluster = Cluster()
    cluster.place("a1", "b1")
    assert cluster.feasible(hard(min_domains=2)) == "a1 a2 b1"
    assert cluster.feasible(hard(min_domains=3)).startswith("0/3 nodes are available: 3 node(s)")


def test_terminating_pods_and_those_of_other_namespaces_do_not_count() -> None:
    cluster = Cluster()
    cluster.place("a1", pod=make_pod("old").label(app="web").terminating())
    cluster.place("a1", pod=make_pod("old", "elsewhere").label(app="web"))
    cluster.place("a1", pod=make_pod("old").label(app="db"))
    assert cluster.feasible(hard()) == "a1 a2 b1"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (LabelSelector(), "a1 a2 b1"),  # matches the pod, counts none
        (None, "a1 a2 b1"),
        (LabelSelector(match_expressions=[SelectorRequirement("app", "Exists")]), "b1"),
        (LabelSelector(match_expressions=[SelectorRequirement("app", "NotIn", ["db"])]), "b1"),
    ],
)
def test_selectors_count_as_in_kube_scheduler(selector: LabelSelector | None, expected: str) -> None:
    cluster = Cluster()
    cluster.place("a1")
    assert cluster.feasible(hard(label_selector=selector)) == expected


def test_match_label_keys_compare_with_pods_of_the_same_value() -> None:
    cluster = Cluster()
    cluster.place("a1", pod=make_pod("old").label(app="web", release="one"))
    constraint = hard(match_label_keys=["release", "absent"])
    assert cluster.feasible(constraint, pod=make_pod("p").label(app="web", release="one")) == "b1"
    assert cluster.feasible(constraint, pod=make_pod("p").label(app="web", release="two")) == "a1 a2 b1"
    assert cluster.feasible(constraint, pod=make_pod("p").label(app="web")) == "b1"


def test_nodes_that_the_pod_cannot_use_make_no_empty_domain() -> None:
    cluster = Cluster(nodes="a1 b1 c1")
    cluster.place("a1", "b1")
    pod = make_pod("p").label(app="web")
    assert cluster.feasible(hard(), pod=pod) == "c1"
    assert cluster.feasible(hard(), pod=pod.node_affinity_in(ZONE, ["a", "b"])) == "a1 b1 c1"
    assert cluster.feasible(hard(node_affinity_policy="Ignore"), pod=pod.node_affinity_in(ZONE, ["a", "b"])) == "c1"
    assert cluster.feasible(hard(), pod=pod.node_affinity_in(HOSTNAME, ["a1", "b1"])) == "a1 b1 c1"
    assert cluster.feasible(hard(), pod=pod.node_affinity("size", "Gt", ["no number"])) == "a1 b1 c1"


def test_tainted_nodes_are_left_out_if_the_constraint_says_so() -> None:
    cluster = Cluster(nodes="a1 b1")
    cluster.bench.node(make_node("c1").label(ZONE, "c").taint("key", "", "NoSchedule"))
    cluster.place("a1", "b1")
    pod = make_pod("p").label(app="web")
    assert cluster.feasible(hard(), pod=pod) == "c1"
    assert cluster.feasible(hard(node_taints_policy="Honor"), pod=pod) == "a1 b1 c1"
    tolerant = pod.toleration(key="key", operator="Exists")
    assert cluster.feasible(hard(node_taints_policy="Honor"), pod=tolerant) == "c1"


def test_labels_that_nodes_get_later_are_seen() -> None:
    cluster = Cluster(nodes="a1 x1")
    cluster.place("a1")
    pod = make_pod("p").label(app="web").node_affinity_in(HOSTNAME, ["a1", "x1"])
    assert cluster.feasible(hard(), pod=pod) == "a1"
    cluster.bench.node(make_node("x1").label(ZONE, "x").label(HOSTNAME, "x1"))
    assert cluster.feasible(hard(), pod=pod) == "x1"


# --- soft -----------------------------------------------------------------------------------------------------------


def test_emptier_zones_score_higher() -> None:
    cluster = Cluster(nodes="a1 a2 b1 x1")
    cluster.place("a1", "a2", "b1")
    # Weights are ln(2 zones + 2): zone a has 2 pods, 2.77 -> 3; zone b has 1, 1.39 -> 1. x1 has no zone.
    assert cluster.scores(soft()) == {"a1": 100 * (3 + 1 - 3) // 3, "a2": 33, "b1": 100, "x1": 0}


def test_hosts_are_scored_by_their_own_pods() -> None:
    cluster = Cluster()
    cluster.place("a1", "a1", "b1")
    # ln(3 hosts + 2) = 1.61: 3, 0 and 2
    assert cluster.scores(soft(HOSTNAME)) == {"a1": 0, "a2": 100, "b1": 33}


def test_only_feasible_domains_weigh() -> None:
    cluster = Cluster(nodes="a1 a2 b1 c1")
    cluster.place("a1", "a1", "b1", "c1", "c1", "c1")
    scores = cluster.scores(soft(), hard(HOSTNAME, max_skew=2))
    # c1 is out; ln(2 zones + 2) · 2 = 2.77 for zone a, 1.39 for zone b
    assert scores == {"a2": 33, "b1": 100}


def test_without_pods_all_nodes_are_as_good() -> None:
    assert Cluster().scores(soft()) == {"a1": 100, "a2": 100, "b1": 100}


# --- defaults -------------------------------------------------------------------------------------------------------


def test_pods_of_a_service_are_spread_by_default_even_over_nodes_without_a_zone() -> None:
    cluster = Cluster(nodes="a1 a2 b1 x1")
    cluster.place("a1")
    assert set(cluster.scores().values()) == {0}  # nothing owns the pod: the plugin has no say
    cluster.owners.set_service("default", "web", {"app": "web"})
    scores = cluster.scores()
    assert scores["a1"] < scores["a2"] < scores["b1"] <= scores["x1"]


def test_a_profiles_own_defaults_can_be_hard() -> None:
    cluster = Cluster(TopologySpreadConstraint(1, ZONE, "DoNotSchedule"))
    cluster.place("a1")
    cluster.owners.set_service("default", "web", {"app": "web"})
    pod = make_pod("p").label(app="web")
    assert isinstance(cluster.decide(pod.obj()), Decision)
    assert cluster.bench.framework.algorithm._verdicts.feasible_rows() == [2]
    assert cluster.feasible(soft(), pod=pod) == "a1 a2 b1"  # what the pod states replaces all defaults


def test_an_empty_list_of_defaults_leaves_pods_alone() -> None:
    cluster = Cluster(system=False)
    cluster.owners.set_service("default", "web", {"app": "web"})
    cluster.place("a1")
    assert set(cluster.scores().values()) == {0}


# --- what makes no sense --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (hard(max_skew=0), "maxSkew: expected 1..2147483647, got 0"),
        (soft(max_skew=-1), "maxSkew: expected 1..2147483647, got -1"),
        (hard(""), "topologyKey: expected the key of a node label, got none"),
        (
            TopologySpreadConstraint(1, ZONE, "Perhaps"),
            'whenUnsatisfiable: expected DoNotSchedule or ScheduleAnyway, got "Perhaps"',
        ),
        (hard(min_domains=0), "minDomains: expected 1..2147483647, got 0"),
        (hard(node_taints_policy="Maybe"), 'nodeTaintsPolicy: expected Honor or Ignore, got "Maybe"'),
        (
            soft(label_selector=LabelSelector(match_expressions=[SelectorRequirement("a", "Near", ["b"])])),
            'labelSelector.matchExpressions[0].operator: expected one of In, NotIn, Exists, DoesNotExist, got "Near"',
        ),
    ],
)
def test_a_constraint_that_makes_no_sense_is_the_pods_status(
    constraint: TopologySpreadConstraint, message: str
) -> None:
    found = Cluster().feasible(soft(), constraint)
    assert found == f"0/3 nodes are available: spec.topologySpreadConstraints[1].{message}."


@pytest.mark.parametrize(
    ("release", "itself"),
    [(RELEASE_1_36, EventResource.UNSCHEDULABLE_POD), (RELEASE_1_37, EventResource.TARGET_POD)],
    ids=["1.36", "1.37"],
)
def test_events_that_help_are_those_of_pods_labels_tolerations_and_nodes(
    release: Release, itself: EventResource
) -> None:
    registered = complete_registrations(Cluster().plugin.events_to_register(), release)

    def helps(resource: EventResource, action: Action) -> bool:
        return any(matches(registration.event, ClusterEvent(resource, action)) for registration in registered)

    assert helps(EventResource.ASSIGNED_POD, Action.DELETE)
    assert helps(itself, Action.UPDATE_POD_TOLERATION)
    assert helps(itself, Action.DELETE) is not release.splits_pod_events
    assert helps(EventResource.NODE, Action.UPDATE_NODE_LABEL)
    assert not helps(EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
    assert any(matches(registration.event, NODE_DELETE) for registration in registered)


def test_a_pod_that_changes_is_compiled_again() -> None:
    cluster = Cluster()
    cluster.place("a1")
    pod = spread(make_pod("p").label(app="web").obj(), hard())
    assert isinstance(cluster.decide(pod), Decision)
    other = replace(pod, metadata=replace(pod.metadata, namespace="elsewhere"))
    assert isinstance(cluster.decide(other), Decision)
    assert len(cluster.bench.framework.algorithm._verdicts.feasible_rows()) == 3
