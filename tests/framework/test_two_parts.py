"""A search in two parts: the feasible nodes are returned, extenders reject some, and the rest is as in one search."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.extender_verdict import EXTENDER, ExtenderVerdict, NodeVictims
from kscheduler.framework.interface import PostFilterResult, PostFilterSteps
from kscheduler.framework.search_outcomes import Decision, OpenRejection, Rejection, Shortlist
from kscheduler.framework.status import Code, Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.support.framework_bench import NO, Bench, Only, Table


class Evictor:
    """PostFilter that proposes node `a`, and goes with what is left."""

    name = "Evictor"

    def __init__(self) -> None:
        self.kept: object = None
        self.was_asked_at_once = False

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        self.was_asked_at_once = True
        return None, NO

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        self.kept = kept = yield (NodeVictims("a", (), 0),)
        if isinstance(kept, Status):
            return None, kept
        return (PostFilterResult(kept[0].node_name), None) if kept else (None, NO)


class Remark:
    """A PostFilter later in the chain."""

    name = "Remark"

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        return None, unschedulable(f"saw {sorted(statuses)}")


def pod(builder: PodBuilder | None = None) -> PodInfo:
    return PodInfo((builder or make_pod("p")).obj())


def shortlist(bench: Bench, *, proposes: bool = False) -> Shortlist | Rejection | OpenRejection:
    return bench.framework.algorithm.shortlist(CycleState(), pod(), proposes=proposes)


def ruled(bench: Bench, verdict: ExtenderVerdict, *, proposes: bool = False) -> Decision | Rejection | OpenRejection:
    return bench.framework.algorithm.schedule_with_verdict(CycleState(), pod(), verdict, proposes=proposes)


def passing(*names: str, **statuses: Status) -> ExtenderVerdict:
    return ExtenderVerdict(frozenset(names), {name: status.of(EXTENDER) for name, status in statuses.items()})


def test_the_shortlist_is_what_fits() -> None:
    bench = Bench({"filter": [Only("a", "c", status=NO)]})
    bench.nodes("a", "b", "c")
    found = shortlist(bench)
    assert isinstance(found, Shortlist)
    assert found.names == ["a", "c"]


def test_without_nodes_nobody_has_to_be_asked() -> None:
    found = shortlist(Bench({}))
    assert isinstance(found, Rejection)
    assert found.message == "no nodes available to schedule pods"


def test_only_nodes_that_passed_are_chosen_among() -> None:
    bench = Bench({"score": [Table({"a": 90, "b": 50, "c": 10})]})
    bench.nodes("a", "b", "c")
    assert ruled(bench, passing("b", "c")) == Decision("b", evaluated=3, feasible=2)


def test_shares_are_added_to_the_scores_of_plugins() -> None:
    bench = Bench({"score": [(Table({"a": 90, "b": 50, "c": 10}), 2)]})
    bench.nodes("a", "b", "c")
    verdict = ExtenderVerdict(frozenset("abc"), shares={"c": 161, "gone": 1000})
    found = ruled(bench, verdict)
    assert isinstance(found, Decision)
    assert found.node_name == "c"


def test_a_node_that_passed_and_does_not_fit_any_more_is_not_taken() -> None:
    bench = Bench({"filter": [Only("a", status=NO)]})
    bench.nodes("a", "b")
    assert ruled(bench, passing("a", "b", "gone")) == Decision("a", evaluated=2, feasible=1)


def test_reasons_of_the_extenders_are_counted_and_nodes_without_one_are_not() -> None:
    bench = Bench({"filter": [Only("a", "b", "c", "d", status=NO)]})
    bench.nodes("a", "b", "c", "d", "e")
    verdict = passing(a=unschedulable("busy"), b=unresolvable("old"), c=unschedulable("busy"), e=unschedulable("late"))
    found = ruled(bench, verdict)
    assert isinstance(found, Rejection)
    assert found.message == "0/5 nodes are available: 1 no, 1 old, 2 busy."
    assert EXTENDER in found.diagnosis.unschedulable_plugins
    codes = {name: status.code for name, status in found.diagnosis.node_statuses().items()}
    assert codes["a"] is codes["c"] is codes["e"] is Code.UNSCHEDULABLE
    assert codes["b"] is codes["d"] is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_extenders_are_not_blamed_for_what_filters_reject() -> None:
    bench = Bench({"filter": [Only(status=NO)]})
    bench.nodes("a")
    found = ruled(bench, passing("a"))
    assert isinstance(found, Rejection)
    assert EXTENDER not in found.diagnosis.unschedulable_plugins


@pytest.mark.parametrize("nominated", ["a", "b", "gone", ""])
def test_the_nominated_node_is_looked_at_alone(nominated: str) -> None:
    bench = Bench({"filter": [Only("a", status=NO)]})
    bench.nodes("a", "b")
    builder = make_pod("p").nominated_node(nominated) if nominated else make_pod("p")
    assert bench.framework.algorithm.nominated_fits(CycleState(), pod(builder)) == (nominated == "a")


def test_sampling_chooses_whom_others_are_asked_about_and_does_not_come_between_afterwards() -> None:
    bench = Bench({}, percentage_of_nodes_to_score=10)
    bench.nodes(*(f"n{index:03}" for index in range(400)))
    found = shortlist(bench)
    assert isinstance(found, Shortlist)
    assert len(found.names) == 100
    decision = ruled(bench, passing(found.names[-1]))
    assert isinstance(decision, Decision)
    assert decision.node_name == found.names[-1]


# --- preemption ---------------------------------------------------------------------------------------------------


def opened(bench: Bench) -> OpenRejection:
    bench.nodes("a", "b")
    found = shortlist(bench, proposes=True)
    assert isinstance(found, OpenRejection)
    assert found.proposal == (NodeVictims("a", (), 0),)
    return found


def test_victims_are_proposed_and_their_node_is_nominated_later() -> None:
    plugin = Evictor()
    found = opened(Bench({"filter": [Only(status=NO)], "postFilter": [plugin]}))
    ended = found.conclude(found.proposal)
    assert isinstance(ended, Rejection)
    assert (ended.nomination, plugin.was_asked_at_once) == ("a", False)


def test_nobody_is_asked_about_victims_unless_others_have_a_say() -> None:
    plugin = Evictor()
    bench = Bench({"filter": [Only(status=NO)], "postFilter": [plugin]})
    bench.nodes("a", "b")
    assert isinstance(shortlist(bench), Rejection)
    assert plugin.was_asked_at_once


def test_a_fault_of_the_extenders_that_were_asked_is_reported() -> None:
    found = opened(Bench({"filter": [Only(status=NO)], "postFilter": [Evictor()]}))
    ended = found.conclude(error_status("broken"))
    assert isinstance(ended, Rejection)
    assert ended.message == "0/2 nodes are available: 2 no. broken"


def test_later_plugins_of_the_chain_see_the_statuses_of_their_own_search() -> None:
    bench = Bench({"filter": [Only(status=NO)], "postFilter": [Evictor(), Remark()]})
    found = opened(bench)
    bench.nodes("c")
    bench.schedule()  # another pod's search
    ended = found.conclude(())
    assert isinstance(ended, Rejection)
    assert ended.message == "0/2 nodes are available: 2 no. no, saw ['a', 'b']"
