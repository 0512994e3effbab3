"""Random queues, pods and faults: what is counted is there, limits are kept, and evictions come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.config.load import parse_config
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_pod
from tests.scenarios.share_queues import CONFIG, LABEL, queue
from tests.support.world import World

LEAVES = ("a", "b", "c", "d")
ROUNDS = 6  # in which pods that were evicted come again
CALM_ROUNDS = 2  # the last ones, in which nobody may be evicted
ROUND_S = 60.0


@dataclass(frozen=True)
class Terms:
    deserved: int
    limit: int | None
    weight: int


@dataclass(frozen=True)
class PodShape:
    queue: str
    cpu: int
    priority: int
    is_late: bool  # it comes when others are there


@dataclass(frozen=True)
class Plan:
    queues: dict[str, Terms]
    nodes: list[int]  # cpu
    pods: list[PodShape]
    faults: list[tuple[FaultKind, Verb]]


terms = st.builds(
    Terms, st.sampled_from([0, 0, 1, 2, 4]), st.sampled_from([None, None, None, 3, 6]), st.sampled_from([0, 1, 1, 3])
)
plans = st.builds(
    Plan,
    st.fixed_dictionaries(dict.fromkeys(("team", "other", *LEAVES), terms)),
    st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4),
    st.lists(
        st.builds(
            PodShape,
            st.sampled_from([*LEAVES, ""]),
            st.sampled_from([1, 1, 1, 2, 3]),
            st.sampled_from([0, 0, 5, 50, 100]),
            st.booleans(),
        ),
        min_size=3,
        max_size=30,
    ),
    st.lists(
        st.tuples(
            st.sampled_from([FaultKind.SERVER_ERROR, FaultKind.TIMEOUT]),
            st.sampled_from([Verb.BIND, Verb.DELETE_POD, Verb.PATCH_STATUS, Verb.PATCH_QUEUE]),
        ),
        max_size=2,
    ),
)


async def execute(plan: Plan) -> None:
    async with World(config=parse_config(CONFIG, "test"), expect_conditions=False) as here:
        parents = {"a": "team", "b": "team", "c": "other", "d": "other"}
        for name, each in plan.queues.items():
            limit = "unlimited" if each.limit is None else each.limit
            here.cluster.create_object(queue(name, parents.get(name, ""), each.deserved, limit, each.weight))
        for number, cpu in enumerate(plan.nodes):
            here.add_node(f"n{number}", cpu=str(cpu))
        for kind, verb in plan.faults:
            here.faults.add(kind, verb, probability=0.3)
        # 1. Some pods, then all of them.
        for is_late in (False, True):
            for number, shape in enumerate(plan.pods):
                if shape.is_late is is_late:
                    add(here, f"p{number}", shape)
            await here.sleep(10.0)
        here.faults.clear()
        # 2. Controllers make evicted pods again.
        evicted: list[int] = []
        for _ in range(ROUNDS):
            before = {name: pod.metadata.uid for name, pod in here.cluster.pods.items()}
            gone = [number for number in range(len(plan.pods)) if f"default/p{number}" not in here.cluster.pods]
            for number in gone:
                add(here, f"p{number}", plan.pods[number])
            await here.sleep(ROUND_S)
            evicted.append(sum(1 for name in before if name not in here.cluster.pods))
            check(here)
        assert sum(evicted[-CALM_ROUNDS:]) == 0, f"pods evicted in each round: {evicted}"


def add(here: World, name: str, shape: PodShape) -> None:
    pod = make_pod(name).req(cpu=str(shape.cpu)).priority(shape.priority).grace_period(0)
    here.add_pod(pod.label(LABEL, shape.queue) if shape.queue else pod)


def check(here: World) -> None:
    """What is counted is what the pods on nodes use, and what those that wait ask for; no limit is exceeded."""
    queues: ShareQueues = here.scheduler.share_queues
    used: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    fixed: defaultdict[str, int] = defaultdict(int)
    for pod in here.cluster.pods.values():
        leaf = queues.get(queues.demands.queue_of(pod))
        cpu = queues.demands.amounts_of(pod)["cpu"]
        for each in () if leaf is None else leaf.path():
            asked[each.name] += cpu
            if pod.spec.node_name:
                used[each.name] += cpu
                fixed[each.name] += 0 if queues.demands.is_preemptible(pod) else cpu
    for each in queues.tree.queues.values():
        share = each.shares["cpu"]
        assert share.allocated == used[each.name], each.name
        assert share.request == asked[each.name], each.name
        assert share.limit is None or share.allocated <= share.limit, each.name
        assert share.allocated_non_preemptible == fixed[each.name], each.name
        assert share.deserved is None or share.allocated_non_preemptible <= share.deserved, each.name


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_whatever_queues_are_asked_for_counts_are_right_and_evictions_come_to_rest(plan: Plan) -> None:
    run_virtual(execute(plan))
