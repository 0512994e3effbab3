"""Whatever is on a node, whom a pod may evict is by the rules of its quota, and nobody is evicted in vain."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.api.objects import PodDisruptionBudget as Budget
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.plugins.capacityscheduling.plugin import NAME, QuotaCheck
from kscheduler.framework.plugins.capacityscheduling.victims import Exposed, find_victims
from kscheduler.framework.preemption.candidates import cheapest, cost, least_cost
from kscheduler.framework.status import Code
from kscheduler.quotas.amounts import Request
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.framework.plugins.capacityscheduling.bench import Bench, make_quota
from tests.framework.plugins.quota_bench import PROFILE

NAMESPACES = ("a", "b", "c")
cpus = st.integers(0, 6)


@given(
    quotas=st.dictionaries(st.sampled_from(NAMESPACES), st.tuples(cpus, st.integers(3, 9))),
    there=st.lists(
        st.tuples(st.sampled_from(NAMESPACES), st.integers(2, 3), st.integers(0, 2)), min_size=3, max_size=6
    ),
    elsewhere=st.lists(st.tuples(st.sampled_from(NAMESPACES), st.integers(1, 3)), max_size=3),
    asking=st.tuples(st.sampled_from(NAMESPACES), st.integers(2, 4), st.integers(1, 3)),
    nominated=st.lists(st.tuples(st.sampled_from(NAMESPACES), st.integers(1, 2), st.integers(0, 2)), max_size=2),
)
def test_victims_follow_the_rules_and_each_is_needed(
    quotas: dict[str, tuple[int, int]],
    there: list[tuple[str, int, int]],
    elsewhere: list[tuple[str, int]],
    asking: tuple[str, int, int],
    nominated: list[tuple[str, int, int]],
) -> None:
    bench = Bench(*(make_quota(name, {"cpu": least}, {"cpu": most}) for name, (least, most) in quotas.items()))
    bench.nodes("n1", cpu="8")
    bench.nodes("n2", cpu="20")
    for number, (namespace, cpu, priority) in enumerate(there):
        bench.place(make_pod(f"p{number}", namespace).req(cpu=str(cpu)).priority(priority), "n1")
    for number, (namespace, cpu) in enumerate(elsewhere):
        bench.place(make_pod(f"e{number}", namespace).req(cpu=str(cpu)), "n2")
    for number, (namespace, cpu, priority) in enumerate(nominated):
        bench.nominate(make_pod(f"n{number}", namespace).req(cpu=str(cpu)).priority(priority), "n2")
    namespace, cpu, priority = asking
    pod = PodInfo(make_pod("asking", namespace).req(cpu=str(cpu)).priority(priority).obj())
    state = CycleState()
    bench.framework.schedule_pod(state, pod)
    node = bench.cache.table.get("n1")
    assert node is not None

    what_if = bench.handle.profiles[PROFILE].what_if(state, pod, "n1")
    check = what_if.state.read(NAME, QuotaCheck)
    before = state.read(NAME, QuotaCheck).view
    exposed = Exposed(state.read(NAME, QuotaCheck), pod)
    [exposed_here] = exposed.by_node([node])
    is_exposed = bool(exposed_here)
    assert exposed.is_nobody(bench.quotas.priorities) == (not any(exposed.by_node(list(bench.cache.table))))
    found = find_victims(what_if, check, pod, node, bench.budgets, 0.0)

    event("a candidate" if isinstance(found, Candidate) else found.message.split(" on node")[0])
    assert is_exposed == (isinstance(found, Candidate) or "No victims" not in found.message)
    if not isinstance(found, Candidate):
        assert found.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.ERROR)
        return
    assert {victim.uid for victim in found.victims} <= {each.uid for each in exposed_here}
    assert least_cost(exposed_here, 0.0) <= cost(found, 0.0)
    lent = namespace in quotas and not before.exceeds_min(namespace, check.in_quota)
    for victim in found.victims:
        theirs = victim.pod.metadata.namespace
        if lent:
            assert theirs != namespace
            assert before.is_over_min(theirs)
        else:
            assert victim.priority < priority
            assert theirs == namespace or (theirs not in quotas and namespace not in quotas)
    assert what_if.fits() is None
    assert not exceeds(check, namespace, check.request, check.request)
    for victim in found.victims:
        assert what_if.add(victim) is None
        assert what_if.fits() is not None or exceeds(check, namespace, check.in_quota, check.in_all), (
            "a victim that need not have gone"
        )
        assert what_if.remove(victim) is None


def exceeds(check: QuotaCheck, namespace: str, in_quota: Request, in_all: Request) -> bool:
    view = check.view
    return view.has_quota(namespace) and (view.exceeds_max(namespace, in_quota) or view.exceeds_all_min(in_all))


@given(
    nodes=st.lists(
        st.lists(
            st.tuples(st.sampled_from("bbba"), st.integers(2, 3), st.integers(0, 2), st.sampled_from(["", "00", "30"])),
            min_size=1,
            max_size=4,
        ),
        min_size=2,
        max_size=5,
    ),
    guarded=st.booleans(),
    least=st.tuples(st.sampled_from([4, 40]), st.sampled_from([0, 4])),
    asking=st.tuples(st.integers(2, 6), st.integers(0, 3)),
)
def test_the_cheapest_node_is_found_without_trying_all(
    nodes: list[list[tuple[str, int, int, str]]],
    guarded: bool,
    least: tuple[int, int],
    asking: tuple[int, int],
) -> None:
    bench = Bench(*(make_quota(name, {"cpu": own}) for name, own in zip("ab", least, strict=True)))
    for at, there in enumerate(nodes):
        bench.nodes(f"n{at}", cpu="6")
        for number, (namespace, cpu, priority, started) in enumerate(there):
            pod = make_pod(f"p{at}-{number}", namespace).uid(f"p{at}-{number}").req(cpu=str(cpu)).priority(priority)
            pod = pod.label(number=str(number % 2))
            bench.place(pod.started(f"2026-01-01T00:00:{started}Z") if started else pod, f"n{at}")
    if guarded:
        spec = PodDisruptionBudgetSpec(LabelSelector(match_labels={"number": "0"}))
        bench.budgets.set(Budget(ObjectMeta(name="b", namespace="b"), spec, PodDisruptionBudgetStatus(0)))
    cpu, priority = asking
    info = PodInfo(make_pod("asking", "a").uid("asking").req(cpu=str(cpu)).priority(priority).obj())
    state = CycleState()
    bench.framework.schedule_pod(state, info)
    table = list(bench.cache.table)
    every = bench.plugin._try_nodes(state, info, table, only_best=False)
    some = bench.plugin._try_nodes(state, info, table, only_best=True)
    event(f"{len(some.candidates)} of {len(every.candidates)} candidates")
    if every.candidates:
        now = bench.evictions.wall()
        assert cheapest(some.candidates, now) == cheapest(every.candidates, now)
    else:
        assert (some.candidates, some.statuses) == ([], every.statuses)
