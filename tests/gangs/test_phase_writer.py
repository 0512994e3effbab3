"""The status of Coscheduling's PodGroups: written by the leader only, and not beside their own controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Lease, LeaseSpec, ObjectMeta, Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL, CoschedulingPodGroup, CoschedulingPodGroupStatus
from kscheduler.client.informer import Informer, KeepNewest
from kscheduler.client.kinds import PODS
from kscheduler.client.pod_group_kinds import COSCHEDULING_POD_GROUPS
from kscheduler.client.write_permission import WritePermission
from kscheduler.gangs.phase_writer import LEASE_KNOWN_S, LEASE_NAME, LEASE_NAMESPACE, REFUSED_PAUSE_S, GroupPhases
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import WHOLE
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.testing.wrappers import make_pod
from tests.gangs.builders import DOORS
from tests.scenarios.gangs import gang

WRITTEN_S = 10.0  # by then a status is written


class Stand:
    """A cluster with PodGroups, and what keeps their status."""

    def __init__(self, permission: WritePermission | None = None) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client = self.cluster.client()
        self.faults = self.client.faults
        self.registry = Registry(DOORS, WHOLE)
        self.phases = GroupPhases(self.client, self.registry, permission or WritePermission(), self.clock)
        self.cluster.store(PODS).subscribe(self._pod_changed)
        self.versions: list[CoschedulingPodGroupStatus] = []
        self.cluster.store(COSCHEDULING_POD_GROUPS).subscribe(self._written)
        handler = KeepNewest(self.phases.seen, self.phases.gone)
        self._groups: Informer[CoschedulingPodGroup] = Informer(
            self.client, COSCHEDULING_POD_GROUPS, handler, clock=self.clock, rng=self.phases._informer._rng
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _written(self, before: CoschedulingPodGroup | None, after: CoschedulingPodGroup | None) -> None:
        if before is not None and after is not None:
            self.versions.append(after.status)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """What the scheduler's own informer of unfinished pods does to the registry."""
        if after is not None and after.status.phase not in ("Succeeded", "Failed"):
            self.registry.set_member(after, Stage.BOUND)
        elif before is not None:
            self.registry.remove_member(before.metadata.uid)

    async def sleep(self, seconds: float = WRITTEN_S) -> None:
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(each.run()) for each in (self._groups, self.phases)]
        await asyncio.sleep(seconds)
        assert not any(task.done() for task in self._tasks)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add_pods(self, *phases: str, of: str = "train", namespace: str = "default") -> None:
        for phase in phases:
            name = f"{of}-{len(self.cluster.pods)}"
            pod = self.cluster.create_pod(make_pod(name, namespace).uid("").label(POD_GROUP_LABEL, of).obj())
            self.become(pod, phase)

    def become(self, pod: Pod, phase: str) -> None:
        self.cluster.update_pod(replace(pod, status=replace(pod.status, phase=phase)))

    def status(self, name: str = "train") -> tuple[str, int, int, int]:
        status = self.cluster.store(COSCHEDULING_POD_GROUPS).objects[f"default/{name}"].status
        return status.phase, status.running, status.succeeded, status.failed

    def hold_lease(self, renewed: str) -> None:
        spec = LeaseSpec(holder_identity="controller", lease_duration_seconds=15, renew_time=renewed)
        key = f"{LEASE_NAMESPACE}/{LEASE_NAME}"
        lease = Lease(metadata=ObjectMeta(name=LEASE_NAME, namespace=LEASE_NAMESPACE), spec=spec)
        if key in self.cluster.leases:
            self.cluster.update_lease(lease)
        else:
            self.cluster.create_lease(lease)


def on_a_stand(scenario: Callable[[Stand], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        async def play() -> None:
            stand = Stand()
            try:
                await scenario(stand)
            finally:
                await stand.stop()

        run_virtual(play())

    test.__name__ = scenario.__name__
    return test


@on_a_stand
async def test_a_group_goes_from_pending_to_finished(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 2))
    await stand.sleep()
    assert stand.status() == ("Pending", 0, 0, 0)
    stand.add_pods("Pending", "Pending")
    await stand.sleep()
    assert stand.status() == ("Scheduling", 0, 0, 0)
    for pod in list(stand.cluster.pods.values()):
        stand.become(pod, "Running")
    await stand.sleep()
    assert stand.status() == ("Running", 2, 0, 0)
    for pod in list(stand.cluster.pods.values()):
        stand.become(pod, "Succeeded")
    await stand.sleep()
    assert stand.status() == ("Finished", 0, 2, 0)
    for key in list(stand.cluster.pods):
        stand.cluster.delete_pod(key)
    await stand.sleep()
    assert stand.status() == ("Finished", 0, 2, 0)


@on_a_stand
async def test_what_happened_before_this_program_started_counts(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 3))
    stand.add_pods("Succeeded", "Succeeded", "Failed", "Running")
    await stand.sleep()
    assert stand.status() == ("Failed", 1, 2, 1)


@on_a_stand
async def test_many_changes_are_one_write(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 50))
    await stand.sleep()
    stand.add_pods(*["Running"] * 50)
    await stand.sleep()
    assert [(status.phase, status.running) for status in stand.versions] == [("Pending", 0), ("Running", 50)]


@on_a_stand
async def test_a_group_of_the_same_name_elsewhere_does_not_count(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 1))
    stand.add_pods("Running", namespace="other")
    await stand.sleep()
    assert stand.status() == ("Pending", 0, 0, 0)


