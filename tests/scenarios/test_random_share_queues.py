"""Random queues, pods, gangs and faults: counts are right, limits are kept, and evictions come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.load import parse_config
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.testing import make_pod
from tests.scenarios.gangs import gang
from tests.scenarios.share_queues import CONFIG, LABEL, WITH_GANGS, queue
from tests.support.world import World

LEAVES = ("a", "b", "c", "d")
# In rounds pods that were evicted come again. After so many at most nobody is evicted in the last ones. Who waits may
# find somebody to evict when it was not tried for five minutes.
ROUNDS, CALM_ROUNDS = 6, 2
ROUNDS_WITH_GANGS, CALM_ROUNDS_WITH_GANGS = 60, 7
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
    members: int = 1  # of a gang if there are several
    least: int = 1  # of them that must be placed together


@dataclass(frozen=True)
class Plan:
    queues: dict[str, Terms]
    nodes: list[int]  # cpu
    pods: list[PodShape]
    faults: list[tuple[FaultKind, Verb]]


terms = st.builds(
    Terms, st.sampled_from([0, 0, 1, 2, 4]), st.sampled_from([None, None, None, 3, 6]), st.sampled_from([0, 1, 1, 3])
)
shapes = (
    st.sampled_from([*LEAVES, ""]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.sampled_from([0, 0, 5, 50, 100]),
    st.booleans(),
)
singles = st.builds(PodShape, *shapes)
gangs = st.integers(2, 5).flatmap(
    lambda members: st.builds(PodShape, *shapes, st.just(members), st.integers(2, members))
)


def plans(pods: st.SearchStrategy[PodShape], most: int) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        st.fixed_dictionaries(dict.fromkeys(("team", "other", *LEAVES), terms)),
        st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4),
        st.lists(pods, min_size=3, max_size=most),
        st.lists(
            st.tuples(
                st.sampled_from([FaultKind.SERVER_ERROR, FaultKind.TIMEOUT]),
                st.sampled_from([Verb.BIND, Verb.DELETE_POD, Verb.PATCH_STATUS, Verb.PATCH_QUEUE]),
            ),
            max_size=2,
        ),
    )


async def execute(plan: Plan, config: str, rounds: int = ROUNDS, calm_rounds: int = CALM_ROUNDS) -> None:
    async with World(config=parse_config(config, "test"), expect_conditions=False) as here:
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
                    if shape.members > 1:
                        here.cluster.create_object(gang(f"p{number}", shape.least))
                    for name in names_of(number, shape):
                        add(here, name, shape, f"p{number}")
            await here.sleep(10.0)
        here.faults.clear()
        # 2. Controllers make evicted pods again.
        evicted: list[int] = []
        while len(evicted) < rounds and (len(evicted) < max(ROUNDS, calm_rounds) or any(evicted[-calm_rounds:])):
            before = {name: pod.metadata.uid for name, pod in here.cluster.pods.items()}
            for number, shape in enumerate(plan.pods):
                for name in names_of(number, shape):
                    if f"default/{name}" not in here.cluster.pods:
                        add(here, name, shape, f"p{number}")
            await here.sleep(ROUND_S)
            evicted.append(sum(1 for name in before if name not in here.cluster.pods))
            check(here)
        check_gangs(here, plan)
        assert not any(evicted[-calm_rounds:]), f"pods evicted in each round: {evicted}"


def names_of(number: int, shape: PodShape) -> list[str]:
    return [f"p{number}"] if shape.members == 1 else [f"p{number}-{member}" for member in range(shape.members)]


def add(here: World, name: str, shape: PodShape, of: str) -> None:
    pod = make_pod(name).req(cpu=str(shape.cpu)).priority(shape.priority).grace_period(0)
    if shape.members > 1:
        pod = pod.label(POD_GROUP_LABEL, of)
    here.add_pod(pod.label(LABEL, shape.queue) if shape.queue else pod)


def check(here: World) -> None:
    """What is counted is what the pods on nodes use, and what those that wait ask for; no limit is exceeded."""
    queues = here.scheduler.share_queues
    assert queues is not None
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


def check_gangs(here: World, plan: Plan) -> None:
    """No gang has lost its minimum and kept a part."""
    for number, shape in enumerate(plan.pods):
        names = names_of(number, shape)
        bound = sum(bool(here.pod(name).spec.node_name) for name in names if f"default/{name}" in here.cluster.pods)
        assert not 0 < bound < shape.least, f"{bound} of at least {shape.least} pods of p{number} have a node"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(singles, 30))
def test_whatever_queues_are_asked_for_counts_are_right_and_evictions_come_to_rest(plan: Plan) -> None:
    run_virtual(execute(plan, CONFIG))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(st.one_of(singles, gangs), 15))
def test_beside_gangs_counts_are_right_and_evictions_come_to_rest(plan: Plan) -> None:
    run_virtual(execute(plan, WITH_GANGS, ROUNDS_WITH_GANGS, CALM_ROUNDS_WITH_GANGS))
