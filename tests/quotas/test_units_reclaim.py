"""Jobs of several pods take room of others whole: reclaimers stay within their share, and reclaiming comes to rest."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.quotas.fair_share import set_fair_shares
from kscheduler.quotas.queue_order import dominant_share
from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.reclaim import Taking, can_reclaim, may_take_from, why_refused
from tests.quotas.trees import GPU

MOST_STEPS = 200


def flat(*shares: Share) -> list[Queue]:
    return [Queue(f"q{number}", shares={GPU: share}) for number, share in enumerate(shares)]


def test_what_leaves_together_is_one_victim() -> None:
    mine, theirs = flat(Share(fair=4), Share(fair=4, allocated=6))
    assert Taking(mine, {GPU: 4}, is_preemptible=True).take_together({theirs: {GPU: 6}})
    assert not may_take_from(mine, {GPU: 4}, {theirs: [{GPU: 1}] * 6}, is_preemptible=True)


def test_after_each_victim_its_queue_is_asked_again() -> None:
    mine, theirs = flat(Share(fair=4), Share(fair=4, allocated=6))
    taking = Taking(mine, {GPU: 4}, is_preemptible=True)
    assert [taking.take_together({theirs: {GPU: 1}}) for _ in range(3)] == [True, True, False]


def test_a_victim_that_may_not_be_taken_leaves_no_trace() -> None:
    tops = flat(Share(fair=2, allocated=1), Share(fair=6, allocated=12))
    mine, theirs = (Queue(f"of-{top.name}", top, shares={GPU: Share(fair=4)}) for top in tops)
    theirs.shares[GPU].allocated = 12
    taking = Taking(mine, {GPU: 2}, is_preemptible=True)
    assert not taking.take_together({theirs: {GPU: 6}}), "its side would be less saturated than the taker's"
    assert taking.take_together({theirs: {GPU: 2}})
    assert not taking.take_together({theirs: {GPU: 1}}), "what was taken counts"


def test_of_two_sides_without_a_share_none_takes_more_than_it_leaves() -> None:
    tops = flat(Share(fair=0), Share(fair=0, allocated=1))
    mine, theirs = (Queue(f"of-{top.name}", top, shares={GPU: Share(deserved=1, fair=1)}) for top in tops)
    theirs.shares[GPU].allocated = 1
    assert not may_take_from(mine, {GPU: 1}, {theirs: [{GPU: 1}]}, is_preemptible=True)
    tops[1].shares[GPU].allocated = theirs.shares[GPU].allocated = 2
    assert may_take_from(mine, {GPU: 1}, {theirs: [{GPU: 1}]}, is_preemptible=True)


# --- any tree ---


@dataclass(eq=False)
class Job:
    queue: Queue
    size: int
    is_running: bool = False


class RandomTree:
    """A random tree of queues whose jobs run or wait, on a cluster that has room but no nodes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        tops = [Queue(f"t{number}", priority=rng.randint(0, 2)) for number in range(rng.randint(1, 3))]
        leaves = [
            Queue(f"{top.name}-{number}", top, rng.randint(0, 2)) for top in tops for number in range(rng.randint(1, 3))
        ]
        for queue in (*tops, *leaves):
            deserved, limit = rng.choice([None, 0, 0, 1, 2, 4, 8]), rng.choice([None, None, None, 3, 6, 10])
            queue.shares = {GPU: Share(deserved=deserved, limit=limit, weight=rng.choice([0, 1, 1, 3]))}
        self.jobs = [Job(leaf, rng.choice([1, 1, 1, 2, 3, 4, 5])) for leaf in leaves for _ in range(rng.randint(0, 5))]
        rng.shuffle(self.jobs)
        for job in self.jobs:
            for queue in job.queue.path():
                queue.shares[GPU].request += job.size
        self.total = self.free = rng.randint(4, 24)
        set_fair_shares([*tops, *leaves], {GPU: self.total})

    def move(self, job: Job, is_running: bool) -> None:
        times = 1 if is_running else -1
        job.is_running = is_running
        self.free -= times * job.size
        for queue in job.queue.path():
            queue.shares[GPU].allocated += times * job.size

    def fits(self, job: Job, without: list[Job]) -> bool:
        for other in without:
            self.move(other, False)
        found = job.size <= self.free and why_refused(job.queue, {GPU: job.size}, is_preemptible=True) is None
        for other in without:
            self.move(other, True)
        return found

    def victims(self, job: Job) -> list[Job] | None:
        """The jobs that leave for this one, as few as possible; None if they may not make enough room."""
        if not can_reclaim(job.queue, {GPU: job.size}, is_preemptible=True):
            return None
        taking = Taking(job.queue, {GPU: job.size}, is_preemptible=True)
        others = [other for other in self.jobs if other.is_running and other.queue is not job.queue]
        self.rng.shuffle(others)
        taken: list[Job] = []
        for other in sorted(others, key=lambda other: self._saturation(other.queue)):
            if taking.take_together({other.queue: {GPU: other.size}}):
                taken.append(other)
                if self.fits(job, taken):
                    break
        else:
            return None
        for other in list(taken):
            rest = [each for each in taken if each is not other]
            taken = rest if self.fits(job, rest) else taken
        return taken

    def _saturation(self, queue: Queue) -> tuple[float, ...]:
        path = reversed(queue.path())
        return tuple(-dominant_share(each, each.allocated(), {GPU: self.total}) for each in path)

    def step(self) -> str:
        """Place a job where there is room, else reclaim room for one; "" if neither can be done."""
        waiting = [job for job in self.jobs if not job.is_running]
        self.rng.shuffle(waiting)
        for job in waiting:
            if self.fits(job, []):
                self.move(job, True)
                return "placed"
        for job in waiting:
            victims = self.victims(job)
            if victims is not None:
                for victim in victims:
                    self.move(victim, False)
                self.move(job, True)
                share = job.queue.shares[GPU]
                assert share.allocated <= share.fair, f"{job.queue.name} has taken more than its share"
                return "reclaimed"
        return ""


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_at_unchanged_demand_reclaiming_by_whole_jobs_comes_to_rest(seed: int) -> None:
    tree, steps = RandomTree(random.Random(seed)), 0
    while tree.step():
        steps += 1
        assert steps <= MOST_STEPS, "reclaiming goes on and on"
