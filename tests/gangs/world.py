"""A queue of gangs with its registry, for the tests of this package; pods and objects come as from the watch."""

from __future__ import annotations

from kscheduler.config.releases import RELEASE_1_37
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE, GangRules
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.queue.pod_info import PLAIN, Pool, QueuedPodInfo
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.snapshot.pod_info import PodInfo
from tests.gangs.builders import DOORS, gang, key_of, pod
from tests.queue.harness import FIT, REGISTERED, Incoming, by_priority, scheduling_gates


class World:
    """A queue with its registry; pods and objects come to both as from the watch."""

    def __init__(self, rules: GangRules = WHOLE, observer: Incoming | None = None) -> None:
        self.registry = Registry(DOORS, rules)
        self.queue = GangQueue(
            by_priority,
            scheduling_gates,
            gangs=self.registry,
            registered={ANY_PROFILE: REGISTERED},
            release=RELEASE_1_37,
            observer=observer,
            lane_of=lambda pod_info: PLAIN,
        )
        self.now = 1000.0
        self.queue.flush(self.now)

    def set(self, name: str, least: int, **fields: object) -> None:
        self.registry.set_gang(gang(name, least, **fields))
        self.queue.reconsider(key_of(name), self.now)
        self.queue.check()

    def add(self, *pods: PodInfo) -> None:
        for each in pods:
            self.queue.add(each, self.now)
            self.queue.check()

    def update(self, new: PodInfo) -> None:
        self.queue.update(None, new, self.now)
        self.queue.check()

    def delete(self, name: str) -> None:
        self.queue.delete(f"uid-default-{name}")
        self.queue.check()

    def pop(self, most: int = 10) -> list[str]:
        popped = self.queue.pop_many(self.now, most)
        self.queue.check()
        return [names(each) for each in popped]

    def pop_gang(self) -> StandIn:
        (popped,) = self.queue.pop_many(self.now, 1)
        assert isinstance(popped, StandIn)
        self.queue.check()
        return popped

    def assume(self, qpi: QueuedPodInfo) -> None:
        self.registry.move(qpi.uid, Stage.ASSUMED)

    def bind(self, qpi: QueuedPodInfo) -> None:
        self.queue.done(qpi.uid)
        self.registry.move(qpi.uid, Stage.BOUND)
        self.queue.reconsider(self.registry.members[qpi.uid].tracked.key, self.now)
        self.queue.check()

    def fail_to_bind(self, qpi: QueuedPodInfo) -> None:
        self.queue.requeue_after_error(qpi, self.now)
        self.queue.check()

    def reject(self, stand_in: StandIn, plugins: frozenset[str] = FIT, *, failed: int = 0) -> Pool:
        members = list(stand_in.flying.values())
        for qpi in members:
            self.queue.add_unschedulable_if_not_present(qpi, self.now, plugins)
        pool = self.queue.return_gang(stand_in, Outcome.REJECTED, self.now, plugins, failed=members[failed])
        self.queue.check()
        return pool

    def place(self, stand_in: StandIn) -> list[QueuedPodInfo]:
        members = list(stand_in.flying.values())
        for qpi in members:
            self.assume(qpi)
        self.queue.return_gang(stand_in, Outcome.PLACED, self.now)
        self.queue.check()
        return members

    def ready(self, name: str, members: int, priority: int = 0) -> None:
        """Add a gang of so many members that needs all of them."""
        self.set(name, members)
        self.add(*(pod(f"{name}-{i}", name, priority=priority) for i in range(members)))


def names(popped: QueuedPodInfo) -> str:
    """Return a pod's name; of a gang its name and those of its members."""
    name = popped.pod_info.pod.metadata.name
    if not isinstance(popped, StandIn):
        return name
    return f"{name}: {' '.join(qpi.pod_info.pod.metadata.name for qpi in popped.flying.values())}"
