"""Kernels place pods of queues with shares as long as their queues take them, and both lanes decide equally."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.objects import Pod
from kscheduler.api.share_queues import QueueObject
from kscheduler.config.load import parse_config
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.queues.bench import LABEL, make_queue
from tests.support.lanes import Side, TwoLanes

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: Queues}]}
    postFilter: {enabled: [{name: Queues}], disabled: [{name: "*"}]}
- schedulerName: free
"""
NAMES = ("a", "b", "team", "unknown", "")


def side() -> Side:
    made = Side(parse_config(CONFIG))
    made.cache.follow(made.queues)
    for number in range(3):
        made.cache.set_node(make_node(f"n{number}").capacity(cpu="16", memory="16Gi").obj())
    return made


def has(made: Side, *queues: QueueObject) -> None:
    for each in queues:
        made.queues.set(each.metadata.name, each)


def pod(name: str, queue: str, cpu: str = "1", profile: str = "default-scheduler") -> PodBuilder:
    made = make_pod(name).uid(name).req(cpu=cpu).scheduler_name(profile)
    return made.label(LABEL, queue) if queue else made


def pods(queue: str, count: int = 4, start: int = 0, profile: str = "default-scheduler") -> list[Pod]:
    return [pod(f"{queue}{number}", queue, profile=profile).obj() for number in range(start, start + count)]


def are_placed(made: Side, *wanted: Pod) -> tuple[list[bool], int]:
    """Which of them got a node, and how many of them by kernels."""
    outcomes, by_lane = made.by_lane(wanted)
    return [bool(outcome.node) for outcome in outcomes], by_lane


def test_kernels_place_as_many_pods_as_the_queues_take() -> None:
    made = side()
    has(made, make_queue("team", limit=4), make_queue("a", "team", limit=3), make_queue("b", "team"))
    assert are_placed(made, *pods("a", 5), *pods("b"), *pods("")) == (
        [True] * 3 + [False] * 2 + [True] + [False] * 3 + [True] * 4,
        8,
    )
    assert made.queues.tree.queues["team"].allocated() == {"cpu": 4000}


def test_pods_of_other_profiles_count_and_are_not_limited() -> None:
    made = side()
    has(made, make_queue("a", limit=3))
    wanted = [*pods("a", 1), *pods("a", 4, start=1, profile="free"), *pods("a", 1, start=5)]
    assert are_placed(made, *wanted) == ([True] * 5 + [False], 5)


def test_beside_a_nominated_pod_the_general_lane_decides_about_pods_in_queues() -> None:
    made = side()
    has(made, make_queue("a", limit=3))
    made.nominations.nominate(PodInfo(make_pod("waits").obj()), "n0")
    wanted = [pod("p", "a").priority(5).obj(), pod("q", "").priority(5).obj()]
    assert are_placed(made, *wanted) == ([True, True], 1)


def test_what_a_queue_says_from_now_on_counts_for_classes_that_are_known() -> None:
    made = side()
    has(made, make_queue("a"))
    assert are_placed(made, *pods("a")) == ([True] * 4, 4)
    has(made, make_queue("a", limit=6))
    assert are_placed(made, *pods("a", start=4)) == ([True] * 2 + [False] * 2, 2)
    made.queues.remove("a")
    assert are_placed(made, *pods("a", start=8)) == ([False] * 4, 0)


# --- both lanes ---

amounts = st.sampled_from(["0", "2", "5", "unlimited"])
trees = st.builds(
    lambda team, a, b: [
        make_queue("team", "", *team),
        make_queue("a", "team", *a),
        make_queue("b", "team", *b),
    ],
    *[st.tuples(amounts, amounts)] * 3,
)


class Plan:
    """Draws what happens next, and lets it happen on both sides."""

    def __init__(self, data: st.DataObject, lanes: TwoLanes) -> None:
        self.draw = data.draw
        self.lanes = lanes
        self._pods = 0

    def happen(self) -> None:
        steps = (
            self.schedule,
            self.schedule,
            self.schedule,
            self.tree,
            self.queue_goes,
            self.pod_goes,
            self.nomination,
        )
        self.draw(st.sampled_from(steps))()

    def schedule(self) -> None:
        wanted: list[Pod] = []
        for _ in range(self.draw(st.integers(1, 3))):
            queue, profile = (
                self.draw(st.sampled_from(NAMES)),
                self.draw(st.sampled_from(["default-scheduler"] * 3 + ["free"])),
            )
            cpu, priority = self.draw(st.sampled_from(["1", "500m", "0"])), self.draw(st.sampled_from([0, 0, 100]))
            for _ in range(self.draw(st.integers(1, 4))):
                self._pods += 1
                wanted.append(pod(f"p{self._pods}", queue, cpu, profile).priority(priority).obj())
        self.lanes.schedule(*wanted)

    def tree(self) -> None:
        for queue in self.draw(trees):
            for each in self.lanes.sides:
                has(each, queue)

    def queue_goes(self) -> None:
        name = self.draw(st.sampled_from(NAMES))
        for each in self.lanes.sides:
            each.queues.remove(name)

    def pod_goes(self) -> None:
        if self.lanes.placed:
            self.lanes.remove_pod(self.draw(st.sampled_from(sorted(self.lanes.placed))))

    def nomination(self) -> None:
        """One comes, or is taken back."""
        waits = pod("waits", self.draw(st.sampled_from(NAMES))).priority(self.draw(st.sampled_from([0, 100])))
        self.lanes.nominate(waits.obj(), self.draw(st.sampled_from(["", "", "n0"])))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_both_lanes_decide_equally(data: st.DataObject) -> None:
    lanes = TwoLanes(parse_config(CONFIG))
    for each in lanes.sides:
        each.cache.follow(each.queues)
    plan = Plan(data, lanes)
    for number in range(data.draw(st.integers(1, 3))):
        lanes.set_node(make_node(f"n{number}").capacity(cpu="8", memory="8Gi").obj())
    plan.tree()
    for _ in range(data.draw(st.integers(1, 12))):
        plan.happen()
