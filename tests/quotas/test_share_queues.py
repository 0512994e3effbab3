"""Queues count the pods that name them, ask for the pods that wait, and divide what the nodes have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas import share_queues
from kscheduler.quotas.fair_share import set_fair_shares
from kscheduler.quotas.pod_demand import Demand, Demands
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_view import ShareView
from kscheduler.quotas.turns import Turns
from kscheduler.testing import PodBuilder, make_node, make_pod

LABEL = "kscheduler.io/queue"
BATCH = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(
            ["wait", "wait", "place", "look", "together", "remove", "bound", "gone", "tree", "read", "ask"]
        ),
    )
)


def queue(name: str, parent: str = "", deserved: str = "0", limit: str = "unlimited") -> QueueObject:
    return QueueObject(ObjectMeta(name=name), QueueSpec(parent, 100, {"cpu": QueueResource(deserved, limit)}))


def queues(*objects: QueueObject, demands: Demands | None = None, cpu: str = "10") -> ShareQueues:
    made = ShareQueues(demands)
    for each in objects:
        made.set(each.metadata.name, each)
    made.set_node(make_node("n").capacity(cpu=cpu).obj())
    return made


def pod(name: str, queue: str = "", cpu: str = "1", priority: int = 0) -> PodBuilder:
    made = make_pod(name).uid(name).req(cpu=cpu).priority(priority)
    return made.label(LABEL, queue) if queue else made


def cpu_of(made: ShareQueues, name: str) -> tuple[int, int, int]:
    """What a queue uses, asks for and is its fair share, in thousandths."""
    made.refresh()
    share = made.tree.queues[name].shares["cpu"]
    return share.allocated, share.request, share.fair


def test_a_pod_is_counted_in_its_queue_and_those_above() -> None:
    made = queues(queue("team"), queue("train", "team"))
    made.pod_added(pod("p", "train").obj())
    assert cpu_of(made, "train") == cpu_of(made, "team") == (1000, 1000, 1000)
    made.pod_removed(pod("p", "train").obj())
    assert cpu_of(made, "team") == (0, 0, 0)


def test_a_pod_that_waits_is_asked_for_and_placing_it_changes_no_fair_share() -> None:
    made = queues(queue("a"), queue("b"))
    made.pod_waits(pod("p", "a").obj())
    assert cpu_of(made, "a") == (0, 1000, 1000)
    epoch = made.epoch
    made.pod_added(pod("p", "a").obj())
    assert cpu_of(made, "a") == (1000, 1000, 1000)
    made.pod_removed(pod("p", "a").obj())
    assert cpu_of(made, "a") == (0, 1000, 1000)
    assert made.epoch == epoch
    made.waits_no_more("p")
    assert cpu_of(made, "a") == (0, 0, 0)


def test_what_pods_in_no_queue_use_is_not_divided() -> None:
    made = queues(queue("a"))
    assert made.total == {"cpu": 10_000}
    made.pod_added(pod("p", cpu="3").obj())
    made.pod_added(pod("q", "nobody", cpu="2").obj())
    assert made.total == {"cpu": 5000}
    made.set("nobody", queue("nobody"))
    assert made.total == {"cpu": 7000}
    assert cpu_of(made, "nobody") == (2000, 2000, 2000)


def test_a_node_that_is_cordoned_or_not_ready_has_nothing_to_divide() -> None:
    made = queues(queue("a"))
    made.set_node(make_node("other").capacity(cpu="5").obj())
    assert made.total == {"cpu": 15_000}
    made.set_node(make_node("other").capacity(cpu="5").unschedulable().obj())
    assert made.total == {"cpu": 10_000}
    made.remove_node("n")
    made.remove_node("n")
    assert made.total == {"cpu": 0}


def test_pods_without_a_label_are_in_the_default_queue() -> None:
    made = queues(queue("a"), demands=Demands("a"))
    made.pod_added(pod("p").obj())
    assert cpu_of(made, "a") == (1000, 1000, 1000)


def test_our_label_counts_before_kais() -> None:
    demands = Demands()
    assert demands.queue_of(make_pod("p").label("kai.scheduler/queue", "b").obj()) == "b"
    assert demands.queue_of(make_pod("p").label("kai.scheduler/queue", "b", LABEL, "a").obj()) == "a"


def test_priority_decides_what_is_preemptible_unless_a_label_does() -> None:
    demands = Demands()
    assert demands.is_preemptible(pod("p", priority=99).obj())
    assert not demands.is_preemptible(pod("p", priority=100).obj())
    label = "kai.scheduler/preemptibility"
    assert demands.is_preemptible(make_pod("p").priority(100).label(label, "preemptible").obj())
    assert not demands.is_preemptible(make_pod("p").label(label, "semi-preemptible").obj())
    assert demands.is_preemptible(make_pod("p").label(label, "whatever").obj())


def test_why_a_queue_cannot_be_used() -> None:
    made = queues(queue("team"), queue("a", "team"), queue("lost", "gone"))
    assert made.why_unusable("a") == ""
    assert made.why_unusable("team") == 'queue "team" has queues below it, and only those without take pods'
    assert made.why_unusable("x") == 'queue "x" does not exist'
    assert made.why_unusable("lost") == (
        'queue "lost" cannot be used: queue lost: spec.parent: expected a queue above lost, got "gone", '
        "which does not exist"
    )


def test_a_pod_with_a_malformed_request_counts_for_nothing() -> None:
    made = queues(queue("a"))
    made.pod_added(pod("p", "a", cpu="x").obj())
    assert cpu_of(made, "a") == (0, 0, 0)
    made.pod_removed(pod("p", "a", cpu="x").obj())


def test_a_pod_that_changes_its_queue_is_counted_in_the_new_one() -> None:
    made = queues(queue("a"), queue("b"))
    made.pod_added(pod("p", "a").obj())
    made.pod_changed(pod("p", "a").obj(), pod("p", "b").obj())
    assert cpu_of(made, "a") == (0, 0, 0)
    assert cpu_of(made, "b") == (1000, 1000, 1000)


def test_a_view_tries_changes_and_leaves_the_tree_as_it_was() -> None:
    made = queues(queue("team", limit="3"), queue("a", "team", deserved="1"), queue("b", "team"))
    there, more = pod("there", "b", "2").obj(), pod("more", "a", "2").obj()
    made.pod_added(there)
    view = ShareView(made)
    demand = made.demands.of(more)
    refused = view.why_refused(demand)
    assert refused is not None
    assert (refused.queue.name, refused.would_use, refused.most) == ("team", 4000, 3000)
    other = view.clone()
    other.remove("there")
    other.remove("there")
    assert other.why_refused(demand) is None
    assert view.why_refused(demand) is not None
    other.add(there)
    other.add(there)
    assert other.why_refused(demand) is not None
    assert cpu_of(made, "team")[0] == 2000


@given(BATCH)
def test_what_is_counted_is_what_the_pods_sum_up_to(steps: list[tuple[int, str]]) -> None:
    made = queues(queue("team", limit="12"), queue("a", "team", limit="8"), queue("b", "team"))
    names = ("a", "b", "none", "team")
    pods = [pod(f"p{number}", names[number % 4], str(number + 1)).obj() for number in range(6)]
    waiting: dict[str, Pod] = {}
    placed: dict[str, Pod] = {}
    for number, step in steps:
        each = pods[number]
        name = each.metadata.name
        if step == "wait":
            made.pod_waits(each)
            waiting[name] = each
        elif step == "bound":
            made.waits_no_more(name)
            waiting.pop(name, None)
        elif step == "place":
            made.pod_added(each)
            placed[name] = each
        elif step == "together":
            some = [other for other in pods[number:] if other.metadata.name not in placed]
            made.pods_added(some)
            placed |= {other.metadata.name: other for other in some}
        elif step == "look":
            some = [other for other in pods[number:] if other.metadata.name not in placed]
            found = [(demand, many) for demand, many in made.by_demand(some) for _ in range(many)]
            assert len(found) == len(some)
            assert sorted(each.queue for each, _ in found) == sorted(map(made.demands.queue_of, some))
        elif step == "ask":
            wanted = [(made.demands.of(each), 1 + number)]
            assert made.turns.admit(wanted) is Turns(made).admit(wanted)
        elif step == "read":
            made.refresh()
            fair = {name: queue.shares["cpu"].fair for name, queue in made.tree.queues.items()}
            set_fair_shares(made.tree.queues.values(), made.total)
            assert fair == {name: queue.shares["cpu"].fair for name, queue in made.tree.queues.items()}
        elif step == "remove":
            made.pod_removed(each)
            placed.pop(name, None)
        elif step == "gone":
            made.waits_no_more(name)
            made.pod_removed(each)
            waiting.pop(name, None)
            placed.pop(name, None)
        else:
            made.remove("b")
            if number % 2:
                made.set("b", queue("b", "team", limit="9"))
    amounts = made.demands.amounts_of
    usable = {"a": ["a"], "b": ["b"], "team": ["a", "b", "team"]}
    for name in made.tree.queues:
        counted = [each for each in usable[name] if each in made.tree.queues]
        is_in = [each for each in placed.values() if made.demands.queue_of(each) in counted]
        asks = {**placed, **{k: v for k, v in waiting.items() if made.demands.queue_of(v) in made.leaves}}
        has_pods = any(made.demands.queue_of(each) == name for each in placed.values())
        assert made.priorities.lowest(name) == (0 if has_pods else None)
        allocated, request, _ = cpu_of(made, name)
        assert allocated == sum(amounts(each)["cpu"] for each in is_in)
        assert request == sum(amounts(each)["cpu"] for each in asks.values() if made.demands.queue_of(each) in counted)


def test_new_pods_are_reported_once_until_what_is_asked_for_is_read() -> None:
    made, calls = queues(queue("a")), []
    made.refresh()
    made.on_stale = lambda: calls.append("stale")
    made.on_change = lambda: calls.append("change")
    for number in range(3):
        made.pod_waits(pod(f"p{number}", "a").obj())
    assert sorted(calls) == ["change", "stale"]
    assert cpu_of(made, "a") == (0, 3000, 3000)
    made.waits_no_more("p0")
    assert sorted(calls) == ["change", "change", "stale", "stale"]
    assert cpu_of(made, "a") == (0, 2000, 2000)


def test_what_nobody_reads_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_queues, "MOST_DEMANDS", 2)
    made = queues(queue("a"))
    assert made.turns.admit([])
    for number in range(5):
        waits = pod(f"p{number}", "a", cpu=str(1 + number)).obj()
        made.pod_waits(waits)
        made.pod_added(waits)
        assert len(made.newly_placed) <= 2
    assert cpu_of(made, "a")[0] == 15_000
    asked = [(Demand("a", {"cpu": 1}, True), 1)]
    assert made.turns.admit(asked) is Turns(made).admit(asked) is True


def test_a_demand_is_read_again_if_any_part_of_the_pod_is_another() -> None:
    demands = Demands()
    first = pod("p", "a").obj()
    assert demands.of(first) is demands.of(first)
    for changed in (
        pod("p", "b").obj(),
        replace(first, spec=replace(first.spec, priority=100)),
        replace(first, spec=replace(first.spec, overhead={"cpu": "1"})),
        replace(first, metadata=replace(first.metadata, labels={LABEL: "b"})),
    ):
        stated = demands.queue_of(changed), demands.amounts_of(changed), demands.is_preemptible(changed)
        expected = Demand(*stated, changed.spec.priority or 0)
        assert demands.of(changed) == expected
        assert demands.of(changed) != demands.of(first)
