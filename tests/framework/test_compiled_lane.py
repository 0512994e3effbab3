"""What the compiled lane decides, what it leaves to the general lane, and when it asks the plugins again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from kscheduler.api.objects import Pod
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASES, Release
from kscheduler.errors import InternalError
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status
from kscheduler.framework.tie_bits import AHEAD, TieBits
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.support.checks import check_cache
from tests.support.lanes import Side, TwoLanes

ZONE = "topology.kubernetes.io/zone"


def copies(number: int, pod: PodBuilder | None = None) -> list[Pod]:
    """Pods that are equal but for their names."""
    made = (pod or make_pod("p").req(cpu="1")).obj()
    spec, labels = made.spec, made.metadata.labels
    names = (f"{made.metadata.name}{next(_NUMBERS)}" for _ in range(number))
    builders = (make_pod(name).uid(name).label(**labels or {}) for name in names)
    return [Pod(metadata=builder.obj().metadata, spec=spec, status=made.status) for builder in builders]


_NUMBERS: Iterator[int] = count()


def add_nodes(cluster: Side | TwoLanes, number: int, **capacity: Any) -> None:
    for index in range(number):
        node = make_node(f"n{index}").label("kubernetes.io/hostname", f"n{index}").label(ZONE, "ab"[index % 2])
        node = node.capacity(**{"cpu": "16", "memory": "64Gi", **capacity})
        (cluster if isinstance(cluster, TwoLanes) else cluster.cache).set_node(node.obj())


@pytest.fixture
def lanes() -> TwoLanes:
    lanes = TwoLanes()
    add_nodes(lanes, 6)
    return lanes


@pytest.fixture
def side() -> Side:
    side = Side()
    add_nodes(side, 6)
    return side


def placed_by_lane(side: Side, pods: Sequence[Pod]) -> int:
    """How many of them one call decides; they are assumed."""
    infos = [PodInfo(pod) for pod in pods]
    placements = side.lane.place(infos)
    side.cache.assume_counted(infos[: len(placements)], placements.rows, placements.node_names)
    side.lane.report(placements)
    check_cache(side.cache)
    return len(placements)


# --- what it takes ------------------------------------------------------------------------------------------------


def test_pods_of_several_looks_are_placed_in_one_call(lanes: TwoLanes) -> None:
    small, large = copies(20, make_pod("s").req(cpu="100m")), copies(20, make_pod("l").req(cpu="1", memory="1Gi"))
    lanes.schedule(*(pod for pair in zip(small, large, strict=True) for pod in pair))
    assert lanes.decided_by_lane == 40


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p").host_port(80),
        make_pod("p").node("n1"),
        make_pod("p").node_names("n1"),
        make_pod("p").node_affinity_in("kubernetes.io/hostname", ["n1"]),
        make_pod("p").preferred_node_affinity(1, "kubernetes.io/hostname", ["n1"]),
        make_pod("p").nominated_node("n1"),
        make_pod("p").req(cpu="100"),
        make_pod("p").scheduler_name("somebody"),
    ],
    ids=lambda pod: "",
)
def test_a_run_ends_before_the_first_pod_that_is_for_the_general_lane(side: Side, pod: PodBuilder) -> None:
    assert placed_by_lane(side, [*copies(3), *copies(1, pod), *copies(2)]) == 3
    assert placed_by_lane(side, copies(1, pod)) == 0


def test_a_pod_that_looks_at_where_others_are_is_alone_in_its_call(side: Side) -> None:
    shy = make_pod("p").pod_anti_affinity(ZONE, {"app": "web"})
    assert placed_by_lane(side, [*copies(3), *copies(1, shy), *copies(2)]) == 3
    assert placed_by_lane(side, [*copies(1, shy), *copies(2)]) == 1


def test_a_full_cluster_ends_a_run() -> None:
    side = Side()
    add_nodes(side, 2, cpu="2")
    assert placed_by_lane(side, copies(9)) == 4


def test_an_empty_cluster_places_nothing() -> None:
    assert placed_by_lane(Side(), copies(1)) == 0


def test_no_pods_are_no_placements(side: Side) -> None:
    assert len(side.lane.place([])) == 0


def test_a_run_ends_where_pods_begin_that_must_leave_other_nodes_to_nominated_pods(side: Side) -> None:
    side.nominations.nominate(PodInfo(make_pod("waits").uid("waits").priority(5).req(cpu=100).obj()), "n1")
    above, below = make_pod("p").priority(6), make_pod("p").priority(5)
    assert placed_by_lane(side, [*copies(2, above), *copies(1, below)]) == 2
    assert placed_by_lane(side, [*copies(2, below), *copies(1, above)]) == 2
    side.nominations.remove("waits")
    assert placed_by_lane(side, [*copies(2, below), *copies(1, above)]) == 3


def test_pods_go_where_they_leave_nominated_pods_their_room() -> None:
    side = Side(first_on_tie=True)
    add_nodes(side, 2, cpu="4")
    side.nominations.nominate(PodInfo(make_pod("waits").uid("waits").req(cpu=3).obj()), "n0")
    assert placed_by_lane(side, copies(9)) >= 1
    while placed_by_lane(side, copies(9)):
        pass
    found = {node.name: len(node.pods) for node in side.cache.table}
    assert found == {"n0": 1, "n1": 4}


def test_pods_of_which_more_than_requests_counts_beside_nominated_pods_are_for_the_general_lane(side: Side) -> None:
    side.nominations.nominate(PodInfo(make_pod("waits").uid("waits").obj()), "n1")
    assert placed_by_lane(side, copies(1, make_pod("p").host_port(80))) == 0
    shy = make_pod("p").pod_anti_affinity(ZONE, {"app": "web"})
    assert placed_by_lane(side, copies(1, shy)) == 0
    side.nominations.nominate(PodInfo(make_pod("mine").uid("mine").obj()), "n1")
    assert placed_by_lane(side, [make_pod("mine").uid("mine").obj()]) == 0


def test_a_profile_that_samples_nodes_is_decided_in_the_general_lane() -> None:
    config = parse_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 50\n"
    )
    lanes = TwoLanes(config)
    add_nodes(lanes, 102)
    for name in ("n100", "n101"):  # rows without nodes count for where a search starts
        lanes.remove_node(name)
    lanes.schedule(*copies(7))
    assert lanes.decided_by_lane == 7
    add_nodes(lanes, 150)  # enough for a sample, which starts where the searches before have ended
    lanes.schedule(*copies(7))
    assert lanes.decided_by_lane == 7


def test_terms_that_only_other_profiles_read_end_a_run_though_the_pod_was_signed_before() -> None:
    config = parse_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}\n"
    )
    side = Side(config)
    add_nodes(side, 6)
    shy = make_pod("p").req(cpu="1").pod_anti_affinity(ZONE, {"app": "web"})
    pods = [PodInfo(pod) for pod in [*copies(2), *copies(1, shy), *copies(1)]]
    for pod in pods:
        side.lane.sign(pod)
    assert len({pod.signature for pod in pods}) == 1
    assert len(side.lane.place(pods)) == 3


def test_ignored_resources_and_pod_level_resources() -> None:
    lanes = TwoLanes()
    add_nodes(lanes, 4, cpu="8")
    lanes.schedule(*copies(8, make_pod("p").req(cpu="100m", memory="100Mi").pod_level_req(cpu="2", memory="4Gi")))
    assert lanes.decided_by_lane == 8


# --- what it rests on ---------------------------------------------------------------------------------------------


def web(number: int) -> list[Pod]:
    return copies(number, make_pod("web").label(app="web").req(cpu="1"))


def anti_affine() -> PodBuilder:
    return make_pod("shy").uid("shy").pod_anti_affinity(ZONE, {"app": "web"}).node("n0")


def test_a_service_that_appears_spreads_its_pods_from_then_on(lanes: TwoLanes) -> None:
    lanes.schedule(*web(3))
    before = lanes.decided_by_lane
    assert before == 3
    lanes.set_service("web", {"app": "web"})
    lanes.schedule(*web(4))
    lanes.set_service("web", None)
    before = lanes.decided_by_lane
    lanes.schedule(*web(3))
    assert lanes.decided_by_lane == before + 3


def test_a_service_that_appears_makes_its_pods_look_at_where_others_are(side: Side) -> None:
    pod = PodInfo(web(1)[0])
    assert side.lane.is_plain(pod)
    side.owners.set_service("default", "web", {"app": "web"})
    assert not side.lane.is_plain(pod)
    side.owners.remove_service("default", "web")
    assert side.lane.is_plain(pod)


def test_pods_with_terms_are_placed_in_one_call_each_seeing_those_before_it(side: Side) -> None:
    shy = make_pod("web").label(app="web").pod_anti_affinity("kubernetes.io/hostname", {"app": "web"})
    even = make_pod("db").label(app="db").preferred_pod_anti_affinity(1, ZONE, {"app": "db"})
    pods = [pod for pair in zip(copies(6, shy), copies(6, even), strict=True) for pod in pair]
    assert placed_by_lane(side, pods) == 1  # its term is new, and may concern those behind it
    assert placed_by_lane(side, pods[1:]) == 1  # and so is the second's preference
    assert placed_by_lane(side, pods[2:] + copies(1)) == len(pods) - 2  # but no pod without terms
    for info in side.cache.table:
        assert Counter((pod.pod.metadata.labels or {})["app"] for pod in info.pods.values())["web"] == 1
    zones = Counter(info.labels[ZONE] for info in side.cache.table for pod in info.pods.values())
    assert zones == {"a": 6, "b": 6}


def test_a_fault_behind_pods_that_were_counted_ahead_leaves_no_trace_of_them(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    side.owners.set_service("default", "web", {"app": "web"})
    assert placed_by_lane(side, web(2)) == 2

    def fail_behind(*given: Any) -> None:
        CompiledLane._next_joined(side.lane, *given)
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(side.lane, "_next_joined", fail_behind)
        assert not side.lane.place_unless_broken([PodInfo(pod) for pod in web(2)], side.cache.recount)
    assert side.lane.is_broken
    check_cache(side.cache)
    side.cache.assume(PodInfo(web(1)[0]), "n0")
    check_cache(side.cache)


def test_terms_that_appear_keep_pods_away_and_vanish_with_their_pods(lanes: TwoLanes) -> None:
    lanes.schedule(*web(3))
    lanes.set_pod(anti_affine().obj())
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {3}
    lanes.remove_pod("shy")
    before = lanes.decided_by_lane
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {6}
    assert lanes.decided_by_lane == before + 2


def test_terms_of_pods_without_a_domain_count_as_soon_as_one_is_in_a_domain(lanes: TwoLanes) -> None:
    lanes.set_node(make_node("bare").capacity(cpu="16", memory="64Gi").obj())
    lanes.set_pod(make_pod("shy").uid("shy").pod_anti_affinity(ZONE, {"app": "web"}).node("bare").obj())
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {7}
    lanes.set_pod(make_pod("shy2").uid("shy2").pod_anti_affinity(ZONE, {"app": "web"}).node("n0").obj())
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {4}


def test_a_namespace_that_changes_its_labels_is_meant_by_other_terms(lanes: TwoLanes) -> None:
    shy = make_pod("shy").uid("shy").pod_anti_affinity(ZONE, {"app": "web"}, namespace_selector={"team": "x"})
    lanes.set_pod(shy.node("n0").obj())
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {6}
    lanes.set_namespace("default", {"team": "x"})
    assert {outcome.feasible for outcome in lanes.schedule(*web(2))} == {3}


def test_nodes_that_come_change_and_go_are_noticed(lanes: TwoLanes) -> None:
    lanes.schedule(*copies(3))
    lanes.set_node(make_node("n1").taint("key").capacity(cpu="16", memory="64Gi").obj())
    assert {outcome.feasible for outcome in lanes.schedule(*copies(2))} == {5}
    lanes.set_node(make_node("n9").label("new", "look").capacity(cpu="16", memory="64Gi").obj())
    lanes.remove_node("n0")
    lanes.schedule(*copies(4))
    assert lanes.decided_by_lane == 9


def test_an_image_that_is_pulled_attracts_pods(lanes: TwoLanes) -> None:
    pods = make_pod("p").image("big:1")
    lanes.schedule(*copies(2, pods))
    node = make_node("n3").label("kubernetes.io/hostname", "n3").label(ZONE, "b")
    for image, size in (("big:1", 1 << 40), ("big:2", 1 << 40)):
        node = node.capacity(cpu="16", memory="64Gi").image(image, size)
        lanes.set_node(node.obj())
        assert lanes.schedule(*copies(1, pods))[0].node == "n3"
    assert lanes.decided_by_lane == 4


def test_an_answer_that_stays_the_same_keeps_what_the_core_knows_of_the_rows(side: Side) -> None:
    placed_by_lane(side, copies(2))
    rebuilds = side.lane._placer.rebuilds
    side.namespaces.set("default", {"a": "b"})
    side.cache.set_pod(PodInfo(make_pod("other").uid("other").pod_affinity(ZONE, {"no": "one"}).node("n0").obj()))
    side.cache.remove_node("n5")
    assert placed_by_lane(side, copies(2)) == 2
    assert side.lane._placer.rebuilds == rebuilds


def test_pods_that_only_look_different_share_what_the_core_knows(side: Side) -> None:
    looks = [make_pod("p").req(cpu="1").label(app=f"app{i}").image(f"image{i}").priority(i) for i in range(20)]
    placed_by_lane(side, copies(1))
    rebuilds = side.lane._placer.rebuilds
    assert placed_by_lane(side, [copies(1, look)[0] for look in looks]) == 20
    assert side.lane._placer.rebuilds == rebuilds


# --- ties ---------------------------------------------------------------------------------------------------------


def test_ties_are_broken_by_the_same_draws_whatever_comes_between(lanes: TwoLanes) -> None:
    lanes.schedule(*copies(30), *copies(1, make_pod("p").host_port(80)), *copies(30))
    lanes.set_node(make_node("only").label("disk", "ssd").capacity(cpu="4", memory="64Gi").obj())
    lanes.schedule(*copies(3, make_pod("p").node_selector(disk="ssd")), *copies(30))
    lanes.schedule(*copies(20, make_pod("s").req(cpu="100m")))
    assert lanes.decided_by_lane == 113


def test_tie_bits_are_the_same_however_many_are_looked_at() -> None:
    one, many = TieBits(random.Random(5)), TieBits(random.Random(5))
    drawn = [one.draw() for _ in range(3 * AHEAD)]
    seen: list[int] = []
    for number in (1, 500, 2, AHEAD + 7, 900):
        assert many.next() == drawn[len(seen)]
        seen += many.ahead(number)
        many.used += number
    assert seen == drawn[: len(seen)]
    assert all(0 <= bits < 1 << 32 for bits in drawn)


# --- bounds -------------------------------------------------------------------------------------------------------


def test_memory_for_few_classes_costs_speed_only() -> None:
    generous, narrow = Side(max_bytes=1 << 20), Side(max_bytes=1)
    outcomes = []
    for side in (generous, narrow):
        add_nodes(side, 6)
        looks = [make_pod("p").req(cpu=f"{i + 1}00m") for i in range(9)]
        pods = [copies(1, looks[i % 9])[0] for i in range(45)]
        found, placed = side.by_lane(pods)
        assert placed == 45
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
    assert len(narrow.lane._classes._classes) <= 9
    narrow.lane.place([])
    narrow.lane.place([])
    assert not narrow.lane._classes._classes


def test_a_class_nobody_uses_any_more_is_forgotten(side: Side) -> None:
    placed_by_lane(side, copies(2))
    side.cache.set_node(make_node("n1").taint("key").capacity(cpu="16", memory="64Gi").obj())
    placed_by_lane(side, copies(2))
    assert len(side.lane._classes._classes) == 1


# --- plugins from outside -----------------------------------------------------------------------------------------


class Outsider:
    """A Filter plugin that lets all nodes pass."""

    name = "Outsider"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


class Signing(Outsider):
    def __init__(self, sign: Callable[[PodInfo], Hashable | None] = lambda pod: 1) -> None:
        self._sign = sign
        self.signed = 0

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        self.signed += 1
        return self._sign(pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True


def lane_with(side: Side, plugin: Any) -> CompiledLane:
    """A lane whose only profile has in-tree plugins and one more."""
    in_tree = list(side.profiles["default-scheduler"].class_compiler.plugins or ())
    points = {
        point: [(found, 1) for found in in_tree if hasattr(found, method)]
        for point, method in (
            ("preFilter", "pre_filter"),
            ("filter", "filter"),
            ("preScore", "pre_score"),
            ("score", "score"),
        )
    }
    points["filter"].append((plugin, 1))
    framework = Framework(
        "default-scheduler",
        points,
        side.handle,
        observer=Measurements(),
        stopwatch=lambda: 0.0,
    )
    return CompiledLane({"default-scheduler": framework}, side.handle, Measurements(), lambda: 0.0)


def test_a_plugin_that_signs_nothing_closes_the_lane_for_its_profile(side: Side) -> None:
    assert len(lane_with(side, Outsider()).place([PodInfo(pod) for pod in copies(2)])) == 0


def test_a_plugin_that_signs_and_compiles_takes_part(side: Side) -> None:
    plugin = Signing()
    assert len(lane_with(side, plugin).place([PodInfo(pod) for pod in copies(5)])) == 5
    assert plugin.signed == 1  # pods with equal texts are signed once


@pytest.mark.parametrize("sign", [lambda pod: None, lambda pod: [], lambda pod: 1 // 0])
def test_a_pod_that_a_plugin_cannot_sign_is_for_the_general_lane(side: Side, sign: Any) -> None:
    assert len(lane_with(side, Signing(sign)).place([PodInfo(pod) for pod in copies(2)])) == 0


def test_a_plugin_at_one_of_two_points_that_belong_together_closes_the_lane() -> None:
    config = parse_config("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {preFilter: {disabled: [{name: NodeAffinity}]}}
""")
    side = Side(config)
    add_nodes(side, 2)
    assert placed_by_lane(side, copies(1)) == 0


