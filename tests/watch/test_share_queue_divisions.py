"""Which waiting pods and gangs are tried again when the fair shares have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kscheduler.api.objects import Pod
from kscheduler.api.share_queues import QueueObject
from kscheduler.gangs.stand_in import StandIn
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.watch.share_queue_divisions import ShareDivisionWatch
from tests.gangs.builders import key_of
from tests.scenarios.share_queues import LABEL, queue
from tests.support.clocks import ManualClock


class RejectedPods:
    """The queue's rejected pods; notes which of them are tried again."""

    def __init__(self, *waiting: QueuedPodInfo) -> None:
        self.waiting = waiting
        self.tried: list[str] = []

    def try_again(self, is_wanted: Callable[[QueuedPodInfo], bool], event: object, now: float) -> int:
        wanted = [each.pod_info.pod.metadata.name for each in self.waiting if is_wanted(each)]
        self.tried += wanted
        return len(wanted)


def pod(of: str, name: str, node: str = "") -> Pod:
    made = make_pod(name).uid(name).req(cpu="1").label(LABEL, of)
    return (made.node(node) if node else made).obj()


def shared(deserved: int) -> ShareQueues:
    """Six cpu, all of them used by `a`; `b` deserves some."""
    made = ShareQueues()
    for each in (queue("a"), deserving(deserved)):
        made.set(each.metadata.name, each)
    made.set_node(make_node("n").capacity(cpu="6").obj())
    for number in range(6):
        made.pod_added(pod("a", f"a{number}", "n"))
    for number in range(4):
        made.pod_waits(pod("b", f"b{number}"))
    return made


def deserving(cpu: int) -> QueueObject:
    return queue("b", deserved=cpu, limit=cpu, weight=0)


class CountedLooks(ShareDivisionWatch):
    looks = 0

    def look(self) -> None:
        self.looks += 1
        super().look()


def watching(
    queues: ShareQueues, rejected: RejectedPods, woken: list[str], whole: Demand | None = None
) -> CountedLooks:
    return CountedLooks(
        queues,
        cast(Any, rejected),
        clock=ManualClock(),
        wake=lambda: woken.append("now"),
        demand_of_gang=lambda waiting: whole,
    )


def waiting_pod(of: str, name: str) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(pod(of, name)), 0.0)


def test_pods_that_may_reclaim_by_the_new_shares_are_tried_again_and_no_others() -> None:
    queues, woken = shared(0), list[str]()
    rejected = RejectedPods(waiting_pod("b", "b0"), waiting_pod("a", "more"), waiting_pod("", "in-no-queue"))
    watch = watching(queues, rejected, woken)
    watch.look()
    assert (rejected.tried, woken) == ([], [])
    queues.set("b", deserving(2))
    watch.look()
    assert (rejected.tried, woken) == (["b0"], ["now"])
    watch.look()
    assert woken == ["now"], "nothing has changed since"


def test_a_gang_is_tried_again_if_its_queue_may_reclaim_for_as_many_members_as_it_lacks() -> None:
    member = PodInfo(pod("b", "train"))
    for lacking, tried in ((2, ["train"]), (3, [])):
        queues = shared(2)
        rejected = RejectedPods(StandIn(member, 0.0, gang_key=key_of("train")))
        whole = queues.demands.of(member.pod).times(lacking)
        watching(queues, rejected, [], whole).look()
        assert rejected.tried == tried


def test_changes_of_one_second_are_looked_at_together_and_nothing_is_looked_at_without_one() -> None:
    async def main() -> None:
        queues = shared(0)
        watch = watching(queues, RejectedPods(), [])
        task = asyncio.ensure_future(watch.run())
        await asyncio.sleep(1.5)
        assert watch.looks == 1
        await asyncio.sleep(10.0)
        assert watch.looks == 1, "nothing has changed since"
        queues.set("b", deserving(1))
        await asyncio.sleep(0.5)
        queues.set("b", deserving(2))
        await asyncio.sleep(10.0)
        assert watch.looks == 2
        task.cancel()

    run_virtual(main())
