"""Kernels place pods with quotas as long as there is room in them, and both lanes decide equally."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Pod
from kscheduler.config.load import parse_config
from kscheduler.framework.plugins.capacityscheduling.plugin import CapacityScheduling
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from tests.framework.plugins.capacityscheduling.bench import make_quota
from tests.support.lanes import Side, TwoLanes
from tests.support.spreads import with_spread

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}
- schedulerName: free
"""
GPU = "example.com/gpu"
NAMESPACES = ("a", "b", "c")


def side() -> Side:
    made = Side(parse_config(CONFIG))
    made.cache.follow(made.quotas)
    for number in range(3):
        made.cache.set_node(make_node(f"n{number}").capacity(cpu="16", memory="16Gi").obj())
    return made


def pods(namespace: str, count: int = 4, start: int = 0, profile: str = "default-scheduler") -> list[Pod]:
    return [
        make_pod(f"p{number}", namespace).req(cpu="1").scheduler_name(profile).obj()
        for number in range(start, start + count)
    ]


def are_placed(side: Side, *wanted: Pod) -> tuple[list[bool], int]:
    """Which of them got a node, and how many of them by kernels."""
    outcomes, by_lane = side.by_lane(wanted)
    return [bool(outcome.node) for outcome in outcomes], by_lane


def test_kernels_place_as_many_pods_as_the_quota_has_room_for() -> None:
    made = side()
    made.quotas.set(make_quota("a", {"cpu": "8"}, {"cpu": "3"}))
    found, by_lane = are_placed(made, *pods("a", 5), *pods("b"))
    assert found == [True] * 3 + [False] * 2 + [True] * 4
    assert by_lane == 7
    account = made.quotas.accounts.get("a")
    assert account is not None
    assert account.used[0] == 3000


def test_namespaces_share_what_is_guaranteed_to_all_within_one_run() -> None:
    made = side()
    made.quotas.set(make_quota("a", {"cpu": "3"}))
    made.quotas.set(make_quota("b", {"cpu": "2"}))
    mixed = [each for pair in zip(pods("a"), pods("b"), strict=True) for each in pair]
    assert are_placed(made, *mixed) == ([True] * 5 + [False] * 3, 5)


def test_pods_of_other_profiles_count_and_are_not_limited() -> None:
    made = side()
    made.quotas.set(make_quota("a", {"cpu": "8"}, {"cpu": "3"}))
    wanted = [*pods("a", 1), *pods("a", 4, start=1, profile="free"), *pods("a", 1, start=5)]
    assert are_placed(made, *wanted) == ([True] * 5 + [False], 5)


def test_beside_a_nominated_pod_the_general_lane_decides_about_pods_with_quotas() -> None:
    made = side()
    made.quotas.set(make_quota("a", {"cpu": "8"}, {"cpu": "3"}))
    made.nominations.nominate(PodInfo(make_pod("waits", "b").obj()), "n0")
    wanted = [make_pod(name, namespace).req(cpu="1").priority(5).obj() for name, namespace in (("p", "a"), ("q", "b"))]
    assert are_placed(made, *wanted) == ([True, True], 1)


def test_what_a_quota_says_from_now_on_counts_for_classes_that_are_known() -> None:
    made = side()
    quotas = made.quotas
    assert are_placed(made, *pods("a"))[1] == 4
    quotas.set(make_quota("a", {"cpu": "6"}))
    assert are_placed(made, *pods("a", start=4)) == ([True] * 2 + [False] * 2, 2)
    quotas.set(make_quota("a", {"cpu": "7"}))
    assert are_placed(made, *pods("a", start=8)) == ([True] + [False] * 3, 1)
    quotas.remove("a", "quota")
    assert are_placed(made, *pods("a", start=12)) == ([True] * 4, 4)


def test_a_profile_without_the_plugin_has_nothing_that_limits_its_runs() -> None:
    assert Side().lane._limiting == []


def test_where_no_namespace_has_a_quota_no_pod_is_looked_at() -> None:
    plugin = CapacityScheduling(side().handle)
    assert plugin.admitted("default-scheduler", [NotImplemented] * 7) == 7


