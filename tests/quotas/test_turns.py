"""Queues take turns by KAI-Scheduler's order, each job counted before the next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.queue_order import Candidate, in_order
from kscheduler.quotas.queues import Amounts, Queue
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.turns import Turns
from kscheduler.quotas.use_sums import count_use
from kscheduler.testing import make_node, make_pod

JOB = {"cpu": 1000}
NAMES = st.sampled_from("abcd")


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
    order = made.turns
    name = order.begin(dict.fromkeys(left, JOB))
    while len(found) < jobs and name is not None:
        found.append(name)
        left[name] -= 1
        name = order.take(name, JOB if left[name] else None)
    order.end()
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


@given(st.data())
def test_what_is_remembered_from_round_to_round_changes_no_turn(data: st.DataObject) -> None:
    made = queues(("t", "", "2"), ("u", "", "0"), ("a", "t", "1"), ("b", "t", "0"), ("c", "u", "2"), ("d", "u", "0"))
    kept = made.turns
    sizes = st.sampled_from([{"cpu": 1000}, {"cpu": 2000}, {"cpu": 500}])
    for number in range(data.draw(st.integers(1, 8))):
        step = data.draw(st.sampled_from(["place", "wait", "limit", "none"]))
        pod = make_pod(f"x{number}").uid(f"x{number}").req(cpu="1").label("kscheduler.io/queue", data.draw(NAMES))
        if step == "place":
            made.pod_added(pod.obj())
        elif step == "wait":
            made.pod_waits(pod.obj())
        elif step == "limit":
            spec = QueueSpec("t", 100, {"cpu": QueueResource(data.draw(st.integers(0, 4)))})
            made.set("a", QueueObject(ObjectMeta(name="a"), spec))
        jobs = data.draw(st.dictionaries(NAMES, st.lists(sizes, min_size=1, max_size=4)))
        assert played(kept, jobs) == played(Turns(made), jobs) == by_kais_order(made, jobs)


def played(order: Turns, jobs: Mapping[str, Sequence[Amounts]]) -> list[str]:
    """A round in which all of these jobs are taken."""
    left, found = {name: list(each) for name, each in jobs.items()}, []
    name = order.begin({name: each[0] for name, each in left.items()})
    while name is not None:
        found.append(name)
        del left[name][0]
        name = order.take(name, left[name][0] if left[name] else None)
    order.end()
    return found


def by_kais_order(made: ShareQueues, jobs: Mapping[str, Sequence[Amounts]]) -> list[str]:
    """The same turns, for each of which all siblings are put in order, level by level."""
    left = {name: list(each) for name, each in jobs.items() if name in made.leaves}
    found: list[str] = []
    taken: list[tuple[Queue, Amounts]] = []
    while any(left.values()):
        above: Queue | None = None
        while above is None or above.name not in left:
            below = [queue for queue in made.tree.queues.values() if queue.parent is above]
            above = in_order([each for queue in below if (each := next_job(made, queue, left))], made.total)[0].queue
        found.append(above.name)
        taken.append((above, left[above.name].pop(0)))
        count_use(*taken[-1], {}, 1)
    for queue, job in taken:
        count_use(queue, job, {}, -1)
    return found


def next_job(made: ShareQueues, queue: Queue, left: Mapping[str, Sequence[Amounts]]) -> Candidate | None:
    """The queue with its next job, or that of the first queue below it; None if there is none."""
    if queue.name in left:
        return Candidate(queue, left[queue.name][0]) if left[queue.name] else None
    below = [each for each in made.tree.queues.values() if each.parent is queue]
    found = in_order([each for other in below if (each := next_job(made, other, left))], made.total)
    return Candidate(queue, found[0].job) if found else None


def test_the_tree_is_afterwards_as_before() -> None:
    made = queues(("t", "", "0"), ("a", "t", "1"), ("b", "t", "1"))
    before = {queue.name: queue.allocated() for queue in made.tree.queues.values()}
    taken(made, 5)
    assert {queue.name: queue.allocated() for queue in made.tree.queues.values()} == before
