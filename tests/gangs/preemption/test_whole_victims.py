"""A single pod's preemption leaves gangs their minimum, takes them whole, or chooses another node."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, DryRun, Findings
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.gangs.gang import Disruption
from kscheduler.gangs.preemption.kubernetes_victims import KubernetesVictims
from kscheduler.gangs.preemption.whole_victims import WholeVictims
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import budget
from tests.gangs.builders import gang
from tests.gangs.preemption.bench import HIGH, Cluster, low


def search(cluster: Cluster, pod: PodBuilder, dry_run: DryRun | None = None) -> Findings:
    """Let a pod, which must fit nowhere, look for victims on all nodes."""
    if dry_run is None:
        victims = WholeVictims(cluster.cache, cluster.registry)
        victims.handle = cluster.handle
        dry_run = victims.dry_run(CompiledDryRun(cluster.handle))
    info, state = PodInfo(pod.obj()), CycleState()
    found = cluster.side.profiles[info.pod.spec.scheduler_name].schedule_pod(state, info)
    assert isinstance(found, Rejection)
    return dry_run.search(state, info, list(cluster.cache.table), 100)


def victims_by_node(findings: Findings) -> dict[str, list[str]]:
    return {each.node_name: names(each) for each in findings.candidates}


def names(candidate: Candidate) -> list[str]:
    return sorted(victim.pod.metadata.name for victim in candidate.victims)


def urgent(cpu: int = 2) -> PodBuilder:
    return make_pod("urgent").req(cpu=cpu).priority(HIGH)


def spread(cluster: Cluster, name: str, least: int, nodes: Sequence[str], **fields: object) -> None:
    cluster.set_gang(name, least, **fields)
    for i, node in enumerate(nodes):
        cluster.place(low(f"{name}-{i}", of=name), node)


def test_a_member_above_the_minimum_leaves_alone() -> None:
    cluster = Cluster(2)
    spread(cluster, "batch", 3, ["n0", "n0", "n1", "n1"])
    found = victims_by_node(search(cluster, urgent()))
    assert {node: len(pods) for node, pods in found.items()} == {"n0": 1, "n1": 1}


def test_a_gang_that_would_be_too_small_goes_whole_wherever_its_pods_are() -> None:
    cluster = Cluster(2)
    spread(cluster, "batch", 4, ["n0", "n0", "n1", "n1"])
    everybody = [f"batch-{i}" for i in range(4)]
    assert victims_by_node(search(cluster, urgent())) == {"n0": everybody, "n1": everybody}


def test_more_than_the_surplus_takes_the_whole_gang() -> None:
    cluster = Cluster(2)
    spread(cluster, "batch", 3, ["n0", "n0", "n1", "n1"])
    assert len(victims_by_node(search(cluster, urgent(4)))["n0"]) == 4


def test_other_pods_of_the_node_are_spared_where_the_gang_goes() -> None:
    cluster = Cluster(2)
    cluster.place(low("single", priority=0), "n0")
    spread(cluster, "batch", 2, ["n0", "n1", "n1"], disruption=Disruption.ALL)
    found = victims_by_node(search(cluster, urgent()))
    assert found["n0"] == ["single"]
    assert found["n1"] == ["batch-0", "batch-1", "batch-2"]


def test_a_gang_with_an_important_member_keeps_its_minimum() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 2)
    cluster.place(low("batch-0", cpu=4, of="batch"), "n0")
    cluster.place(low("batch-1", cpu=4, priority=HIGH, of="batch"), "n1")
    assert not search(cluster, urgent()).candidates


def test_a_pod_evicts_nobody_of_its_own_gang_that_is_needed() -> None:
    cluster = Cluster(1)
    spread(cluster, "batch", 2, ["n0", "n0"])
    own = urgent().label("scheduling.x-k8s.io/pod-group", "batch")
    cluster.registry.set_member(own.obj(), cluster.tracked("batch").members["uid-default-batch-0"].stage)
    assert not search(cluster, own).candidates


def test_a_member_that_another_preemptor_has_chosen_is_counted_as_gone() -> None:
    cluster = Cluster(2)
    spread(cluster, "batch", 3, ["n0", "n0", "n1", "n1"])
    cluster.handle.endings.choose("another", ["uid-default-batch-0"])
    assert victims_by_node(search(cluster, urgent()))["n1"] == ["batch-1", "batch-2", "batch-3"]
    cluster.handle.endings.release("another")
    assert len(victims_by_node(search(cluster, urgent()))["n1"]) == 1


def test_violated_budgets_are_counted_for_all_pods_of_a_gang() -> None:
    cluster = Cluster(2)
    cluster.budgets.set(budget("calm", 1, {"scheduling.x-k8s.io/pod-group": "batch"}))
    spread(cluster, "batch", 4, ["n0", "n0", "n1", "n1"])
    assert [each.violations for each in search(cluster, urgent()).candidates] == [3, 3]


def test_without_gangs_on_nodes_the_search_is_the_usual_one() -> None:
    cluster = Cluster(1)
    cluster.place(low("a", cpu=4), "n0")

    class Noting:
        def search(self, state: object, pod: object, nodes: object, wanted: int) -> Findings:
            return Findings(7)

    victims = WholeVictims(cluster.cache, cluster.registry)
    victims.handle = cluster.handle
    assert search(cluster, urgent(), victims.dry_run(Noting())).wanted == 7


@pytest.mark.parametrize("disruption", [Disruption.SINGLE, Disruption.ALL])
def test_the_rest_of_a_gang_leaves_with_a_victim_it_needs(disruption: Disruption) -> None:
    cluster = Cluster(2)
    spread(cluster, "batch", 3, ["n0", "n0", "n1", "n1"], disruption=disruption)
    victims = WholeVictims(cluster.cache, cluster.registry)
    victims.handle = cluster.handle
    node = cluster.cache.table.get("n0")
    assert node is not None
    gone = list(node.pods.values())
    urgently = PodInfo(urgent().obj())
    one, both = victims.also_leaving(gone[:1], urgently), victims.also_leaving(gone, urgently)
    assert one is not None
    assert len(one) == (3 if disruption is Disruption.ALL else 0)
    assert both is not None
    assert sorted(node.name for _, node in both) == ["n1", "n1"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_gang_is_left_below_its_minimum(data: st.DataObject) -> None:
    cluster = Cluster(3)
    sizes: dict[str, int] = {}
    for i in range(data.draw(st.integers(1, 3))):
        name = f"gang-{i}"
        sizes[name] = data.draw(st.integers(1, 4))
        cluster.set_gang(name, sizes[name], disruption=data.draw(st.sampled_from(list(Disruption))))
    for i in range(12):
        of = data.draw(st.sampled_from(["", *sizes]))
        cluster.place(low(f"p-{i}", cpu=1, priority=data.draw(st.sampled_from([0, 1, HIGH])), of=of), f"n{i % 3}")
    if data.draw(st.booleans()):
        cluster.budgets.set(budget("calm", 1, {"scheduling.x-k8s.io/pod-group": "gang-0"}))
    for candidate in search(cluster, urgent(data.draw(st.integers(2, 4)))).candidates:
        gone = {victim.uid for victim in candidate.victims}
        assert all(victim.priority < HIGH for victim in candidate.victims)
        for tracked in cluster.registry:
            left = tracked.members.keys() - gone
            lost = len(tracked.members) - len(left)
            is_single = tracked.gang is not None and tracked.gang.disruption is Disruption.SINGLE
            assert not left or not lost or (is_single and len(left) >= tracked.min_members)


def test_kube_scheduler_takes_groups_whole_only_if_they_are_disrupted_as_one() -> None:
    cluster = Cluster(2)
    spread(cluster, "single", 2, ["n0", "n0"], priority=1)
    spread(cluster, "all", 1, ["n1", "n1"], priority=1, disruption=Disruption.ALL)
    victims = KubernetesVictims(cluster.cache, cluster.registry)
    victims.handle = cluster.handle
    found = victims_by_node(search(cluster, urgent(), victims.dry_run(CompiledDryRun(cluster.handle))))
    assert len(found["n0"]) == 1, "the minimum is not looked at"
    assert found["n1"] == ["all-0", "all-1"]


def test_kube_scheduler_goes_by_the_priority_of_the_group() -> None:
    cluster = Cluster(1)
    spread(cluster, "important", 1, ["n0", "n0"], priority=HIGH)
    victims = KubernetesVictims(cluster.cache, cluster.registry)
    victims.handle = cluster.handle
    assert not search(cluster, urgent(), victims.dry_run(CompiledDryRun(cluster.handle))).candidates
    cluster.registry.set_gang(gang("important", 1))
    assert search(cluster, urgent(), victims.dry_run(CompiledDryRun(cluster.handle))).candidates, "none counts as 0"