# --- both lanes ---

amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["2", "4", "9"])}, optional={"memory": st.just("3Gi"), GPU: st.sampled_from(["1", "2"])}
)
quotas = st.builds(make_quota, st.sampled_from(NAMESPACES), amounts, st.none() | amounts)


class Plan:
    """Draws what happens next, and lets it happen on both sides."""

    def __init__(self, data: st.DataObject, lanes: TwoLanes) -> None:
        self.draw = data.draw
        self.lanes = lanes
        self._pods = 0

    def happen(self) -> None:
        steps = (self.schedule, self.schedule, self.schedule, self.quota, self.quota_goes, self.pod_goes, self.foreign)
        self.draw(st.sampled_from((*steps, self.nomination)))()

    def schedule(self) -> None:
        wanted: list[Pod] = []
        for _ in range(self.draw(st.integers(1, 3))):
            shape = self._shape()
            wanted += [self._new(*shape) for _ in range(self.draw(st.integers(1, 4)))]
        if self.draw(st.integers(0, 5)) == 0:
            wanted.append(self.draw(with_spread(self._new(*self._shape()))))
        self.lanes.schedule(*wanted)

    def _shape(self) -> tuple[str, str, str, str, int]:
        return (
            self.draw(st.sampled_from(NAMESPACES)),
            self.draw(st.sampled_from(["default-scheduler"] * 3 + ["free"])),
            self.draw(st.sampled_from(["1", "500m", "0"])),
            self.draw(st.sampled_from(["memory", "memory", GPU, ""])),
            self.draw(st.sampled_from([0, 0, 10])),
        )

    def _new(self, namespace: str, profile: str, cpu: str, also: str, priority: int) -> Pod:
        self._pods += 1
        pod = make_pod(f"p{self._pods}", namespace).uid(f"p{self._pods}").scheduler_name(profile).priority(priority)
        pod = pod.req(cpu=cpu)
        return (pod.req(**{also: "1"}) if also else pod).obj()

    def quota(self) -> None:
        self._on_both(self.draw(quotas))

    def _on_both(self, quota: ElasticQuota) -> None:
        for each in self.lanes.sides:
            each.quotas.set(quota)

    def quota_goes(self) -> None:
        namespace = self.draw(st.sampled_from(NAMESPACES))
        for each in self.lanes.sides:
            each.quotas.remove(namespace, "quota")

    def pod_goes(self) -> None:
        if self.lanes.placed:
            self.lanes.remove_pod(self.draw(st.sampled_from(sorted(self.lanes.placed))))

    def foreign(self) -> None:
        """Somebody else's pod, which may take more than the quota has."""
        pod = self._new(*self._shape())
        bound = make_pod(pod.metadata.name, pod.metadata.namespace).uid(pod.metadata.uid).req(cpu="2").node("n0").obj()
        self.lanes.set_pod(bound)
        self.lanes.placed[bound.metadata.uid] = "n0"

    def nomination(self) -> None:
        """One comes, or is taken back."""
        waits = make_pod("waits", self.draw(st.sampled_from(NAMESPACES))).uid("waits").req(cpu="1")
        self.lanes.nominate(
            waits.priority(self.draw(st.sampled_from([0, 10]))).obj(), self.draw(st.sampled_from(["", "", "n0"]))
        )


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_both_lanes_decide_equally(data: st.DataObject) -> None:
    lanes = TwoLanes(parse_config(CONFIG))
    for each in lanes.sides:
        each.cache.follow(each.quotas)
    plan = Plan(data, lanes)
    for number in range(data.draw(st.integers(1, 3))):
        labels = {"zone": "ab"[number % 2], "kubernetes.io/hostname": f"n{number}"}
        node = make_node(f"n{number}").capacity(cpu="8", memory="8Gi", **{GPU: "2"})
        for key, value in labels.items():
            node = node.label(key, value)
        lanes.set_node(node.obj())
    for quota in data.draw(st.lists(quotas, max_size=3)):
        plan._on_both(quota)
    for _ in range(data.draw(st.integers(1, 15))):
        plan.happen()
