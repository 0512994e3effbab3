"""A what-if must say what the filters would say if the pods had really moved, and must move none."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import LabelSelector
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.node_filters import NodeFilters, NodeWhatIf
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.nodeports import NodePorts
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.status import SKIP, Code, Status, code_of, error_status, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.both_forms import clusters, pods
from tests.support.framework_bench import Bench
from tests.support.seeds import sampled

NO = unschedulable("no")


async def _no_bind(pod: PodInfo, node: str) -> None:
    raise AssertionError("nothing is bound here")


def info(pod: PodBuilder) -> PodInfo:
    return PodInfo(pod.obj())


# --- against the real thing ---------------------------------------------------------------------------------------


class InTree:
    """The filters of the default profile."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        handle = Handle(table=cache.table, rng=random.Random(0), bind=_no_bind)
        points = build(default_config().profiles[0], handle)
        self._pre_filter = [plugin for plugin, _ in points["preFilter"]]
        filters = [plugin for plugin, _ in points["filter"]]
        self._filters = NodeFilters(cache.table, Nominations(), self._pre_filter, filters)  # type: ignore[arg-type]

    def begin(self, pod: PodInfo) -> CycleState:
        """The state after PreFilter."""
        state = CycleState()
        for plugin in self._pre_filter:
            status = plugin.pre_filter(state, pod)[1]  # type: ignore[attr-defined]
            assume(code_of(status) in (Code.SUCCESS, Code.SKIP))
            if status == SKIP:
                state.skip_filter.add(plugin.name)
        return state

    def what_if(self, state: CycleState, pod: PodInfo, node_name: str) -> NodeWhatIf:
        return NodeWhatIf(self._filters, state, pod, self.node(node_name))

    def verdict(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._filters.judge_alone(state, pod, self.node(node_name))

    def node(self, name: str) -> NodeInfo:
        node = self.cache.table.get(name)
        assert node is not None
        return node


def moves_as_it_rests(pod: PodInfo) -> bool:
    """Not so, in kube-scheduler, with a spread constraint whose selector has no requirements."""
    stated = pod.pod.spec.topology_spread_constraints or ()
    return not any(each.label_selector == LabelSelector() for each in stated)


@pytest.mark.slow
@settings(max_examples=sampled(400), deadline=None)
@given(clusters(), st.data())
def test_a_what_if_is_right_about_every_filter(cluster: tuple[Cache, PodInfo], data: st.DataObject) -> None:
    cache, pod = cluster
    assume(len(cache.table) and moves_as_it_rests(pod))
    name = data.draw(st.sampled_from(sorted(node.name for node in cache.table)))
    there = dict(InTree(cache).node(name).pods)
    leaving = [each for each in there.values() if data.draw(st.booleans())]
    coming = [PodInfo(data.draw(pods(f"late{index}", name))) for index in range(data.draw(st.integers(0, 3)))]
    # 1. What if?
    before = InTree(cache)
    state = before.begin(pod)
    untouched = before.what_if(state, pod, name)
    what_if = before.what_if(state, pod, name)
    for other in [*leaving, *coming]:
        assert (what_if.remove if other.uid in there else what_if.add)(other) is None
    reported = what_if.fits()
    # 2. The way back leads where it began.
    for other in [*leaving, *coming]:
        assert (what_if.add if other.uid in there else what_if.remove)(other) is None
    assert dict(what_if.pods) == there == before.node(name).pods
    assert what_if.fits() == untouched.fits() == before.verdict(state, pod, name)
    # 3. And now in earnest.
    for other in leaving:
        cache.remove_pod(other.uid)
    for other in coming:
        cache.set_pod(other)
    after = InTree(cache)
    fresh = after.begin(pod)
    assume(fresh.skip_filter == state.skip_filter)  # PreFilter is not asked again by a what-if
    assert reported == after.verdict(fresh, pod, name)


def test_a_host_port_stays_taken_while_another_pod_of_the_node_has_it() -> None:
    cache = Cache()
    cache.set_node(make_node("n1").obj())
    sharing = [info(make_pod(name).host_port(80).node("n1")) for name in ("one", "other")]
    for pod in sharing:
        cache.set_pod(pod)
    ports = NodePorts(Handle(table=cache.table, rng=random.Random(0), bind=_no_bind))
    asking, state, node = info(make_pod("asking").host_port(80)), CycleState(), cache.table.get("n1")
    assert node is not None
    assert ports.pre_filter(state, asking) == (None, None)
    what_if = NodeWhatIf(NodeFilters(cache.table, Nominations(), [ports], [ports]), state, asking, node)
    taken = what_if.fits()
    assert taken is not None
    assert what_if.remove(sharing[0]) is None
    assert what_if.fits() == taken
    assert what_if.remove(sharing[1]) is None
    assert what_if.fits() is None


# --- plugins that follow ------------------------------------------------------------------------------------------


class Headcount:
    """Filter: at most so many pods on a node, by a count of its own, which it keeps by following."""

    name = "Headcount"

    def __init__(self, most: int, *, skips: bool = False) -> None:
        self._most = most
        self._skips = skips
        self.followed: list[str] = []

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        state.write(self.name, Count(0))
        return None, SKIP if self._skips else None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        assert other.uid in node.pods
        self.followed.append(f"+{other.pod.metadata.name}")
        state.read(self.name, Count).value += 1
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        assert other.uid not in node.pods
        self.followed.append(f"-{other.pod.metadata.name}")
        state.read(self.name, Count).value -= 1
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if state.read(self.name, Count).value <= self._most else NO


class Count:
    def __init__(self, value: int) -> None:
        self.value = value

    def clone(self) -> Count:
        return Count(self.value)


def bench_with(plugin: object, **points: object) -> Bench:
    bench = Bench({"preFilter": [plugin], "filter": [plugin]})
    bench.nodes("n1", "n2")
    return bench


def imagine(bench: Bench, pod: PodBuilder | None = None, node: str = "n1") -> NodeWhatIf:
    bench.schedule(pod)
    return bench.framework.what_if(bench.state, info(pod or make_pod("p")), node)


def test_plugins_follow_each_pod_on_a_state_of_the_what_ifs_own() -> None:
    plugin = Headcount(0)
    bench = bench_with(plugin)
    what_if = imagine(bench)
    other = info(make_pod("other").uid("other"))
    assert what_if.fits() is None
    what_if.add(other)
    assert what_if.fits() == NO.of("Headcount")
    assert bench.state.read("Headcount", Count).value == 0
    assert imagine(bench).fits() is None
    what_if.remove(other)
    assert what_if.fits() is None
    assert plugin.followed == ["+other", "-other"]


def test_a_plugin_whose_pre_filter_skipped_neither_follows_nor_judges() -> None:
    plugin = Headcount(-1, skips=True)
    what_if = imagine(bench_with(plugin))
    what_if.add(info(make_pod("other").uid("other")))
    assert what_if.fits() is None
    assert plugin.followed == []


@pytest.mark.parametrize("answer", [RuntimeError("boom"), "yes", NO, error_status("lost count")])
def test_a_plugin_that_cannot_follow_is_a_fault_that_names_it(answer: object) -> None:
    class Lost(Headcount):
        def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[return-value]

    status = imagine(bench_with(Lost(9))).add(info(make_pod("other").uid("other")))
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "Headcount")
    assert status.message.startswith('running AddPod on PreFilter plugin "Headcount": ')


