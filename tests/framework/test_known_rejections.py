"""Which rejections hold for equal pods without another search, and what ends that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import PostFilterResult
from kscheduler.framework.status import Code, Status
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.lanes import Side, TwoLanes

ZONE = "topology.kubernetes.io/zone"
NODE = make_node("n0").capacity(cpu="4", memory="16Gi", pods=50).obj()


def big(name: str) -> PodBuilder:
    return make_pod(name).uid(name).label(app="big").req(cpu="100")


def pods(number: int, make: Callable[[str], PodBuilder] = big) -> list[Pod]:
    return [make(f"{make.__name__}-{at}").obj() for at in range(number)]


@pytest.fixture
def lanes() -> TwoLanes:
    lanes = TwoLanes()
    for at in range(4):
        node = make_node(f"n{at}").label(ZONE, "ab"[at % 2]).capacity(cpu="4", memory="16Gi", pods=50)
        lanes.set_node(node.obj())
    return lanes


def again(lanes: TwoLanes, *made: Pod) -> int:
    """Schedule pods, of which both sides must say the same, and return of how many it was known what a search finds."""
    before = lanes.compiled.rejected_again
    lanes.schedule(*made)
    return lanes.compiled.rejected_again - before


def test_one_search_rejects_all_equal_pods(lanes: TwoLanes) -> None:
    assert again(lanes, *pods(10)) == 9


def test_of_several_kinds_each_is_searched_for_once(lanes: TwoLanes) -> None:
    def bigger(name: str) -> PodBuilder:
        return big(name).req(cpu="200")

    first, second = pods(5), pods(5, bigger)
    assert again(lanes, *(each for pair in zip(first, second, strict=True) for each in pair)) == 8


def test_pods_that_spread_or_avoid_others_are_known_too(lanes: TwoLanes) -> None:
    def lonely(name: str) -> PodBuilder:
        return make_pod(name).uid(name).label(app="web").pod_anti_affinity(ZONE, {"app": "web"})

    assert again(lanes, *pods(6, lonely)) == 3  # two are placed, and the third one is searched for


def _node_comes(lanes: TwoLanes) -> None:
    lanes.set_node(make_node("n9").capacity(cpu="4", memory="16Gi", pods=50).obj())


def _node_goes(lanes: TwoLanes) -> None:
    lanes.remove_node("n1")


def _node_is_labelled(lanes: TwoLanes) -> None:
    lanes.set_node(make_node("n1").label(ZONE, "c").capacity(cpu="4", memory="16Gi", pods=50).obj())


def _node_grows(lanes: TwoLanes) -> None:
    lanes.set_node(make_node("n1").label(ZONE, "b").capacity(cpu="8", memory="16Gi", pods=50).obj())


def _pod_comes(lanes: TwoLanes) -> None:
    lanes.set_pod(make_pod("other").uid("other").node("n1").obj())


def _pod_is_labelled(lanes: TwoLanes) -> None:
    lanes.set_pod(make_pod("here").uid("here").label(app="new").node("n0").obj())


def _pod_goes(lanes: TwoLanes) -> None:
    lanes.remove_pod("here")


def _service_comes(lanes: TwoLanes) -> None:
    lanes.set_service("s", {"app": "big"})


def _namespace_is_labelled(lanes: TwoLanes) -> None:
    lanes.set_namespace("default", {"team": "x"})


CHANGES = (
    _node_comes, _node_goes, _node_is_labelled, _node_grows, _pod_comes, _pod_is_labelled, _pod_goes, _service_comes,
    _namespace_is_labelled,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_equal_pods_are_searched_for_again(lanes: TwoLanes, change: Callable[[TwoLanes], None]) -> None:
    lanes.set_pod(make_pod("here").uid("here").label(app="old").node("n0").obj())
    waiting = pods(4)
    assert again(lanes, *waiting[:2]) == 1
    change(lanes)
    assert again(lanes, *waiting[2:]) == 1


def test_a_pod_that_is_placed_is_such_a_change(lanes: TwoLanes) -> None:
    first, second = pods(2)
    assert again(lanes, first, make_pod("small").uid("small").req(cpu="3").obj(), second) == 0


def test_beside_nominated_pods_it_is_known_what_a_search_finds_until_a_nomination_changes(lanes: TwoLanes) -> None:
    def fitting(name: str) -> PodBuilder:
        return make_pod(name).uid(name).label(app="big").req(cpu="4").node_selector(**{ZONE: "b"})

    waiting, nominated = pods(8, fitting), make_pod("nominated").uid("nominated").priority(5).req(cpu="1").obj()
    lanes.nominate(nominated, "n1")
    lanes.set_pod(make_pod("here").uid("here").node("n3").req(cpu="1").obj())
    assert again(lanes, *waiting[:3]) == 2
    lanes.nominate(nominated, "n3")  # beside which n1 is free
    assert again(lanes, *waiting[3:6]) == 1
    lanes.nominate(nominated, "")
    assert again(lanes, *waiting[6:]) == 1


def test_a_pod_that_is_nominated_itself_is_searched_for(lanes: TwoLanes) -> None:
    waiting = pods(6)
    assert again(lanes, *waiting[:2]) == 1
    assert again(lanes, PodBuilder(waiting[2]).nominated_node("n1").obj()) == 0
    lanes.nominate(waiting[3], "n1")
    assert again(lanes, waiting[4], waiting[3], waiting[5]) == 1


class Evicting:
    """A PostFilter plugin that made no room. It cannot say whether that holds for equal pods."""

    name = "Evicting"
    nominates: str | None = None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        return PostFilterResult(self.nominates), Status(Code.UNSCHEDULABLE, ("no room by evictions",))


class Repeating(Evicting):
    """One that can."""

    def __init__(self, *, repeats: bool = True, holds: bool = True) -> None:
        self.repeats, self.holds = repeats, holds
        self.repeated: list[str] = []

    def repetition(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        return self._repeat if self.repeats else None

    def _repeat(self, pod: PodInfo) -> bool:
        self.repeated.append(pod.uid)
        return self.holds


def beside(plugin: Evicting) -> TwoLanes:
    lanes = TwoLanes(post_filters=[plugin])
    lanes.set_node(NODE)
    return lanes


def test_what_evictions_found_is_repeated_for_each_equal_pod() -> None:
    plugin = Repeating()
    assert again(beside(plugin), *pods(4)) == 3
    assert plugin.repeated == ["big-1", "big-2", "big-3"]


@pytest.mark.parametrize("plugin", [Repeating(repeats=False), Repeating(holds=False)])
def test_a_search_is_made_for_a_pod_that_evictions_may_help(plugin: Repeating) -> None:
    lanes, waiting = beside(plugin), pods(8)
    assert again(lanes, *waiting[:4]) == 0
    plugin.repeats = plugin.holds = True
    assert again(lanes, *waiting[4:]) >= 3, "that was no fault"


def test_pods_that_may_evict_others_than_a_pod_did_are_searched_for() -> None:
    made = [big("low"), big("high").priority(5), big("never").preemption_policy("Never")]
    assert again(beside(Repeating()), *(each.obj() for each in made)) == 0


def test_a_pod_for_which_others_are_evicted_says_nothing_of_equal_ones() -> None:
    plugin = Repeating()
    plugin.nominates = "n0"
    assert again(beside(plugin), *pods(3)) == 0


def test_beside_a_plugin_that_cannot_say_what_holds_for_equal_pods_each_is_searched_for() -> None:
    assert again(beside(Evicting()), *pods(4)) == 0


def test_metrics_count_a_pod_whose_rejection_is_known_as_one_that_is_searched_for() -> None:
    counted = []
    for decide in (Side.one_by_one, Side.by_lane):
        observer = Measurements()
        side = Side(observer=observer, post_filters=[Repeating()])
        side.cache.set_node(NODE)
        decide(side, pods(4))
        metrics = observer.metrics
        points = {labels: each.count for labels, each in metrics.framework_extension_point_duration_seconds.items()}
        evaluations = {labels: each.value for labels, each in metrics.plugin_evaluation_total.items() if each.value}
        counted.append((points, evaluations))
    assert counted[0] == counted[1]
    assert counted[0][0]["PostFilter", "Unschedulable", "default-scheduler"] == 4


def test_what_is_known_is_forgotten_with_what_plugins_stated(lanes: TwoLanes) -> None:
    waiting = pods(4)
    assert again(lanes, *waiting[:2]) == 1
    lanes.compiled.lane.forget()
    assert again(lanes, *waiting[2:]) == 1


def test_a_fault_there_costs_speed_only(lanes: TwoLanes, caplog: pytest.LogCaptureFixture) -> None:
    side: Side = lanes.compiled
    waiting = pods(6)
    assert again(lanes, *waiting[:2]) == 1

    def fail(searches: int) -> None:
        raise RuntimeError("boom")

    side.profiles["default-scheduler"].algorithm.pass_over = fail  # type: ignore[method-assign]
    assert again(lanes, *waiting[2:]) == 0
    assert caplog.text.count("known rejections failed") == 1
