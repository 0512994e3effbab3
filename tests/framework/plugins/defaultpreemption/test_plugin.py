"""DefaultPreemption at its extension points."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, DryRun
from kscheduler.framework.events import ASSIGNED_POD_DELETE, ClusterEvent, Registration, matches
from kscheduler.framework.interface import Handle, PostFilterResult
from kscheduler.framework.plugins.defaultpreemption.dry_run import WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import Code, Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import Bench, budget

NO_ROOM = unschedulable("Insufficient cpu")


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for work in bench.evictions.work:
        work.close()


def critical(cpu: str = "4") -> PodBuilder:
    return make_pod("critical").priority(1000).req(cpu=cpu)


def words(bench: Bench, pod: PodBuilder, statuses: dict[str, Status] | None = None) -> str:
    """Why nothing can be preempted."""
    result, status = bench.preempt(pod, statuses)
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE
    assert bench.evictions.work == []
    assert result == (PostFilterResult("") if "0/" in status.message else None)
    return status.message


# --- who may preempt --------------------------------------------------------------------------------------------------


def test_a_pod_that_shall_never_preempt_does_not(bench: Bench) -> None:
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    assert words(bench, critical().preemption_policy("Never")) == (
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert bench.chosen(critical().preemption_policy("PreemptLowerPriority")) == "n1"


def ending(name: str, priority: int, reason: str = "PreemptionByScheduler") -> PodBuilder:
    return make_pod(name).priority(priority).req(cpu="1").terminating().condition("DisruptionTarget", "True", reason)


def test_a_pod_whose_victims_are_still_ending_waits_for_them(bench: Bench) -> None:
    bench.nodes("n1", "n2")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n2")
    bench.place(ending("victim", 1), "n1")
    expected = "preemption: not eligible due to a terminating pod on the nominated node."
    assert words(bench, critical().nominated_node("n1")) == expected
    bench.nominations.nominate(PodInfo(critical().obj()), "n1")  # the status does not say so yet
    assert words(bench, critical()) == expected


@pytest.mark.parametrize(
    "other",
    [ending("equal", 1000), ending("evicted", 1, "EvictionByEvictionAPI"), make_pod("gone").priority(1).terminating()],
    ids=["of no lower priority", "for another reason", "by itself"],
)
def test_pods_that_end_for_other_reasons_are_not_waited_for(bench: Bench, other: PodBuilder) -> None:
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    bench.place(other, "n1")
    result, status = bench.preempt(critical("1").nominated_node("n1"))
    assert status is None or "terminating" not in status.message, result


def test_a_nominated_node_that_became_impossible_or_vanished_is_given_up(bench: Bench) -> None:
    bench.nodes("n1", "n2")
    bench.place(ending("victim", 1), "n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n2")
    tainted = {"n1": unresolvable("node(s) had untolerated taint(s)"), "n2": NO_ROOM}
    assert bench.chosen(critical().nominated_node("n1"), tainted) == "n2"
    assert bench.chosen(critical().nominated_node("n9"), tainted) == "n2"
    assert bench.chosen(critical().nominated_node("n1"), {"n2": NO_ROOM}) == "n2"


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (RELEASE_1_36, ""),
        (RELEASE_1_37, " preemption: found a potential placement for pod on node n1, preempting 2 victims"),
    ],
)
def test_a_preemption_is_reported_in_1_37(release: Release, text: str) -> None:
    bench = Bench(release=release)
    bench.nodes("n1")
    for name in ("one", "other"):
        bench.place(make_pod(name).priority(1).req(cpu="2"), "n1")
    info = PodInfo(critical().obj())
    bench.evictions.pods[info.key] = info.pod
    rejection = bench.with_post_filter().schedule_pod(CycleState(), info)
    for work in bench.evictions.work:
        work.close()
    assert isinstance(rejection, Rejection)
    assert rejection.nomination == "n1"
    assert rejection.status.message == f"0/1 nodes are available: 1 Insufficient cpu.{text}"


@pytest.mark.parametrize(("release", "violations"), [(RELEASE_1_36, 2), (RELEASE_1_37, 1)])
@pytest.mark.parametrize("form", [WhatIfDryRun, CompiledDryRun])
def test_budgets_behind_an_overdrawn_one_are_left_in_1_37(
    release: Release, violations: int, form: Callable[[Handle], DryRun]
) -> None:
    bench = Bench(release=release)
    bench.nodes("n1")
    bench.budgets.set(budget("none", 0, {"app": "both"}))
    bench.budgets.set(budget("one", 1, {"tier": "web"}))
    both = make_pod("both").label(app="both", tier="web").priority(2).req(cpu="2")
    bench.place(both, "n1")
    bench.place(make_pod("web").label(tier="web").priority(1).req(cpu="2"), "n1")
    pod, state = PodInfo(critical().obj()), CycleState()
    bench.framework.schedule_pod(state, pod)
    (found,) = form(bench.handle).search(state, pod, list(bench.cache.table), 1).candidates
    assert [victim.pod.metadata.name for victim in found.victims] == ["both", "web"]
    assert found.violations == violations


def test_the_pod_as_it_is_now_counts(bench: Bench) -> None:
    """It was changed while its cycle ran."""
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    info = PodInfo(critical().obj())
    bench.evictions.pods[info.key] = critical().preemption_policy("Never").obj()
    _, status = bench.plugin.post_filter(CycleState(), info, {"n1": NO_ROOM})
    assert status is not None
    assert status.message.endswith("preemptionPolicy=Never.")


@pytest.mark.parametrize("is_namesake", [False, True])
def test_a_pod_that_is_gone_preempts_nobody(bench: Bench, is_namesake: bool) -> None:
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    info = PodInfo(critical().obj())
    if is_namesake:
        other = replace(info.pod, metadata=replace(info.pod.metadata, uid="another"))
        bench.evictions.pods[info.key] = other
    result, status = bench.plugin.post_filter(CycleState(), info, {"n1": NO_ROOM})
    assert result is None
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, 'preemption: pod "critical" not found')


# --- where ------------------------------------------------------------------------------------------------------------


def test_the_cheapest_node_is_nominated_and_its_victims_are_ended(bench: Bench) -> None:
    bench.nodes("n1", "n2", "n3")
    for node_name, priority in (("n1", 30), ("n2", 10), ("n3", 20)):
        bench.place(make_pod(f"on-{node_name}").priority(priority).req(cpu="4"), node_name)
    assert bench.preempt(critical()) == (PostFilterResult("n2"), None)
    assert len(bench.evictions.work) == 1
    assert bench.evictions.measured == [("attempt", 1), ("victims", 1)]


def test_nodes_that_reject_for_good_are_not_tried(bench: Bench) -> None:
    bench.nodes("n1", "n2", "n3")
    for node_name, priority in (("n1", 1), ("n2", 2), ("n3", 3)):
        bench.place(make_pod(f"on-{node_name}").priority(priority).req(cpu="4"), node_name)
    # n1 had a taint, n2 was not looked at.
    assert bench.chosen(critical(), {"n1": unresolvable("tainted"), "n3": NO_ROOM}) == "n3"


def test_where_nothing_helps_every_node_says_why(bench: Bench) -> None:
    bench.nodes("n1", "n2", "n3", "n4")
    bench.place(make_pod("a").priority(1000).req(cpu="4"), "n1")
    bench.place(make_pod("b").priority(1).req(cpu="1"), "n2")
    bench.place(make_pod("vip").priority(2000).req(cpu="4"), "n2")
    statuses = {"n1": NO_ROOM, "n2": NO_ROOM, "n3": unresolvable("tainted"), "gone": NO_ROOM}
    assert words(bench, critical(), statuses) == (
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def test_where_no_node_can_be_helped_all_are_counted(bench: Bench) -> None:
    bench.nodes("n1", "n2")
    statuses = {"n1": unresolvable("tainted"), "n2": unresolvable("tainted")}
    assert words(bench, critical(), statuses) == (
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_where_everybody_is_as_important_no_node_is_tried_but_the_message_is_complete(bench: Bench) -> None:
    bench.nodes("n1", "n2", "n3")
    bench.place(make_pod("a").priority(1000).req(cpu="4"), "n1")
    bench.place(make_pod("b").priority(2000).req(cpu="4"), "n2")
    fixed = Fixed({})
    bench.plugin._dry_run = fixed  # type: ignore[assignment]
    statuses = {"n1": NO_ROOM, "n2": NO_ROOM, "n3": unresolvable("tainted"), "gone": NO_ROOM}
    assert words(bench, critical(), statuses) == (
        "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )
    assert fixed.asked == []


@pytest.mark.parametrize("is_lower_somewhere", [False, True])
def test_the_words_of_a_cycle_are_the_same_whether_nodes_were_tried_or_not(is_lower_somewhere: bool) -> None:
    """The verdicts of a real cycle, which are counted without a look at each node where that is enough."""
    bench = Bench()
    bench.nodes("n1", "n2", "n3")
    bench.nodes("small", cpu="1")
    for name in ("n1", "n2", "n3"):
        bench.place(make_pod(f"on-{name}").priority(1000).req(cpu="3"), name)
    if is_lower_somewhere:
        bench.place(make_pod("low").priority(1).req(cpu="1"), "small")
    bench.nominations.nominate(PodInfo(make_pod("vip").priority(5000).req(cpu="1").obj()), "n2")
    preempting = bench.with_post_filter()
    info = PodInfo(critical("2").obj())
    bench.evictions.pods[info.key] = info.pod
    found = preempting.schedule_pod(CycleState(), info)
    assert isinstance(found, Rejection)
    assert found.message == (
        "0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available: "
        "1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod."
    )


class Fixed:
    """Dry runs that were done beforehand."""

    def __init__(self, found: dict[str, Candidate | Status]) -> None:
        self.found = found
        self.asked: list[tuple[list[str], int]] = []

    def search(self, state: object, pod: object, nodes: list[object], wanted: int) -> object:
        from kscheduler.framework.dry_runs import Findings

        findings = Findings(wanted)
        names = [node.name for node in nodes]  # type: ignore[attr-defined]
        self.asked.append((names, wanted))
        for name in names:
            findings.add(name, self.found[name])
            if findings.is_enough:
                break
        return findings


def test_faults_matter_only_where_no_candidate_was_found(bench: Bench) -> None:
    bench.nodes("n1", "n2")
    victim = PodInfo(bench.place(make_pod("old").priority(1).req(cpu="4"), "n2"))
    fault = error_status("boom")
    bench.plugin._dry_run = Fixed({"n1": fault, "n2": Candidate("n2", (victim,))})  # type: ignore[assignment]
    assert bench.chosen(critical()) == "n2"
    for other, text in ((fault, "preemption: boom"), (error_status("bang"), "preemption: [boom, bang]")):
        bench.plugin._dry_run = Fixed({"n1": fault, "n2": other})  # type: ignore[assignment]
        result, status = bench.preempt(critical())
        assert result is None
        assert status is not None
        assert (status.code, status.message, status.plugin) == (Code.ERROR, text, "DefaultPreemption")


@pytest.mark.parametrize(
    ("nodes", "percentage", "absolute", "wanted"),
    [(5, 40, 1, 2), (5, 10, 100, 5), (5, 0, 3, 3), (5, 100, 0, 5), (5, 10, 0, 0), (300, 10, 100, 100), (20, 50, 3, 10)],
)
def test_so_many_candidates_are_looked_for_from_a_random_node_on(
    nodes: int, percentage: int, absolute: int, wanted: int
) -> None:
    bench = Bench(percentage=percentage, absolute=absolute)
    names = [f"n{index}" for index in range(nodes)]
    bench.nodes(*names)
    bench.place(make_pod("low").priority(1), "n0")
    bench.rng.start = nodes - 1
    fixed = Fixed(dict.fromkeys(names, NO_ROOM))
    bench.plugin._dry_run = fixed  # type: ignore[assignment]
    bench.preempt(critical())
    assert fixed.asked == [([names[-1], *names[:-1]], wanted)]


def test_the_search_wraps_around_and_stops_when_it_has_enough() -> None:
    bench = Bench(percentage=40, absolute=1)
    bench.nodes("n1", "n2", "n3", "n4", "n5")
    for number, priority in ((1, 9), (2, 5000), (3, 8), (4, 1), (5, 5000)):
        bench.place(make_pod(f"p{number}").priority(priority).req(cpu="4"), f"n{number}")
    bench.rng.start = 4
    # n5 (no), n1 (yes), n2 (no), n3 (yes): n4, the cheapest, is not tried.
    assert bench.chosen(critical()) == "n3"
    bench.evictions.work.pop().close()


def test_budgets_are_respected_where_another_node_will_do(bench: Bench) -> None:
    bench.nodes("n1", "n2")
    bench.budgets.set(budget("foo", 0, {"app": "foo"}))
    bench.place(make_pod("guarded").label(app="foo").priority(1).req(cpu="4"), "n1")
    bench.place(make_pod("free").priority(900).req(cpu="4"), "n2")
    assert bench.chosen(critical()) == "n2"


# --- what holds for equal pods ----------------------------------------------------------------------------------------


def crowded(release: Release = RELEASE_1_36) -> Bench:
    """A node on which a critical pod finds no room, though it may evict one of the pods there."""
    bench = Bench(release=release)
    bench.nodes("n1")
    bench.place(make_pod("low").req(cpu="1"), "n1")
    bench.place(make_pod("high").priority(2000).req(cpu="3"), "n1")
    return bench


def seen(bench: Bench, pod: PodBuilder) -> PodInfo:
    """The pod as the watch shows it."""
    info = PodInfo(pod.obj())
    bench.evictions.pods[info.key] = info.pod
    return info


@pytest.mark.parametrize("release", [RELEASE_1_36, RELEASE_1_37.with_gates({"GenericWorkload": True})])
@pytest.mark.parametrize("pod", [critical(), critical("5"), critical().preemption_policy("Never")])
def test_an_answer_is_repeated_with_all_effects_of_a_search(pod: PodBuilder, release: Release) -> None:
    searched, repeated = crowded(release), crowded(release)
    for bench in (searched, searched, repeated):
        words(bench, pod)
    repeats = repeated.plugin.repetition(seen(repeated, pod))
    assert repeats is not None
    assert repeats(seen(repeated, pod))
    assert (repeated.evictions.measured, repeated.rng.asked) == (searched.evictions.measured, searched.rng.asked)
    assert len(repeated.evictions.measured) >= 2


def test_an_answer_is_not_repeated_for_a_pod_that_has_changed_or_is_gone() -> None:
    bench = crowded()
    words(bench, critical())
    first = seen(bench, critical())
    repeats = bench.plugin.repetition(first)
    assert repeats is not None
    seen(bench, critical().label(app="new"))
    assert not repeats(first)
    del bench.evictions.pods[first.key]
    assert not repeats(first)
    assert [*bench.evictions.measured, *bench.rng.asked] == [("attempt", 1), 1], "a search follows, and counts itself"


def test_an_answer_with_victims_is_not_repeated(bench: Bench) -> None:
    bench.nodes("n1")
    bench.place(make_pod("low").req(cpu="4"), "n1")
    words(bench, critical("5"))
    assert bench.plugin.repetition(seen(bench, critical("5"))) is not None
    assert bench.chosen(critical()) == "n1"
    assert bench.plugin.repetition(seen(bench, critical())) is None


# --- while it is under way --------------------------------------------------------------------------------------------


def test_the_pod_is_held_until_its_preemption_is_over() -> None:
    bench = Bench()
    bench.nodes("n1")
    bench.place(make_pod("old").priority(1).req(cpu="4"), "n1")
    assert bench.plugin.pre_enqueue(PodInfo(critical().obj())) is None
    bench.chosen(critical())
    assert bench.plugin.pre_enqueue(PodInfo(critical().obj())) == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ("waiting for the preemption for this pod to be finished",),
        "DefaultPreemption",
    )
    assert bench.plugin.pre_enqueue(PodInfo(make_pod("other").obj())) is None
    bench.evictions.work.pop().close()


def test_it_is_asked_about_pods_that_go_and_leaves_the_answer_to_others(bench: Bench) -> None:
    (registration,) = bench.plugin.events_to_register()
    assert isinstance(registration, Registration)
    assert matches(registration.event, ASSIGNED_POD_DELETE)
    assert isinstance(registration.event, ClusterEvent)
    assert registration.hint is not None
    assert registration.hint(critical().obj(), make_pod("old").obj(), None) is False
