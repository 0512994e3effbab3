"""Worked examples: who may go where, what a place is worth, and when the plugin has nothing to say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.api.objects import LabelSelector, SelectorRequirement
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.config.types import InterPodAffinityArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.interpodaffinity.plugin import InterPodAffinity
from kscheduler.framework.status import SKIP, Code
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.framework_bench import Bench

HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


def bench(hard_weight: int = 1, ignores: bool = False, release: Release = RELEASE_1_36) -> Bench:
    """Nodes a1, a2 in zone a, b1 in zone b, and none without a zone."""
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignores)
    made = Bench.of(lambda handle: InterPodAffinity(handle, args), release=release)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        made.node(make_node(name).label(zone=zone))
    made.node(make_node("none"))
    return made


def web(name: str = "p", namespace: str = "default") -> PodBuilder:
    return make_pod(name, namespace).label(**WEB)


def reasons(made: Bench, pod: PodBuilder) -> str:
    return made.reject(pod).message


# --- required affinity ---


def test_a_pod_goes_to_the_domains_that_have_the_pods_it_requires() -> None:
    made = bench()
    made.place(web("old"), "a1")
    assert made.feasible(make_pod("p").pod_affinity("zone", WEB)) == ["a1", "a2"]
    assert made.feasible(make_pod("p").pod_affinity(HOST, WEB)) == ["a1"]
    assert reasons(made, make_pod("p").pod_affinity("zone", DB)) == f"0/4 nodes are available: 4 {AFFINITY}."


def test_one_pod_has_to_satisfy_all_terms() -> None:
    made = bench()
    made.place(web("old"), "a1")
    made.place(make_pod("other").label(**DB), "a1")
    both = make_pod("p").pod_affinity("zone", WEB).pod_affinity("zone", DB)
    assert made.feasible(both) == []
    made.place(make_pod("third").label(app="web", tier="x"), "b1")
    assert made.feasible(make_pod("p").pod_affinity("zone", WEB).pod_affinity(HOST, {"tier": "x"})) == ["b1"]


def test_the_first_of_a_series_goes_where_the_topology_is() -> None:
    made = bench()
    series = web().pod_affinity("zone", WEB)
    assert made.feasible(series) == ["a1", "a2", "b1"]
    made.place(web("old"), "none")  # in no domain, so that it does not count
    assert made.feasible(series) == ["a1", "a2", "b1"]
    made.place(web("older"), "b1")
    assert made.feasible(series) == ["b1"]


def test_the_first_of_a_series_has_to_be_one_of_it() -> None:
    assert bench().feasible(make_pod("p").pod_affinity("zone", WEB)) == []


# --- required anti-affinity ---


def test_a_pod_keeps_away_from_domains_with_pods_it_shuns() -> None:
    made = bench()
    made.place(web("old"), "a1")
    assert made.feasible(make_pod("p").pod_anti_affinity("zone", WEB)) == ["b1", "none"]
    made.place(web("older"), "b1")
    made.place(web("oldest"), "none")
    everywhere = make_pod("p").pod_anti_affinity("zone", WEB).pod_anti_affinity(HOST, WEB)
    assert reasons(made, everywhere) == f"0/4 nodes are available: 4 {ANTI_AFFINITY}."


def test_a_pod_is_kept_away_by_pods_that_shun_it() -> None:
    made = bench()
    made.place(make_pod("old").pod_anti_affinity("zone", WEB), "a1")
    assert made.feasible(web()) == ["b1", "none"]
    assert made.feasible(make_pod("p").label(**DB)) == ["a1", "a2", "b1", "none"]
    made.place(make_pod("older").pod_anti_affinity("zone", WEB), "b1")
    made.place(make_pod("oldest").pod_anti_affinity(HOST, WEB), "none")
    assert reasons(made, web()) == f"0/4 nodes are available: 4 {EXISTING}."


def test_the_first_reason_is_affinity_then_anti_affinity_then_the_others() -> None:
    made = bench()
    made.place(web("old").pod_anti_affinity("zone", WEB), "a1")
    pod = web().pod_affinity("zone", DB).pod_anti_affinity("zone", WEB)
    assert reasons(made, pod) == f"0/4 nodes are available: 4 {AFFINITY}."
    assert made.framework is not None
    made.place(make_pod("db").label(**DB), "a2")
    assert reasons(made, pod) == f"0/4 nodes are available: 2 {AFFINITY}, 2 {ANTI_AFFINITY}."


def test_a_pod_that_goes_makes_room_again() -> None:
    made = bench()
    made.place(web("old"), "a1")
    pod = make_pod("p").pod_anti_affinity("zone", WEB)
    assert made.feasible(pod) == ["b1", "none"]
    made.cache.remove_pod("uid-default-old")
    assert made.feasible(pod) == ["a1", "a2", "b1", "none"]


def test_a_node_that_changes_its_zone_takes_its_pods_along() -> None:
    made = bench()
    made.place(web("old"), "a1")
    pod = make_pod("p").pod_affinity("zone", WEB)
    assert made.feasible(pod) == ["a1", "a2"]
    made.node(make_node("a1").label(zone="b"))
    assert made.feasible(pod) == ["a1", "b1"]


# --- namespaces ---


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (lambda pod: pod.pod_affinity("zone", WEB), []),
        (lambda pod: pod.pod_affinity("zone", WEB, namespaces=["shop"]), ["a1", "a2"]),
        (lambda pod: pod.pod_affinity("zone", WEB, namespace_selector=LabelSelector()), ["a1", "a2"]),
        (lambda pod: pod.pod_affinity("zone", WEB, namespace_selector={"team": "x"}), ["a1", "a2"]),
        (lambda pod: pod.pod_affinity("zone", WEB, namespace_selector={"team": "y"}), []),
        (lambda pod: pod.pod_affinity("zone", WEB, namespaces=["a"], namespace_selector={"team": "x"}), ["a1", "a2"]),
    ],
)
def test_which_namespaces_a_term_means(term: Callable[[PodBuilder], PodBuilder], expected: list[str]) -> None:
    made = bench()
    made.handle.namespaces.set("shop", {"team": "x"})
    made.place(web("old", "shop"), "a1")
    assert made.feasible(term(make_pod("p"))) == expected


def test_a_namespace_that_changes_its_labels_is_seen_by_own_and_others_terms() -> None:
    made = bench()
    made.place(web("old", "shop").pod_anti_affinity("zone", DB, namespace_selector={"team": "x"}), "a1")
    own = make_pod("p").pod_anti_affinity("zone", WEB, namespace_selector={"team": "x"})
    others = make_pod("q", "back").label(**DB)
    assert len(made.feasible(own)) == len(made.feasible(others)) == 4
    made.handle.namespaces.set("shop", {"team": "x"})
    assert made.feasible(own) == ["b1", "none"]
    assert len(made.feasible(others)) == 4
    made.handle.namespaces.set("back", {"team": "x"})
    assert made.feasible(others) == ["b1", "none"]
    made.handle.namespaces.remove("shop")
    assert len(made.feasible(own)) == 4


ALL = ["a1", "a2", "b1", "none"]


@pytest.mark.parametrize(("release", "own"), [(RELEASE_1_36, ["b1", "none"]), (RELEASE_1_37, ALL)])
def test_a_namespace_nobody_reported_is_one_without_labels_and_in_1_37_none_for_own_terms(
    release: Release, own: list[str]
) -> None:
    absent = LabelSelector(match_expressions=[SelectorRequirement("team", "DoesNotExist")])
    made = bench(release=release)
    made.place(web("old", "shop").pod_anti_affinity("zone", DB, namespace_selector=absent), "a1")
    assert made.feasible(make_pod("p", "back").label(**DB)) == ["b1", "none"]
    assert made.feasible(make_pod("p").pod_anti_affinity("zone", WEB, namespace_selector=absent)) == own


@pytest.mark.parametrize(("release", "own"), [(RELEASE_1_36, ["b1", "none"]), (RELEASE_1_37, ALL)])
def test_a_selector_that_no_labels_satisfy_means_all_namespaces_in_own_terms_of_1_36_only(
    release: Release, own: list[str]
) -> None:
    absent = LabelSelector(match_expressions=[SelectorRequirement("team", "DoesNotExist")])
    made = bench(release=release)
    for name in ("shop", "back"):
        made.handle.namespaces.set(name, {"team": "x"})
    made.place(web("old", "shop").pod_anti_affinity("zone", DB, namespace_selector=absent), "a1")
    assert made.feasible(make_pod("p", "back").label(**DB)) == ALL
    assert made.feasible(make_pod("p").pod_anti_affinity("zone", WEB, namespace_selector=absent)) == own
    preferring = make_pod("p").preferred_pod_affinity(5, "zone", WEB, namespace_selector=absent)
    assert (made.scores(preferring)["a1"] > 0) is (release is RELEASE_1_36)
    made.handle.namespaces.set("shop", {})
    assert made.feasible(make_pod("p").pod_anti_affinity("zone", WEB, namespace_selector=absent)) == ["b1", "none"]
    assert made.scores(preferring)["a1"] > 0


# --- skip and bad input ---


def pre_filter(made: Bench, pod: PodBuilder) -> object:
    plugin = InterPodAffinity(made.handle, InterPodAffinityArgs())
    return plugin.pre_filter(CycleState(), PodInfo(pod.obj()))[1]


def test_the_filter_is_skipped_without_required_terms_on_either_side() -> None:
    made = bench()
    made.place(web("old").pod_affinity("zone", WEB).preferred_pod_anti_affinity(5, "zone", WEB), "a1")
    made.place(web("lost").pod_anti_affinity("zone", WEB), "none")  # rules out no node: it is in no zone
    assert pre_filter(made, web().preferred_pod_affinity(1, "zone", WEB)) == SKIP
    assert pre_filter(made, web().pod_affinity("zone", WEB)) is None
    assert pre_filter(made, web().pod_anti_affinity("zone", WEB)) is None
    made.place(web("older").pod_anti_affinity("zone", WEB), "b1")
    assert pre_filter(made, web()) is None
    assert pre_filter(made, make_pod("p")) == SKIP


def test_a_malformed_term_costs_its_pod_the_cycle_and_no_other_pod_anything() -> None:
    broken = LabelSelector(match_expressions=[SelectorRequirement("app", "Like", ["web"])])
    made = bench()
    made.place(web("old").pod_anti_affinity("zone", broken), "a1")
    assert len(made.feasible(web())) == 4
    rejection = made.reject(web().pod_anti_affinity("zone", broken))
    assert rejection.diagnosis.unschedulable_plugins == {"InterPodAffinity"}
    assert "parsing pod: spec.affinity.podAntiAffinity.required" in rejection.message
    assert 'operator: expected one of In, NotIn, Exists, DoesNotExist, got "Like"' in rejection.message


def test_a_term_without_topology_key_is_satisfied_nowhere_and_keeps_nobody_away() -> None:
    made = bench()
    made.place(web("old"), "a1")
    assert reasons(made, web().pod_affinity("", WEB)) == f"0/4 nodes are available: 4 {AFFINITY}."
    assert len(made.feasible(web().pod_anti_affinity("", WEB))) == 4


# --- score ---


def test_preferred_terms_add_and_subtract_by_domain() -> None:
    made = bench()
    made.place(web("old"), "a1")
    made.place(make_pod("db").label(**DB), "b1")
    pod = make_pod("p").preferred_pod_affinity(10, "zone", WEB).preferred_pod_anti_affinity(30, "zone", DB)
    # raw: 10 in zone a, -30 in zone b, 0 without a zone
    assert made.scores(pod) == {"a1": 100, "a2": 100, "b1": 0, "none": 75}


def test_terms_of_existing_pods_count_as_much() -> None:
    made = bench(hard_weight=5)
    made.place(make_pod("w").preferred_pod_affinity(20, "zone", WEB), "a1")
    made.place(make_pod("x").preferred_pod_anti_affinity(20, HOST, WEB), "a2")
    made.place(make_pod("y").pod_affinity("zone", WEB), "b1")
    # raw: a1 20, a2 20 - 20, b1 5, none 0
    assert made.scores(web()) == {"a1": 100, "a2": 0, "b1": 25, "none": 0}


def test_several_pods_and_terms_add_up_and_the_result_is_cut() -> None:
    made = bench()
    for name in ("u", "v"):
        made.place(web(name), "a1")
    made.place(web("w"), "b1")
    pod = make_pod("p").preferred_pod_affinity(1, "zone", WEB).preferred_pod_affinity(1, HOST, WEB)
    # raw: a1 2 + 2, a2 2, b1 1 + 1, none 0
    assert made.scores(pod) == {"a1": 100, "a2": 50, "b1": 50, "none": 0}
    # raw: a1 2, a2 2, b1 1, none 0
    assert made.scores(make_pod("p").preferred_pod_affinity(1, "zone", WEB)) == {
        "a1": 100,
        "a2": 100,
        "b1": 50,
        "none": 0,
    }


def pre_score(made: Bench, pod: PodBuilder, hard_weight: int = 1, ignores: bool = False) -> Code:
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignores)
    status = InterPodAffinity(made.handle, args).pre_score(CycleState(), PodInfo(pod.obj()))
    return Code.SUCCESS if status is None else status.code


def test_the_score_is_skipped_when_nothing_speaks_for_or_against_a_place() -> None:
    made = bench()
    assert pre_score(made, web().preferred_pod_affinity(1, "zone", WEB)) is Code.SKIP
    made.place(web("lost"), "none")
    assert pre_score(made, web().preferred_pod_affinity(1, "zone", WEB)) is Code.SKIP
    assert pre_score(made, web().preferred_pod_affinity(1, "nokey", WEB)) is Code.SKIP
    made.place(web("old"), "a1")
    assert pre_score(made, web().preferred_pod_affinity(1, "zone", WEB)) is Code.SUCCESS
    assert pre_score(made, web()) is Code.SKIP


def test_terms_for_and_against_a_place_are_not_nothing() -> None:
    made = bench()
    made.place(make_pod("w").preferred_pod_affinity(5, "zone", WEB), "a1")
    made.place(make_pod("x").preferred_pod_anti_affinity(5, "zone", WEB), "a1")
    assert pre_score(made, web()) is Code.SUCCESS
    assert set(made.scores(web()).values()) == {0}


def test_hard_terms_of_others_count_only_with_a_weight() -> None:
    made = bench()
    made.place(make_pod("y").pod_affinity("zone", WEB), "b1")
    assert pre_score(made, web(), hard_weight=0) is Code.SKIP
    assert pre_score(made, web(), hard_weight=1) is Code.SUCCESS


def test_ignoring_others_preferences_drops_hard_terms_too_unless_the_pod_has_preferences_itself() -> None:
    made = bench(ignores=True)
    made.place(make_pod("y").pod_affinity("zone", WEB), "b1")
    made.place(make_pod("x").preferred_pod_affinity(5, "zone", WEB), "a1")
    assert pre_score(made, web(), ignores=True) is Code.SKIP
    assert set(made.scores(web()).values()) == {0}
    assert made.scores(web().preferred_pod_affinity(1, "zone", DB)) == {"a1": 100, "a2": 100, "b1": 20, "none": 0}


def test_a_malformed_preference_fails_scoring_too() -> None:
    broken = LabelSelector(match_expressions=[SelectorRequirement("app", "Like", ["web"])])
    assert pre_score(bench(), web().preferred_pod_affinity(1, "zone", broken)) is Code.ERROR


# --- the keys of terms ---


def test_topology_keys_of_terms_that_are_gone_are_forgotten() -> None:
    made = bench()
    plugin = InterPodAffinity(made.handle, InterPodAffinityArgs())
    for number in range(100):
        made.place(make_pod(f"old{number}").pod_anti_affinity(f"key{number}", WEB), "a1")
        plugin.pre_filter(CycleState(), PodInfo(web().obj()))
        made.cache.remove_pod(f"uid-default-old{number}")
    assert len(plugin._index._forbidding) < 100


def test_the_plugin_runs_on_a_handle_alone() -> None:
    made = bench()
    handle = Handle(made.cache.table, made.handle.rng, made.handle.bind)
    assert InterPodAffinity(handle, InterPodAffinityArgs()).name == "InterPodAffinity"
