"""What queues leave to pods that come one after the other is what a view says of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_room import ShareRoom
from kscheduler.quotas.share_view import ShareView

bounds = st.sampled_from(["0", "2", "4", "unlimited"])
demands = st.builds(
    lambda queue, cpu, is_preemptible: Demand(queue, {"cpu": cpu, "pods": 1}, is_preemptible),
    st.sampled_from(["a", "b", "team", "unknown"]),
    st.sampled_from([0, 500, 1000, 3000]),
    st.booleans(),
)


def queues(*bounds: tuple[str, str]) -> ShareQueues:
    """Two queues below one, with what each deserves and its limit of cpu."""
    made = ShareQueues()
    for (name, parent), (deserved, limit) in zip((("team", ""), ("a", "team"), ("b", "team")), bounds, strict=True):
        spec = QueueSpec(parent, 100, {"cpu": QueueResource(deserved, limit)})
        made.set(name, QueueObject(ObjectMeta(name=name), spec))
    return made


def test_pods_are_counted_in_their_queue_and_those_above() -> None:
    room = ShareRoom(queues(("0", "3"), ("0", "2"), ("0", "unlimited")))
    a, b = (Demand(name, {"cpu": 1000}, True) for name in "ab")
    assert room.has(a, 2)
    room.count(a, 2)
    assert not room.has(a)
    assert room.has(b)
    room.count(b)
    assert not room.has(b)
    assert not room.has(Demand("team", {"cpu": 0}, True)), "only queues without any below them take pods"


@given(st.lists(st.tuples(bounds, bounds), min_size=3, max_size=3), st.lists(demands, max_size=12))
def test_room_and_turns_and_a_view_agree(stated: list[tuple[str, str]], wanted: list[Demand]) -> None:
    made = queues(*stated)
    room, view = ShareRoom(made), ShareView(made)
    admitted: list[tuple[Demand, int]] = []
    for number, demand in enumerate(wanted):
        is_taken = demand.queue in made.leaves and view.why_refused(demand) is None
        assert room.has(demand) is is_taken
        assert made.turns.admit([*admitted, (demand, 1)]) is is_taken
        if is_taken:
            room.count(demand)
            view.add_demand(str(number), demand)
            admitted.append((demand, 1))
