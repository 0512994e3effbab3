"""The search of a cycle: order, skipping, sampling, selection, faults and the words for a pod that fits nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import Verdicts
from kscheduler.errors import PluginError
from kscheduler.framework.algorithm import feasible_nodes_to_find
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import PostFilterResult, PreFilterResult
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import SKIP, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.support.framework_bench import NO, Bench, Only, Table


class Names:
    """PreFilter: these nodes only, or this status."""

    def __init__(self, *names: str, name: str = "Names", status: Status | None = None) -> None:
        self.name = name
        self._names = frozenset(names)
        self._status = status
        self.calls = 0

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        self.calls += 1
        return (None if self._status else PreFilterResult(self._names)), self._status


class Halved(Table):
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        for node in scores:
            scores[node] //= 2
        return None


# --- filtering ----------------------------------------------------------------------------------------------------


def test_only_feasible_nodes_are_chosen() -> None:
    bench = Bench({"filter": [Only("n2", status=NO)]})
    bench.nodes("n1", "n2", "n3")
    found = bench.schedule()
    assert found == Decision("n2", evaluated=3, feasible=1)


def test_a_filter_sees_only_nodes_that_those_before_it_let_through() -> None:
    first, second = Only("n1", "n2", name="First", status=NO), Only("n2", name="Second", status=NO)
    bench = Bench({"filter": [first, second]})
    bench.nodes("n1", "n2", "n3")
    assert bench.choose() == "n2"
    assert second.asked == ["n1", "n2"]


def test_a_pre_filter_that_skips_leaves_its_filter_out() -> None:
    class Skipping(Only):
        def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
            return None, SKIP

    plugin = Skipping(status=NO)
    bench = Bench({"preFilter": [plugin], "filter": [plugin]})
    bench.nodes("n1")
    assert bench.choose() == "n1"
    assert plugin.asked == []


def test_pre_filters_that_name_nodes_leave_the_rest_unasked() -> None:
    filter_plugin = Only("n1", "n2", "n3", status=NO)
    pre_filters = [Names("n1", "n2", name="A"), Names("n2", "n3", name="B")]
    bench = Bench({"preFilter": pre_filters, "filter": [filter_plugin]})
    bench.nodes("n1", "n2", "n3")
    assert bench.choose() == "n2"
    assert filter_plugin.asked == ["n2"]


def test_nodes_that_pre_filters_left_out_are_counted_with_their_plugins() -> None:
    bench = Bench({"preFilter": [Names("n1", name="A"), Names("n1", "n2", name="B")], "filter": [Only(status=NO)]})
    bench.nodes("n1", "n2", "n3")
    rejection = bench.reject()
    assert rejection.message == "0/3 nodes are available: 1 no, 2 node(s) didn't satisfy plugin(s) [A B]."
    assert {"A", "Only"} <= rejection.diagnosis.unschedulable_plugins


def test_named_nodes_that_do_not_exist_fit_nowhere() -> None:
    bench = Bench({"preFilter": [Names("n9")]})
    bench.nodes("n1")
    assert bench.reject().message == "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [Names]."


def test_pre_filters_that_agree_on_no_node_end_the_cycle() -> None:
    bench = Bench({"preFilter": [Names("n1", name="B"), Names("n2", name="A")]})
    bench.nodes("n1", "n2")
    rejection = bench.reject()
    assert rejection.message == ("0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.")
    assert rejection.diagnosis.unschedulable_plugins == {"A", "B"}
    assert Bench({"preFilter": [Names(name="A")]}).reject().message == "no nodes available to schedule pods"


def test_an_unresolvable_pre_filter_ends_the_cycle_at_once_and_a_mere_rejection_after_the_others() -> None:
    last = Names("n1", name="Last")
    bench = Bench({"preFilter": [Names(name="A", status=NO), last], "filter": [Only("n1", status=NO)]})
    bench.nodes("n1")
    rejection = bench.reject()
    assert rejection.message == "0/1 nodes are available: no."
    assert last.calls == 1
    bench = Bench({"preFilter": [Names(name="A", status=unresolvable("never")), last]})
    bench.nodes("n1")
    assert bench.reject().message == "0/1 nodes are available: never."
    assert last.calls == 1


def test_without_nodes_nobody_is_asked() -> None:
    plugin = Names("n1")
    rejection = Bench({"preFilter": [plugin]}).reject()
    assert rejection.message == "no nodes available to schedule pods"
    assert plugin.calls == 0


def test_reasons_are_counted_by_node_and_sorted_as_text() -> None:
    class ByNode:
        name = "ByNode"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            return unschedulable(*(["odd", "both"] if int(node.name[1:]) % 2 else ["both"]))

    bench = Bench({"filter": [ByNode()]})
    bench.nodes(*(f"n{index}" for index in range(11)))
    rejection = bench.reject()
    assert rejection.message == "0/11 nodes are available: 11 both, 5 odd."
    statuses = rejection.diagnosis.node_statuses()
    assert statuses["n1"] == Status(Code.UNSCHEDULABLE, ("odd", "both"), "ByNode")
    assert len(statuses) == 11


def test_plugins_that_answer_pending_are_blamed_apart() -> None:
    bench = Bench({"filter": [Only("n1", status=Status(Code.PENDING, ("later",))), Only("n2", name="B", status=NO)]})
    bench.nodes("n1", "n2")
    diagnosis = bench.reject().diagnosis
    assert (diagnosis.pending_plugins, diagnosis.unschedulable_plugins) == ({"Only"}, {"B"})


# --- scoring and selection ----------------------------------------------------------------------------------------


def test_the_highest_weighted_sum_wins() -> None:
    plugins = [(Table({"n1": 50, "n2": 10}, "A"), 1), (Table({"n2": 30}, "B"), 2)]
    bench = Bench({"score": plugins})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n2"
    bench = Bench({"score": plugins[:1]})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n1"


def test_scores_are_normalised_by_the_plugin_that_gave_them() -> None:
    bench = Bench({"score": [Halved({"n1": 200}), Table({"n2": 99}, "B")]})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n1"


def test_one_feasible_node_is_not_scored() -> None:
    score = Table({})
    bench = Bench({"filter": [Only("n1", status=NO)], "score": [score]})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n1"
    assert score.asked == []


def test_a_pre_score_that_skips_leaves_its_score_out() -> None:
    class Skipping(Table):
        def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
            return SKIP

    plugin = Skipping({"n2": 100})
    bench = Bench({"preScore": [plugin], "score": [plugin]})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n1"
    assert plugin.asked == []


def test_among_equal_nodes_the_first_is_taken_or_one_is_drawn() -> None:
    bench = Bench({"score": [Table({})]})
    bench.nodes("n1", "n2", "n3")
    assert {bench.choose() for _ in range(20)} == {"n1"}
    bench = Bench({"score": [Table({"n4": 0})]}, first_on_tie=False)
    bench.nodes("n1", "n2", "n3")
    drawn = Counter(bench.choose() for _ in range(300))
    assert set(drawn) == {"n1", "n2", "n3"}
    assert min(drawn.values()) > 60


# --- sampling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "nodes", "expected"),
    [
        (0, 5000, 5000),  # a deliberate difference: all
        (100, 5000, 5000),
        (50, 99, 99),  # few nodes: all
        (50, 100, 100),
        (10, 5000, 500),
        (1, 5000, 100),  # never fewer than 100
        (30, 1001, 300),
    ],
)
def test_how_many_feasible_nodes_end_the_search(percentage: int, nodes: int, expected: int) -> None:
    assert feasible_nodes_to_find(percentage, nodes) == expected


@given(st.integers(-5, 150), st.integers(0, 10_000))
def test_the_search_never_wants_more_nodes_than_there_are(percentage: int, nodes: int) -> None:
    assert min(nodes, 100) <= feasible_nodes_to_find(percentage, nodes) <= nodes


def test_each_search_goes_on_where_the_one_before_stopped() -> None:
    bench = Bench({}, percentage_of_nodes_to_score=50)
    bench.nodes(*(f"n{index:03}" for index in range(300)))
    found = [bench.schedule() for _ in range(3)]
    assert found == [
        Decision("n000", evaluated=150, feasible=150),
        Decision("n150", evaluated=150, feasible=150),
        Decision("n000", evaluated=150, feasible=150),
    ]


def test_a_sampled_search_passes_rejected_nodes_until_it_meets_one_that_fits_too_many() -> None:
    rejected = {"n150", "n151", "n299"}
    wanted = [name for index in range(300) if (name := f"n{index:03}") not in rejected]
    bench = Bench({"filter": [Only(*wanted, status=NO)]}, percentage_of_nodes_to_score=50)
    bench.nodes(*(f"n{index:03}" for index in range(300)))
    found = [bench.schedule() for _ in range(2)]
    assert found == [Decision("n000", evaluated=152, feasible=150), Decision("n000", evaluated=151, feasible=150)]


def test_a_sampled_search_looks_as_far_as_it_must() -> None:
    wanted = [f"n{index:03}" for index in range(295, 300)]
    bench = Bench({"filter": [Only(*wanted, status=NO)]}, percentage_of_nodes_to_score=50)
    bench.nodes(*(f"n{index:03}" for index in range(300)))
    assert bench.schedule() == Decision("n295", evaluated=300, feasible=5)


# --- metrics ------------------------------------------------------------------------------------------------------


class Answering:
    """PreFilter and PostFilter, with the same answer."""

    name = "Answering"

    def __init__(self, status: Status) -> None:
        self._status = status

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[None, Status]:
        return None, self._status

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> tuple[None, Status]:
        return None, self._status


def points_of(plugins: Mapping[str, list[Any]]) -> set[tuple[str, str]]:
    """The extension points that a pod's attempt meets with these plugins on two nodes, with how each ended."""
    observer = Measurements()
    bench = Bench(plugins, observer=observer)
    bench.nodes("n1", "n2")
    bench.schedule()
    family = observer.metrics.framework_extension_point_duration_seconds
    assert all(child.count == 1 for _, child in family.items())
    return {(point, status) for (point, status, _), _ in family.items()}