@pytest.mark.parametrize("answer", [RuntimeError("boom"), "yes", Status(Code.WAIT), error_status("out of order")])
def test_a_filter_that_fails_in_a_what_if_is_a_fault_that_names_it(answer: object) -> None:
    class Broken:
        name = "Broken"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            if node.pods:
                if isinstance(answer, Exception):
                    raise answer
                return answer  # type: ignore[return-value]
            return None

    bench = Bench({"filter": [Broken()]})
    bench.nodes("n1")
    what_if = imagine(bench)
    what_if.add(info(make_pod("other").uid("other")))
    status = what_if.fits()
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "Broken")


def test_there_is_no_what_if_about_a_node_that_is_not_there() -> None:
    bench = bench_with(Headcount(0))
    with pytest.raises(KeyError, match="node n9"):
        imagine(bench, node="n9")


# --- nominated pods -----------------------------------------------------------------------------------------------


class Room:
    """Filter: no pod beside a pod of the name, or none without one."""

    def __init__(self, *, away_from: str = "", near: str = "") -> None:
        self.name = "Away" if away_from else "Near"
        self._away_from, self._near = away_from, near

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        names = {other.pod.metadata.name for other in node.pods.values()}
        if self._away_from in names:
            return unschedulable(f"{self._away_from} is here")
        return unschedulable(f"{self._near} is not here") if self._near and self._near not in names else None


def judged(filters: list[Room], nominated: Mapping[str, int], pod: PodBuilder) -> Status | None:
    """With pods of these names and priorities nominated to the node."""
    cache, nominations = Cache(), Nominations()
    node = cache.set_node(make_node("n1").capacity().obj())
    for name, priority in nominated.items():
        nominations.nominate(info(make_pod(name).uid(name).priority(priority)), "n1")
    return NodeFilters(cache.table, nominations, [], filters).judge(CycleState(), info(pod), node)


def test_a_pod_must_leave_the_room_of_nominated_pods_of_its_priority_or_a_higher_one() -> None:
    pod = make_pod("p").priority(5)
    assert judged([Room(away_from="x")], {"x": 4}, pod) is None
    for priority in (5, 6):
        assert judged([Room(away_from="x")], {"x": priority}, pod) == unschedulable("x is here").of("Away")


def test_a_pod_must_not_lean_on_nominated_pods() -> None:
    assert judged([Room(near="x")], {"x": 9}, make_pod("p")) == unschedulable("x is not here").of("Near")


def test_a_pod_is_not_in_its_own_way() -> None:
    assert judged([Room(away_from="p")], {"p": 0}, make_pod("p").uid("p")) is None


def test_the_verdict_with_the_nominated_pods_there_comes_first() -> None:
    filters = [Room(near="y"), Room(away_from="x")]
    assert judged(filters, {}, make_pod("p")) == unschedulable("y is not here").of("Near")
    assert judged(filters, {"x": 0, "y": 0}, make_pod("p")) == unschedulable("x is here").of("Away")