def test_pods_signed_by_one_lane_are_signed_again_by_another(side: Side) -> None:
    infos = [PodInfo(pod) for pod in copies(3)]
    other = Side()
    add_nodes(other, 3)
    assert len(side.lane.place(infos)) == len(other.lane.place(infos)) == 3


# --- faults -------------------------------------------------------------------------------------------------------


def test_a_pod_that_the_core_cannot_count_is_for_the_general_lane_and_those_before_it_stay(
    side: Side, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    placer = side.lane._placer

    class Failing:
        def place_many(self, classes: list[Any], *arguments: Any) -> tuple[int, int]:
            placer.place_many(classes[:2], *arguments)
            raise OverflowError("row 3: too much")

    monkeypatch.setattr(side.lane, "_placer", Failing())
    assert placed_by_lane(side, copies(5)) == 2
    assert "could not be placed" in caplog.text


def test_a_pod_cannot_have_been_counted_on_a_node_that_is_not_there(side: Side) -> None:
    gone = side.cache.table.at(2)
    side.cache.remove_node(gone.name)
    with pytest.raises(InternalError, match="expected a node in row 2"):
        side.cache.assume_counted([PodInfo(copies(1)[0])], [gone.row], [gone.name])
    side.cache.recount()
    check_cache(side.cache)


# --- what is reported ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_metrics_count_pods_and_evaluations_as_in_the_general_lane(release: Release) -> None:
    counted = []
    for by_lane in (False, True):
        metrics = Metrics(process=False)
        side = Side(default_config(release), observer=Measurements(metrics))
        add_nodes(side, 4)
        side.cache.set_node(make_node("only").label("disk", "ssd").capacity(cpu="64", memory="64Gi").obj())
        pods = [
            *copies(5),
            *copies(2, make_pod("p").node_selector(disk="ssd")),
            *copies(2, make_pod("p").preferred_node_affinity(1, "disk", ["ssd"])),
        ]
        if by_lane:
            assert side.by_lane(pods)[1] == len(pods)
            assert metrics.scheduling_algorithm_duration_seconds.count == len(pods)
        else:
            side.one_by_one(pods)
        evaluations = {key: child.value for key, child in metrics.plugin_evaluation_total.items() if child.value}
        durations = {key: child.count for key, child in metrics.framework_extension_point_duration_seconds.items()}
        counted.append((evaluations, durations))
    assert counted[0] == counted[1]
    scored = {plugin for plugin, point, _ in counted[0][0] if point == "Score"}
    assert ("VolumeBinding" in scored) is release.has("StorageCapacityScoring")


def test_each_pod_is_measured_by_the_mean_time_of_its_run() -> None:
    metrics, now = Metrics(process=False), count(0.0, 0.5)
    side = Side(observer=Measurements(metrics), stopwatch=lambda: next(now))
    add_nodes(side, 4)
    assert placed_by_lane(side, copies(10)) == 10
    # Four looks at the stopwatch after the first: two around the plugins' answers, one before and one after placing.
    assert metrics.scheduling_algorithm_duration_seconds.sum == pytest.approx(2.0)
    points = {key[0]: child.sum for key, child in metrics.framework_extension_point_duration_seconds.items()}
    assert points == {"PreFilter": 1.5, "Filter": 0.25, "PreScore": 0.0, "Score": 0.25}


def test_pods_placed_with_kept_answers_are_counted_apart_from_the_first_of_their_class() -> None:
    metrics = Metrics(process=False)
    side = Side(observer=Measurements(metrics))
    add_nodes(side, 4)
    assert placed_by_lane(side, copies(10)) == 10
    attempts = metrics.batch_attempts_total
    assert attempts.labels("default-scheduler", "no_hint").value == 1
    assert attempts.labels("default-scheduler", "hint_used").value == 9
    assert metrics.get_node_hint_duration_seconds.labels("hint", "default-scheduler").count == 10
    assert metrics.store_schedule_results_duration_seconds.labels("default-scheduler").count == 1


def test_pods_that_fit_nowhere_count_as_pods_without_a_hint_whether_searched_for_or_not() -> None:
    metrics = Metrics(process=False)
    side = Side(observer=Measurements(metrics))
    add_nodes(side, 4, cpu="2")
    placed = copies(2)
    too_large, lonely = copies(3, make_pod("large").req(cpu="3")), make_pod("lonely").label(app="a").req(cpu="1")
    shunning = copies(5, lonely.pod_anti_affinity(ZONE, {"app": "a"}))  # two of them are placed, one in each zone
    side.by_lane([*placed, *too_large, *shunning])
    assert side.rejected_again == 4
    attempts = {result: child.value for (_, result), child in metrics.batch_attempts_total.items()}
    # The first of `placed`, the two that changed each other's class by their terms, and the six that were not placed.
    assert attempts == {"no_hint": 9, "hint_used": 1}


def test_a_plugin_that_failed_is_asked_again_after_some_pods(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.framework.compiled_classes.FAULT_HOLDS", 2)

    class Failing(Signing):
        faults = 1

        def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
            self.faults -= 1
            if self.faults == 0:
                raise RuntimeError("not now")
            return True

    lane = lane_with(side, Failing())
    pods = [PodInfo(pod) for pod in copies(2)]
    assert [len(lane.place(pods)) for _ in range(4)] == [0, 0, 0, 2]


def test_a_lane_that_forgets_asks_plugins_about_everything_again(side: Side) -> None:
    class Changing(Signing):
        answer = True

        def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
            return self.answer

    plugin = Changing()
    lane = lane_with(side, plugin)
    pods = [PodInfo(pod) for pod in copies(4)]
    assert len(lane.place(pods[:2])) == 2
    plugin.answer = False
    assert len(lane.place(pods[2:])) == 2
    lane.forget()
    assert len(lane.place(pods[2:])) == 0
    assert plugin.signed == 2
    plugin.answer = True
    lane.forget()
    assert len(lane.place(pods[2:])) == 2