def test_a_filter_that_leaves_no_node_is_measured_as_a_success_as_in_kube_scheduler() -> None:
    assert points_of({"filter": [Only(status=NO)]}) == {("PreFilter", "Success"), ("Filter", "Success")}


@pytest.mark.parametrize(
    ("status", "label"),
    [(NO, "Unschedulable"), (unresolvable("never"), "UnschedulableAndUnresolvable"), (error_status("boom"), "Error")],
)
def test_extension_points_are_measured_under_the_status_that_they_end_with(status: Status, label: str) -> None:
    assert points_of({"preFilter": [Answering(status)]}) == {("PreFilter", label)}
    found = points_of({"filter": [Only(status=NO)], "postFilter": [Answering(status)]})
    assert ("PostFilter", label) in found


@pytest.mark.parametrize(("point", "label"), [("filter", "Filter"), ("preScore", "PreScore"), ("score", "Score")])
def test_the_point_at_which_a_plugin_fails_is_measured_as_an_error(point: str, label: str) -> None:
    found = points_of({point: [Broken(ValueError("boom"))]})
    assert [each for each in found if each[1] == "Error"] == [(label, "Error")]


def test_a_plugin_that_skips_counts_as_not_evaluated() -> None:
    class Skipping(Table):
        def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[None, Status]:
            return None, SKIP

        def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
            return SKIP

    observer, plugin = Measurements(), Skipping({})
    bench = Bench({"preFilter": [plugin], "preScore": [plugin], "score": [plugin]}, observer=observer)
    bench.nodes("n1", "n2")
    bench.schedule()
    assert {child.value for _, child in observer.metrics.plugin_evaluation_total.items()} == {0}