@on_a_stand
async def test_a_pod_that_changes_its_group_counts_in_the_new_one(stand: Stand) -> None:
    for name in ("train", "serve"):
        stand.cluster.create_object(gang(name, 1))
    stand.add_pods("Running")
    await stand.sleep()
    assert stand.status("train") == ("Running", 1, 0, 0)
    (pod,) = stand.cluster.pods.values()
    stand.cluster.update_pod(replace(pod, metadata=replace(pod.metadata, labels={POD_GROUP_LABEL: "serve"})))
    await stand.sleep()
    assert stand.status("train") == ("Pending", 0, 0, 0)
    assert stand.status("serve") == ("Running", 1, 0, 0)


@on_a_stand
async def test_faults_of_writes_are_overcome(stand: Stand) -> None:
    for kind in (FaultKind.SERVER_ERROR, FaultKind.LOST_ANSWER, FaultKind.CONFLICT, FaultKind.TIMEOUT):
        stand.faults.add(kind, Verb.PATCH_GROUP, count=1)
    stand.cluster.create_object(gang("train", 1))
    await stand.sleep(60)
    stand.add_pods("Running")
    await stand.sleep(60)
    assert stand.status() == ("Running", 1, 0, 0)


@on_a_stand
async def test_a_group_that_is_refused_again_and_again_does_not_hold_up_others(stand: Stand) -> None:
    stand.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_GROUP, matches=lambda group: group == "default/bad")
    for name in ("bad", "train"):
        stand.cluster.create_object(gang(name, 1))
    await stand.sleep()
    assert (stand.status("bad"), stand.status("train")) == (("", 0, 0, 0), ("Pending", 0, 0, 0))


@on_a_stand
async def test_a_write_of_somebody_else_in_between_is_not_undone(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 1))
    stand.add_pods("Running")
    stand.faults.add(FaultKind.SLOW, Verb.PATCH_GROUP, count=1, delay_s=1.0)
    await stand.sleep(1.5)
    group = stand.cluster.store(COSCHEDULING_POD_GROUPS).objects["default/train"]
    finished = CoschedulingPodGroupStatus(phase="Finished", succeeded=1)
    stand.cluster.update_object(replace(group, status=finished))
    await stand.sleep(60)
    assert stand.status() == ("Finished", 0, 1, 0)


class Elected:
    is_leader = False


def test_only_the_leader_writes_and_watches() -> None:
    async def play() -> None:
        elected = Elected()
        stand = Stand(WritePermission(elected))
        try:
            stand.cluster.create_object(gang("train", 1))
            stand.add_pods("Running")
            await stand.sleep(60)
            assert stand.status() == ("", 0, 0, 0)
            assert not stand.phases._informer.synced.is_set()
            elected.is_leader = True
            await stand.sleep()
            assert stand.status() == ("Running", 1, 0, 0)
        finally:
            await stand.stop()

    run_virtual(play())


@on_a_stand
async def test_nothing_is_written_before_all_pods_are_known(stand: Stand) -> None:
    is_synced = False
    stand.phases._is_synced = lambda: is_synced
    stand.cluster.create_object(gang("train", 2))
    stand.add_pods("Pending")
    await stand.sleep(60)
    assert stand.status() == ("", 0, 0, 0)
    is_synced = True
    await stand.sleep()
    assert stand.status() == ("Pending", 0, 0, 0)


@on_a_stand
async def test_pods_that_wait_are_not_watched_for_this(stand: Stand) -> None:
    stand.cluster.create_object(gang("train", 2))
    stand.add_pods("Pending", "Pending")
    await stand.sleep()
    assert stand.status() == ("Scheduling", 0, 0, 0)
    assert not stand.phases._informer.store


def test_nothing_is_written_while_the_controller_renews_its_lease_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kscheduler.gangs.phase_writer")

    @on_a_stand
    async def play(stand: Stand) -> None:
        stand.cluster.create_object(gang("train", 1))
        stand.add_pods("Running")
        for second in range(30):
            stand.hold_lease(f"2026-01-01T00:00:{second:02}.000000Z")
            await stand.sleep(2)
        assert stand.status() == ("", 0, 0, 0)
        assert len(caplog.records) == 1
        await stand.sleep(15 + 2 * LEASE_KNOWN_S)  # the controller was killed
        assert stand.status() == ("Running", 1, 0, 0)
        stand.hold_lease("2026-01-01T00:01:00.000000Z")
        await stand.sleep(LEASE_KNOWN_S)
        stand.add_pods("Running")
        await stand.sleep(5)
        assert stand.status() == ("Running", 1, 0, 0)

    play()
    assert [record.__dict__["writer"].split(",")[0] for record in caplog.records] == [
        "scheduler-plugins' controller",
        "kscheduler",
        "scheduler-plugins' controller",
    ]


@pytest.mark.parametrize("verb", [Verb.GET_LEASE, Verb.PATCH_GROUP])
def test_a_missing_right_is_one_warning_and_when_it_is_granted_all_is_written(
    verb: Verb, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kscheduler.gangs.phase_writer")

    @on_a_stand
    async def play(stand: Stand) -> None:
        stand.faults.add(FaultKind.FORBIDDEN, verb)
        for name in ("serve", "train"):
            stand.cluster.create_object(gang(name, 1))
        stand.add_pods("Running")
        await stand.sleep(600)
        assert stand.status() == ("", 0, 0, 0)
        assert len(caplog.records) == 1
        stand.faults.clear()
        await stand.sleep(REFUSED_PAUSE_S + WRITTEN_S)
        assert stand.status("serve") == ("Pending", 0, 0, 0)
        assert stand.status("train") == ("Running", 1, 0, 0)

    play()
