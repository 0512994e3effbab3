from __future__ import annotations

from typing import Any

from kscheduler.api.objects import LabelSelector, Pod, TopologySpreadConstraint
from kscheduler.framework.plugins.podtopologyspread.constraints import Compiler
from kscheduler.framework.plugins.podtopologyspread.hints import Hints
from kscheduler.testing import NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.spreads import spread

WEB = LabelSelector(match_labels={"app": "web"})
ZONE = TopologySpreadConstraint(1, "zone", "DoNotSchedule", label_selector=WEB)
HINTS = Hints(Compiler((), False, lambda pod: None))


def waiting(*stated: TopologySpreadConstraint) -> Pod:
    return spread(make_pod("p").uid("p").label(app="web").obj(), *(stated or (ZONE,)))


def pods(old: PodBuilder | None, new: PodBuilder | None, pod: Pod | None = None) -> bool:
    return HINTS.after_pod(pod or waiting(), old and old.obj(), new and new.obj())


def nodes(old: NodeBuilder | None, new: NodeBuilder | None, pod: Pod | None = None) -> bool:
    return HINTS.after_node(pod or waiting(), old and old.obj(), new and new.obj())


PLACED = make_pod("other").uid("other").node("n1")
ZONED = make_node("n1").label("zone", "a")


def test_a_pod_that_the_selector_matches_comes_or_goes() -> None:
    assert pods(None, PLACED.label(app="web"))
    assert pods(PLACED.label(app="web"), None)
    assert not pods(None, PLACED.label(app="db"))
    assert not pods(PLACED, None)


def test_pods_of_other_namespaces_and_pods_without_a_node_do_not_count() -> None:
    elsewhere = make_pod("other", "elsewhere").uid("other").node("n1").label(app="web")
    assert not pods(None, elsewhere)
    assert not pods(elsewhere, None)
    pending = make_pod("other").uid("other").label(app="web")
    assert not pods(None, pending)
    assert pods(None, pending.nominated_node("n1"))
    assert pods(pending, None)  # it may have been assumed on a node


def test_a_pod_is_matched_no_longer_or_only_now() -> None:
    web, db = PLACED.label(app="web"), PLACED.label(app="db")
    assert pods(web, db)
    assert pods(db, web)
    assert not pods(web, web.label(tier="x"))


def test_new_tolerations_of_the_pod_itself_help_where_taints_count() -> None:
    itself = make_pod("p").uid("p").label(app="web")
    tolerant = itself.toleration(key="key", operator="Exists")
    honors = TopologySpreadConstraint(1, "zone", "DoNotSchedule", label_selector=WEB, node_taints_policy="Honor")
    assert pods(itself, tolerant, waiting(honors))
    assert not pods(itself, tolerant)
    assert pods(itself.label(app="db"), itself)


def test_nodes_with_all_keys_come_go_or_move() -> None:
    bare = make_node("n1")
    assert nodes(None, ZONED)
    assert nodes(ZONED, None)
    assert not nodes(None, bare)
    assert not nodes(bare, None)
    assert nodes(bare, ZONED)
    assert nodes(ZONED, bare)
    assert nodes(ZONED, ZONED.label("zone", "b"))
    assert not nodes(ZONED, ZONED.label("disk", "ssd"))
    assert nodes(ZONED, ZONED.taint("key"))
    assert not nodes(bare, bare.taint("key"))


def test_what_cannot_be_read_wakes_the_pod() -> None:
    wrong = waiting(TopologySpreadConstraint(0, "zone", "DoNotSchedule"))
    nothing: Any = object()
    assert pods(None, PLACED, wrong)
    assert nodes(None, make_node("n1"), wrong)
    assert HINTS.after_pod(waiting(), None, nothing)
    assert HINTS.after_node(waiting(), nothing, None)
