"""Queues take turns by KAI-Scheduler's order, each job counted before the next turn."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.turns import turns
from kscheduler.testing import make_node, make_pod

JOB = {"cpu": 1000}


def queues(*stated: tuple[str, str, str], cpu: str = "12", waiting: int = 6) -> ShareQueues:
    """Queues by name, parent and what they deserve, of which each leaf has pods of one cpu that wait."""
    made = ShareQueues()
    for name, parent, deserved in stated:
        spec = QueueSpec(parent, 100, {"cpu": QueueResource(deserved)})
        made.set(name, QueueObject(ObjectMeta(name=name), spec))
    made.set_node(make_node("n").capacity(cpu=cpu).obj())
    for name in made.leaves:
        for number in range(waiting):
            waits = make_pod(f"{name}-{number}").uid(f"{name}-{number}").req(cpu="1")
            made.pod_waits(waits.label("kscheduler.io/queue", name).obj())
    return made


def taken(made: ShareQueues, jobs: int, each: int = 100) -> str:
    """The names of the queues whose jobs are taken in turn; each has so many."""
    left = dict.fromkeys(sorted(made.leaves), each)
    found: list[str] = []
    with turns(made, dict.fromkeys(left, JOB)) as order:
        while len(found) < jobs and (name := order.next()) is not None:
            found.append(name)
            left[name] -= 1
            order.take(name, Demand(name, JOB, True), JOB if left[name] else None)
    return "".join(found)


def test_equal_queues_alternate() -> None:
    assert taken(queues(("a", "", "0"), ("b", "", "0")), 6) == "ababab"


def test_what_is_deserved_comes_first() -> None:
    assert taken(queues(("a", "", "0"), ("b", "", "3")), 6) == "bbbaaa"


def test_levels_are_decided_from_the_top() -> None:
    made = queues(("t", "", "0"), ("u", "", "0"), ("a", "t", "0"), ("b", "t", "0"), ("c", "u", "0"))
    assert taken(made, 8) == "acbcacbc"


def test_a_queue_without_jobs_has_no_turn() -> None:
    made = queues(("t", "", "0"), ("a", "t", "0"), ("b", "", "0"))
    assert taken(made, 9, each=2) == "baba"
    assert taken(made, 0) == ""


def test_the_tree_is_afterwards_as_before() -> None:
    made = queues(("t", "", "0"), ("a", "t", "1"), ("b", "t", "1"))
    before = {queue.name: queue.allocated() for queue in made.tree.queues.values()}
    taken(made, 5)
    assert {queue.name: queue.allocated() for queue in made.tree.queues.values()} == before