# --- faults -------------------------------------------------------------------------------------------------------


class Broken:
    """Does what it is given at every point."""

    name = "Broken"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def _do(self, *args: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    pre_filter = filter = pre_score = score = post_filter = _do


POINTS = {  # as kube-scheduler names them
    "preFilter": 'running PreFilter plugin "Broken": ',
    "filter": 'running "Broken" filter plugin: ',
    "preScore": 'running PreScore plugin "Broken": ',
    "score": 'running Score plugins: plugin "Broken" failed with: ',
}


@pytest.mark.parametrize("point", POINTS)
def test_a_plugin_that_raises_ends_the_cycle_of_its_pod_with_its_name_and_point(point: str) -> None:
    bench = Bench({point: [Broken(ZeroDivisionError("division by zero"))]})
    bench.nodes("n1", "n2")
    status = bench.reject().status
    assert status.code is Code.ERROR
    assert status.message == f"{POINTS[point]}ZeroDivisionError: division by zero"
    assert isinstance(status.error, PluginError)
    assert isinstance(status.error.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("answer", ["yes", (1, 2, 3), 7, ("yes", "no")])
def test_a_plugin_that_answers_nonsense_ends_the_cycle_of_its_pod_with_its_name(point: str, answer: Any) -> None:
    bench = Bench({point: [Broken(answer)]})
    bench.nodes("n1", "n2")
    status = bench.reject().status
    assert status.code is Code.ERROR
    assert status.message.startswith(POINTS[point])


@pytest.mark.parametrize(("point", "answer"), [
    ("preFilter", (None, Status(Code.ERROR, ("out of order",)))),
    ("preFilter", (None, Status(Code.WAIT, ("out of order",)))),
    ("filter", Status(Code.ERROR, ("out of order",))),
    ("preScore", Status(Code.UNSCHEDULABLE, ("out of order",))),
    ("score", (1, Status(Code.UNSCHEDULABLE, ("out of order",)))),
])  # fmt: skip
def test_a_code_that_a_point_does_not_know_is_a_fault(point: str, answer: Any) -> None:
    bench = Bench({point: [Broken(answer)]})
    bench.nodes("n1", "n2")
    status = bench.reject().status
    assert status.code is Code.ERROR
    assert status.message == f"{POINTS[point]}out of order"
    assert status.plugin == "Broken"


@pytest.mark.parametrize("answer", [Status(Code.ERROR, ("out of order",)), RuntimeError("out of order"), "yes"])
@pytest.mark.parametrize("by_table", [False, True])
def test_a_plugin_that_fails_to_normalize_is_named_as_by_kube_scheduler(answer: Any, *, by_table: bool) -> None:
    class Normalizing(Broken):
        def score(self, *args: Any) -> tuple[int, Status | None]:
            return 1, None

        def normalize_score(self, *args: Any) -> Any:
            return self._do()

    class NormalizingTable(Normalizing):
        def score_table(self, *args: Any) -> None:
            pass

        def normalize_table(self, *args: Any) -> None:
            raise RuntimeError("out of order")

    bench = Bench({"score": [(NormalizingTable if by_table else Normalizing)(answer)]})
    bench.nodes("n1", "n2")
    status = bench.reject().status
    assert (status.code, status.plugin) == (Code.ERROR, "Broken")
    assert status.message.startswith('running Normalize on Score plugins: plugin "Broken" failed with: ')


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_bounds_is_a_fault_in_kube_schedulers_words(score: int) -> None:
    bench = Bench({"score": [Table({"n2": score})]})
    bench.nodes("n1", "n2")
    assert bench.reject().status == Status(
        Code.ERROR,
        (
            f'applying score defaultWeights on Score plugins: plugin "Table" returns an invalid score {score}, '
            "it should in the range of [0, 100] after normalizing",
        ),
        "Table",
    )


def test_after_a_fault_the_next_pod_is_judged_as_if_nothing_had_happened() -> None:
    class Moody(Only):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            if pod.key == "default/bad":
                raise RuntimeError
            return super().filter(state, pod, node)

    bench = Bench({"filter": [Moody("n2", status=NO)]})
    bench.nodes("n1", "n2")
    assert isinstance(bench.schedule(make_pod("bad")), Rejection)
    assert bench.choose(make_pod("good")) == "n2"


# --- nominated pods -----------------------------------------------------------------------------------------------


class Alone:
    """Filter, in both forms: no pod beside another. Rejects rows with the number of pods there as detail."""

    name = "Alone"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self.explain(state, pod, len(node.pods)) if node.pods else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        for node in table:
            if node.pods:
                verdicts.reject(node.row, code, len(node.pods))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unschedulable(f"{detail} here")


class Witness:
    """PostFilter: records the statuses that it gets."""

    name = "Witness"
    statuses: Mapping[str, Status]

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        self.statuses = dict(statuses)
        return None, NO


def test_the_nominated_node_is_taken_without_a_look_at_the_others_if_it_fits() -> None:
    plugin, scores = Only("n2", "n3", status=NO), Table({"n3": 100})
    bench = Bench({"filter": [plugin], "score": [scores]})
    bench.nodes("n1", "n2", "n3")
    assert bench.schedule(make_pod("p").nominated_node("n2")) == Decision("n2", evaluated=1, feasible=1)
    assert (plugin.asked, scores.asked) == (["n2"], [])
    assert dict(bench.framework.algorithm._node_statuses(bench.state, PodInfo(make_pod("p").obj()))) == {}


def test_a_sampled_search_goes_on_by_as_many_nodes_as_prefilters_named() -> None:
    bench = Bench({"preFilter": [Names("n007", "n008")]}, percentage_of_nodes_to_score=50)
    bench.nodes(*(f"n{index:03}" for index in range(300)))
    assert bench.schedule() == Decision("n007", evaluated=2, feasible=2)
    assert bench.framework.algorithm._next_start_row == 2


@pytest.mark.parametrize("nominated", ["n1", "gone"])
def test_a_nominated_node_that_does_not_fit_or_is_gone_leaves_the_search_as_it_is(nominated: str) -> None:
    bench = Bench({"filter": [Only("n2", "n3", status=NO)], "score": [Table({"n3": 100})]})
    bench.nodes("n1", "n2", "n3")
    assert bench.schedule(make_pod("p").nominated_node(nominated)) == Decision("n3", evaluated=3, feasible=2)


def test_a_nominated_node_that_cannot_be_judged_alone_is_judged_with_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Once(Only):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            if not self.asked:
                self.asked.append(node.name)
                raise RuntimeError("not yet")
            return super().filter(state, pod, node)

    bench = Bench({"filter": [Once("n2", status=NO)]})
    bench.nodes("n1", "n2")
    assert bench.choose(make_pod("p").nominated_node("n2")) == "n2"
    assert [record.message for record in caplog.records] == ["filtering the pod's nominated node failed"]


def test_the_nominated_node_is_judged_even_if_no_pre_filter_named_it() -> None:
    after = Witness()
    bench = Bench({"preFilter": [Names("n1")], "filter": [Only("n2", status=NO)], "postFilter": [after]})
    bench.nodes("n1", "n2", "n3")
    assert bench.choose(make_pod("p").nominated_node("n2")) == "n2"
    rejection = bench.reject(make_pod("p").nominated_node("n3"))
    # The plugin that rejects the nominated node counts as the one that left out the others, too.
    assert rejection.message == "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Names Only], 2 no. no"
    assert after.statuses["n3"] == NO.of("Only")
    bench.reject()
    assert after.statuses["n3"].reasons == ("node(s) didn't satisfy plugin(s) [Names]",)


def test_nodes_are_kept_for_pods_of_the_same_or_a_higher_priority_that_are_nominated_to_them() -> None:
    after = Witness()
    bench = Bench({"filter": [Alone()], "postFilter": [after]})
    bench.nodes("n1", "n2", "n3")
    bench.place(make_pod("old").uid("old"), "n2")
    bench.nominate(make_pod("a").uid("a").priority(5), "n1")
    bench.nominate(make_pod("b").uid("b").priority(5), "n2")
    bench.nominate(make_pod("c").uid("c").priority(5), "gone")
    assert bench.feasible(make_pod("p").priority(5)) == ["n3"]
    assert bench.feasible(make_pod("p").priority(6)) == ["n1", "n3"]
    assert bench.feasible(make_pod("a").uid("a").priority(5)) == ["n1", "n3"]
    bench.cache.remove_node("n3")
    rejection = bench.reject(make_pod("p").priority(5))
    assert rejection.message == "0/2 nodes are available: 1 1 here, 1 2 here. no"
    assert after.statuses == {"n1": unschedulable("1 here").of("Alone"), "n2": unschedulable("2 here").of("Alone")}
    assert rejection.diagnosis.unschedulable_plugins == {"Alone"}
    assert bench.choose(make_pod("p").priority(6)) == "n1"


def test_the_nominated_node_too_is_kept_for_others_that_are_nominated_to_it() -> None:
    bench = Bench({"filter": [Alone()]})
    bench.nodes("n1", "n2")
    bench.nominate(make_pod("other").uid("other"), "n1")
    assert bench.choose(make_pod("p").nominated_node("n1")) == "n2"


def test_nodes_that_pre_filters_left_out_are_not_judged_for_nominated_pods() -> None:
    plugin = Only("n1", status=NO)
    bench = Bench({"preFilter": [Names("n1")], "filter": [plugin]})
    bench.nodes("n1", "n2")
    bench.nominate(make_pod("other").uid("other"), "n2")
    assert bench.choose() == "n1"
    assert plugin.asked == ["n1"]


def test_a_filter_that_fails_with_nominated_pods_there_is_a_fault() -> None:
    class Shy(Alone):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            raise RuntimeError("boom")

    bench = Bench({"filter": [Shy()]})
    bench.nodes("n1", "n2")
    assert bench.choose() == "n1"
    bench.nominate(make_pod("other").uid("other"), "n1")
    status = bench.reject().status
    assert (status.code, status.plugin) == (Code.ERROR, "Alone")


# --- PostFilter ---------------------------------------------------------------------------------------------------


class After:
    def __init__(self, status: Status | None, name: str = "After") -> None:
        self.name = name
        self._status = status
        self.statuses: list[dict[str, Status]] = []

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        self.statuses.append(dict(statuses))
        return None, self._status


def test_post_filters_see_why_each_node_was_rejected_and_may_add_their_words() -> None:
    after = After(unschedulable("preemption: nobody to evict."))
    bench = Bench({"filter": [Only(status=NO)], "postFilter": [after]})
    bench.nodes("n1", "n2")
    assert bench.reject().message == "0/2 nodes are available: 2 no. preemption: nobody to evict."
    assert after.statuses == [{name: Status(Code.UNSCHEDULABLE, ("no",), "Only") for name in ("n1", "n2")}]


def test_post_filters_are_asked_until_one_ends_the_chain() -> None:
    second = After(None, "Second")
    bench = Bench({"filter": [Only(status=NO)], "postFilter": [After(NO), second, After(NO, "Third")]})
    bench.nodes("n1")
    bench.reject()
    assert len(second.statuses) == 1
    unasked = After(NO, "Unasked")
    bench = Bench({"filter": [Only(status=NO)], "postFilter": [After(unresolvable("end")), unasked]})
    bench.nodes("n1")
    bench.reject()
    assert unasked.statuses == []


def test_after_a_pre_filter_rejection_post_filters_see_it_on_every_node() -> None:
    after = After(NO)
    bench = Bench({"preFilter": [Names(status=unresolvable("never"))], "postFilter": [after]})
    bench.nodes("n1", "n2")
    bench.reject()
    assert set(after.statuses[0]) == {"n1", "n2"}


def test_a_fault_of_a_post_filter_is_logged_and_the_pod_still_fits_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for answer in (RuntimeError("boom"), (None, Status(Code.ERROR, ("out of order",))), "yes"):
        caplog.clear()
        bench = Bench({"filter": [Only(status=NO)], "postFilter": [Broken(answer)]})
        bench.nodes("n1")
        rejection = bench.reject()
        assert rejection.status.code is Code.UNSCHEDULABLE
        assert rejection.message.startswith("0/1 nodes are available: 1 no. ")
        assert rejection.diagnosis.unschedulable_plugins == {"Only"}
        assert rejection.nomination is None
        assert [record.message for record in caplog.records] == ["post-filter plugin failed"]


@pytest.mark.parametrize(
    ("answers", "nomination", "words"),
    [
        ([("n1", None), ("n2", None)], "n1", ""),
        ([(None, NO), ("n2", None)], "n2", ""),
        ([("n1", NO), (None, NO)], "n1", " no, no"),
        ([("n1", NO), ("", NO)], "", " no, no"),
        ([("n1", NO), (None, unresolvable("end"))], None, " end"),
        ([("n1", NO), ("n2", Status(Code.ERROR, ("boom",)))], None, " boom"),
        ([], "", ""),
    ],
)
def test_a_nomination_is_that_of_the_plugin_that_ended_the_chain_or_the_last_one_made(
    answers: list[tuple[str | None, Status | None]], nomination: str | None, words: str
) -> None:
    class Nominating(After):
        def __init__(self, name: str, node: str | None, status: Status | None) -> None:
            super().__init__(status, name)
            self._node = node

        def post_filter(
            self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
        ) -> tuple[PostFilterResult | None, Status | None]:
            return None if self._node is None else PostFilterResult(self._node), self._status

    plugins = [Nominating(f"P{index}", *answer) for index, answer in enumerate(answers)]
    bench = Bench({"filter": [Only(status=NO)], "postFilter": plugins})
    bench.nodes("n1", "n2")
    rejection = bench.reject()
    assert (rejection.nomination, rejection.message) == (nomination, f"0/2 nodes are available: 2 no.{words}")


def test_faults_and_a_cluster_without_nodes_take_a_nomination_back() -> None:
    assert Bench({"postFilter": [After(None)]}).reject().nomination == ""
    bench = Bench({"preFilter": [Broken(RuntimeError("boom"))], "postFilter": [After(None)]})
    bench.nodes("n1")
    assert bench.reject().nomination == ""


def test_a_node_that_left_no_longer_counts() -> None:
    bench = Bench({"filter": [Only("n1", status=NO)]})
    bench.nodes("n1", "n2", "n3")
    bench.cache.remove_node("n1")
    assert bench.reject().message == "0/2 nodes are available: 2 no."
    bench.node(make_node("n1").capacity())
    assert bench.choose() == "n1"
