"""A waiting pod is woken by what may help it, and left in peace by what cannot."""

from __future__ import annotations

import pytest

from kscheduler.api.objects import LabelSelector, Pod, SelectorRequirement
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.framework.plugins.interpodaffinity import hints as hints_module
from kscheduler.framework.plugins.interpodaffinity.hints import Hints
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod

WEB, DB = {"app": "web"}, {"app": "db"}
WAITING = make_pod("waiting").label(**DB)


def after_pod(
    waiting: PodBuilder,
    old: PodBuilder | None,
    new: PodBuilder | None,
    namespaces: Namespaces | None = None,
    release: Release = RELEASE_1_36,
) -> bool:
    made = Hints(namespaces or Namespaces(), tuple, release)
    return made.after_pod(waiting.obj(), old and old.obj(), new and new.obj())


def after_node(waiting: PodBuilder, old: NodeBuilder | None, new: NodeBuilder, *shunning: str) -> bool:
    return Hints(Namespaces(), lambda: shunning, RELEASE_1_36).after_node(waiting.obj(), old and old.obj(), new.obj())


def on_node(labels: dict[str, str], namespace: str = "default") -> PodBuilder:
    return make_pod("other", namespace).label(**labels).node("n")


def test_a_pod_that_the_affinity_requires_wakes_when_it_comes() -> None:
    waiting = WAITING.pod_affinity("zone", WEB)
    assert after_pod(waiting, None, on_node(WEB))
    assert not after_pod(waiting, None, on_node(DB))
    assert not after_pod(waiting, None, make_pod("unscheduled").label(**WEB))
    assert not after_pod(waiting.pod_affinity("zone", {"tier": "x"}), None, on_node(WEB))
    assert after_pod(waiting, on_node(DB), on_node(WEB))
    assert not after_pod(waiting, on_node(WEB), on_node(DB))


def test_the_last_of_a_series_wakes_the_next_first_one_when_it_goes() -> None:
    series = make_pod("waiting").label(**WEB).pod_affinity("zone", WEB)
    assert after_pod(series, on_node(WEB), None)
    assert not after_pod(WAITING.pod_affinity("zone", WEB), on_node(WEB), None)


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_a_pod_that_the_anti_affinity_excludes_wakes_when_it_goes_or_is_no_longer_excluded(release: Release) -> None:
    waiting = WAITING.pod_anti_affinity("zone", WEB)
    assert after_pod(waiting, on_node(WEB), None, release=release)
    assert not after_pod(waiting, on_node(DB), None, release=release)
    assert after_pod(waiting, on_node(WEB), on_node(DB), release=release)
    assert not after_pod(waiting, None, on_node(WEB), release=release)


@pytest.mark.parametrize(("release", "by_one_term"), [(RELEASE_1_36, False), (RELEASE_1_37, True)])
def test_of_several_terms_all_must_have_excluded_the_pod_in_1_36_and_any_in_1_37(
    release: Release, by_one_term: bool
) -> None:
    waiting = WAITING.pod_anti_affinity("zone", WEB).pod_anti_affinity("zone", {"tier": "x"})
    both = {**WEB, "tier": "x"}
    assert after_pod(waiting, on_node(WEB), None, release=release) is by_one_term
    assert after_pod(waiting, on_node(WEB), on_node(DB), release=release) is by_one_term
    assert after_pod(waiting, on_node(both), None, release=release)
    assert after_pod(waiting, on_node(both), on_node(DB), release=release)
    # One of two terms still excludes it: then all no longer do, but any does.
    assert after_pod(waiting, on_node(both), on_node(WEB), release=release) is not by_one_term
    shunning = on_node(WEB).pod_anti_affinity("zone", DB).pod_anti_affinity("zone", WEB)
    assert after_pod(WAITING, shunning, None, release=release) is by_one_term


def test_a_pod_that_shuns_the_waiting_one_wakes_it_when_it_goes() -> None:
    assert after_pod(WAITING, on_node(WEB).pod_anti_affinity("zone", DB), None)
    assert not after_pod(WAITING, on_node(WEB).pod_anti_affinity("zone", WEB), None)
    assert after_pod(WAITING, make_pod("assumed").pod_anti_affinity("zone", DB), None)


def test_namespaces_are_taken_into_account() -> None:
    namespaces = Namespaces({"shop": {"team": "x"}, "default": {"team": "y"}})
    waiting = WAITING.pod_affinity("zone", WEB, namespace_selector={"team": "x"})
    assert after_pod(waiting, None, on_node(WEB, "shop"), namespaces)
    assert not after_pod(waiting, None, on_node(WEB), namespaces)
    shunning = on_node(WEB).pod_anti_affinity("zone", DB, namespace_selector={"team": "y"})
    assert after_pod(WAITING, shunning, None, namespaces)


def test_a_change_of_the_waiting_pod_itself_and_one_nobody_describes_wake_it() -> None:
    assert after_pod(WAITING, WAITING, WAITING.label(app="web"))
    assert after_pod(WAITING, None, None)


def test_a_malformed_pod_is_woken_by_everything_on_nodes() -> None:
    broken = LabelSelector(match_expressions=[SelectorRequirement("app", "Like", ["web"])])
    assert after_pod(WAITING.pod_affinity("zone", broken), None, on_node(WEB))


def test_every_new_node_wakes() -> None:
    assert after_node(WAITING, None, make_node("n"))


def test_a_node_that_moves_in_a_topology_in_question_wakes() -> None:
    old, moved = make_node("n").label(zone="a", rack="1"), make_node("n").label(zone="b", rack="1")
    assert after_node(WAITING.pod_affinity("zone", WEB), old, moved)
    assert after_node(WAITING.pod_anti_affinity("zone", WEB), old, make_node("n").label(rack="1"))
    assert not after_node(WAITING.pod_affinity("rack", WEB), old, moved)
    assert after_node(WAITING.pod_affinity("rack", WEB), old, moved, "zone")
    assert not after_node(WAITING, old, old.taint("k"), "zone")


def test_compiled_terms_are_remembered_for_the_same_object_only_and_within_bounds() -> None:
    made = Hints(Namespaces(), tuple, RELEASE_1_36)
    changed = WAITING.pod_affinity("zone", DB).obj()
    assert made.after_pod(WAITING.pod_affinity("zone", WEB).obj(), None, on_node(WEB).obj())
    assert not made.after_pod(changed, None, on_node(WEB).obj())
    assert not made.after_pod(changed, None, on_node(WEB).obj())
    assert made.after_pod(changed, None, on_node(DB).obj())
    for number in range(hints_module.MAX_KEPT + 1):
        made._terms(Pod(metadata=make_pod(f"p{number}").obj().metadata, spec=changed.spec))
    assert len(made._compiled) <= hints_module.MAX_KEPT
