"""Of members that leave, those count that have succeeded, as far as the apiserver still knows it."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.gangs import finished_members
from kscheduler.gangs.finished_members import PAUSE_S, TRIES, FinishedMembers
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.gangs.builders import DOORS, gang, key_of
from tests.support.world import in_virtual_time


def member(name: str, phase: str = "Running") -> PodBuilder:
    return make_pod(name).label(POD_GROUP_LABEL, "train").node("n1").phase(phase)


class Leaving:
    """A gang of three, whose members leave the registry as an informer of unfinished pods says."""

    def __init__(self) -> None:
        self.cluster = Cluster(LoopClock(asyncio.get_running_loop()))
        self.client = self.cluster.client()
        self.registry = Registry(DOORS, WHOLE)
        self.registry.set_gang(gang("train", 3))
        self.changed: list[GangKey] = []
        self.finished = FinishedMembers(self.client, self.registry, self.changed.append)
        self.handler = self.finished.around(self)
        self.task = asyncio.ensure_future(self.finished.run())

    async def __aenter__(self) -> Leaving:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def on_add(self, pod: Pod) -> None:
        self.registry.set_member(pod, Stage.BOUND)

    def on_update(self, old: Pod, new: Pod) -> None:
        self.registry.set_member(new, Stage.BOUND)

    def on_delete(self, pod: Pod) -> None:
        self.registry.remove_member(pod.metadata.uid)

    def run(self, *names: str) -> list[Pod]:
        pods = [member(name).obj() for name in names]
        for pod in pods:
            self.handler.on_add(pod)
        return pods

    @property
    def gang(self) -> TrackedGang:
        tracked = self.registry.get(key_of("train"))
        assert tracked is not None
        return tracked


@in_virtual_time
async def test_a_member_that_has_succeeded_counts_and_one_that_failed_or_is_gone_does_not() -> None:
    async with Leaving() as leaving:
        done, failed, gone, _ = leaving.run("done", "failed", "gone", "goes-on")
        leaving.cluster.create_pod(member("done", "Succeeded").obj())
        leaving.cluster.create_pod(member("failed", "Failed").obj())
        for pod in (done, failed, gone):
            leaving.handler.on_delete(pod)
        await asyncio.sleep(60)
        assert leaving.gang.succeeded == 1
        assert leaving.changed == [key_of("train")]
        assert "uid-default-done" not in leaving.registry.members


@in_virtual_time
async def test_another_pod_that_has_the_name_by_now_says_nothing_about_the_member() -> None:
    async with Leaving() as leaving:
        pod, _ = leaving.run("done", "goes-on")
        leaving.cluster.create_pod(member("done", "Succeeded").uid("another").obj())
        leaving.handler.on_delete(pod)
        await asyncio.sleep(60)
        assert leaving.gang.succeeded == 0


@in_virtual_time
async def test_nobody_is_asked_about_a_member_that_was_deleted_or_not_bound_or_about_another_pod() -> None:
    async with Leaving() as leaving:
        leaving.run("goes-on")
        leaving.client.faults.add(FaultKind.UNAVAILABLE, Verb.GET_POD)
        named = make_pod("a").label(POD_GROUP_LABEL, "train")
        for pod in (named.node("n1").terminating().obj(), make_pod("b").label(POD_GROUP_LABEL, "train").obj()):
            leaving.handler.on_add(pod)
            leaving.handler.on_delete(pod)
        leaving.handler.on_delete(make_pod("other").node("n1").obj())
        await asyncio.sleep(60)
        assert leaving.client.faults.struck(FaultKind.UNAVAILABLE) == 0


@pytest.mark.parametrize(("failures", "succeeded"), [(TRIES - 1, 1), (TRIES, 0)])
@in_virtual_time
async def test_a_request_that_fails_is_repeated_a_few_times(failures: int, succeeded: int) -> None:
    async with Leaving() as leaving:
        pod, _ = leaving.run("done", "goes-on")
        leaving.cluster.create_pod(member("done", "Succeeded").obj())
        leaving.client.faults.add(FaultKind.UNAVAILABLE, Verb.GET_POD, count=failures)
        leaving.handler.on_delete(pod)
        await asyncio.sleep(TRIES * PAUSE_S + 60)
        assert leaving.gang.succeeded == succeeded


@in_virtual_time
async def test_what_succeeded_in_a_run_that_is_over_does_not_count_for_the_next_one() -> None:
    async with Leaving() as leaving:
        (pod,) = leaving.run("done")
        leaving.cluster.create_pod(member("done", "Succeeded").obj())
        leaving.handler.on_delete(pod)  # the last member: its run is over before the answer comes
        leaving.run("next")
        await asyncio.sleep(60)
        assert leaving.gang.succeeded == 0
        assert not leaving.changed


@in_virtual_time
async def test_beyond_the_limit_members_are_not_asked_about_and_all_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_members, "MOST_ASKED", 2)
    async with Leaving() as leaving:
        pods = leaving.run("a", "b", "c", "goes-on")[:3]
        for pod in pods:
            leaving.cluster.create_pod(member(pod.metadata.name, "Succeeded").obj())
            leaving.handler.on_delete(pod)
        await asyncio.sleep(60)
        assert leaving.gang.succeeded == 2
