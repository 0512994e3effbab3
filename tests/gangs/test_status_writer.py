"""The condition of a PodGroup: written when it says something new, never back to False, and by the leader only."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import GroupCondition, PodGroup, PodGroupStatus
from kscheduler.client.kinds import Resource
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.client.protocol import Client
from kscheduler.client.write_permission import WritePermission
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.errors import APIError, Forbidden, NotFound, Unreachable
from kscheduler.gangs.status_writer import SCHEDULED, UNSCHEDULABLE, GroupStatuses
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from tests.gangs.builders import gang


class Written:
    """A client that keeps conditions, or fails."""

    def __init__(self) -> None:
        self.conditions: list[GroupCondition] = []
        self.faults: list[APIError] = []
        self.takes_s = 0.0

    async def patch_condition(
        self, resource: Resource[Any], namespace: str, name: str, uid: str, condition: GroupCondition
    ) -> None:
        await asyncio.sleep(self.takes_s)
        if self.faults:
            raise self.faults.pop()
        assert (resource.group_version, namespace, name, uid) == (
            "scheduling.k8s.io/v1beta1",
            "default",
            "train",
            "uid-train",
        )
        self.conditions.append(condition)

    def shown(self) -> list[tuple[str, str, str, bool]]:
        """Return status, reason, message of each condition, and whether it has a new transition time."""
        return [
            (each.status, each.reason, each.message, each.last_transition_time is not None) for each in self.conditions
        ]


def writer(client: Written, permission: WritePermission | None = None) -> GroupStatuses:
    clock = LoopClock(asyncio.get_running_loop())
    return GroupStatuses(
        cast(Client, client),
        pod_groups(RELEASE_1_37),
        "PodGroupInitiallyScheduled",
        permission or WritePermission(),
        clock,
    )


async def written(statuses: GroupStatuses, seconds: float = 1.0) -> None:
    task = asyncio.ensure_future(statuses.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_only_what_is_new_is_written_and_scheduled_stays() -> None:
    async def scenario() -> None:
        client = Written()
        statuses = writer(client)
        for text in ("no room", "no room", "no CPU"):
            statuses.want(gang("train", 2), UNSCHEDULABLE, text)
            await written(statuses)
        statuses.want(gang("train", 2), SCHEDULED, "2 pods")
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        await written(statuses)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        await written(statuses)
        assert client.shown() == [
            ("False", UNSCHEDULABLE, "no room", True),
            ("False", UNSCHEDULABLE, "no CPU", False),
            ("True", SCHEDULED, "2 pods", True),
        ]

    run_virtual(scenario())


@pytest.mark.parametrize("faults", [0, 1])
def test_a_group_whose_placement_is_just_being_written_stays_scheduled(faults: int) -> None:
    async def scenario() -> None:
        client = Written()
        client.takes_s = 0.5
        client.faults = [Unreachable("no answer")] * faults
        statuses = writer(client)
        statuses.want(gang("train", 2), SCHEDULED, "2 pods")
        task = asyncio.ensure_future(written(statuses, 20.0))
        await asyncio.sleep(0.25)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room for a third")
        await task
        assert client.shown() == [("True", SCHEDULED, "2 pods", True)]

    run_virtual(scenario())


def test_a_placement_that_is_known_while_a_failure_is_being_written_is_written_next() -> None:
    async def scenario() -> None:
        client = Written()
        client.takes_s = 0.5
        statuses = writer(client)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        task = asyncio.ensure_future(written(statuses, 20.0))
        await asyncio.sleep(0.25)
        statuses.want(gang("train", 2), SCHEDULED, "2 pods")
        await task
        assert [each.status for each in client.conditions] == ["False", "True"]

    run_virtual(scenario())


def test_what_the_object_says_already_is_not_written_again() -> None:
    async def scenario() -> None:
        client = Written()
        statuses = writer(client)
        condition = GroupCondition(type="PodGroupInitiallyScheduled", status="True", reason=SCHEDULED)
        metadata = ObjectMeta(name="train", namespace="default", uid="uid-train")
        group = PodGroup(metadata=metadata, status=PodGroupStatus([condition]))
        statuses.seen(group)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        await written(statuses)
        assert client.conditions == []
        statuses.gone(group)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        await written(statuses)
        assert len(client.conditions) == 1

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("fault", "times"), [(NotFound("gone"), 0), (Forbidden("no right"), 0), (Unreachable("no answer"), 1)]
)
def test_a_write_that_failed_is_repeated_if_that_may_help(fault: APIError, times: int) -> None:
    async def scenario() -> None:
        client = Written()
        client.faults.append(fault)
        statuses = writer(client)
        statuses.want(gang("train", 2), UNSCHEDULABLE, "no room")
        await written(statuses, 20.0)
        assert len(client.conditions) == times

    run_virtual(scenario())
