"""Pods that are away on trial are not counted in their queues, and are again afterwards."""

from __future__ import annotations

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.pod_demand import Demand, together
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.testing import make_node, make_pod

LABEL = "kscheduler.io/queue"


def crowded() -> ShareQueues:
    """Four cpu in use, of a limit of four above two queues."""
    made = ShareQueues()
    for name, parent, limit in (("team", "", 4), ("a", "team", "unlimited"), ("b", "team", "unlimited")):
        spec = QueueSpec(parent, resources={"cpu": QueueResource(0, limit)})
        made.set(name, QueueObject(ObjectMeta(name=name), spec))
    made.set_node(make_node("n").capacity(cpu="8").obj())
    for number in range(4):
        made.pod_added(make_pod(f"a{number}").uid(f"a{number}").req(cpu="1").label(LABEL, "a").node("n").obj())
    return made


def used(queues: ShareQueues) -> dict[str, int]:
    return {name: queue.shares["cpu"].allocated for name, queue in queues.tree.queues.items()}


def test_room_of_pods_that_are_away_can_be_used_by_others() -> None:
    queues = crowded()
    queues.refresh()
    before, fair = used(queues), {name: queue.shares["cpu"].fair for name, queue in queues.tree.queues.items()}
    demand = Demand("b", {"cpu": 1000}, True)
    uncounted = Uncounted(queues)
    assert not queues.turns.admit([(demand, 1)])
    uncounted.take("a0")
    uncounted.take("a0")
    uncounted.take("nobody")
    assert used(queues) == {**before, "a": 3000, "team": 3000}
    assert queues.turns.admit([(demand, 1)])
    assert not queues.turns.admit([(demand, 2)])
    assert {name: queue.shares["cpu"].fair for name, queue in queues.tree.queues.items()} == fair
    uncounted.put_back("nobody")
    uncounted.put_all_back()
    assert used(queues) == before
    assert not queues.turns.admit([(demand, 1)])


def test_pods_of_one_template_ask_together_for_a_multiple() -> None:
    demand = Demand("a", {"cpu": 2}, True, 5)
    assert together([demand] * 3, 2) == Demand("a", {"cpu": 4}, True, 5)
    assert together([demand], 2) == demand


def test_of_different_pods_the_largest_count() -> None:
    demands = [Demand("a", {"cpu": 1, "memory": 9}, True, 5), Demand("a", {"cpu": 3}, False, 2), Demand("a", {}, True)]
    assert together(demands, 2) == Demand("a", {"cpu": 4, "memory": 9}, False, 0)


def test_pods_of_several_queues_ask_for_nothing_together() -> None:
    assert together([Demand("a", {"cpu": 1}, True), Demand("b", {"cpu": 1}, True)], 2) is None
