"""Policy objects followed on the cluster in memory, and what is reported on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import yaml

from kscheduler.api.objects import MetricPolicyObject, ObjectMeta, TASPolicyObject
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import METRIC_POLICIES, TAS_POLICIES
from kscheduler.client.protocol import Regarding
from kscheduler.client.write_permission import WritePermission
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.telemetry.policy_objects import FIRST_LISTS_S, PolicyObjects
from tests.telemetry.policies import HOT, book_of, pod, profile_of

CONFIG = """
sources: [{name: custom, customMetrics: {}}]
metrics: [{name: load, source: custom, metric: load}]
policyObjects: true
tasPolicies: true
"""
GOOD, BAD = "{score: [{metric: load}]}", "{score: [{metric: load, weight: 0}]}"
FAULT = "spec.score[0].weight: Invalid value: 0: not in valid range [1, 100]"


class Notes:
    """A recorder that writes Events down."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []  # kind, reason, note

    def record(self, regarding: Regarding, *, type: str, reason: str, action: str, note: str) -> None:
        self.events.append((regarding.kind, reason, note))


class World:
    def __init__(self, args: str = CONFIG) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.cluster = Cluster(self.clock)
        self.client = self.cluster.client()
        self.notes = Notes()
        self.is_leader = True
        self.objects = PolicyObjects(
            self.client,
            [profile_of("ours", args)],
            clock=self.clock,
            rng=random.Random(1),
            recorder=self.notes,
            permission=WritePermission(self),
        )

    def create(self, spec: str, name: str = "mine") -> None:
        item = MetricPolicyObject(metadata=ObjectMeta(name=name, namespace="shop"), spec=yaml.safe_load(spec))
        self.cluster.create_object(item)

    def change(self, spec: str, name: str = "mine") -> None:
        self.cluster.update_object(msgspec.structs.replace(self.stored(name), spec=yaml.safe_load(spec)))

    def stored(self, name: str = "mine") -> Any:
        return self.cluster.store(METRIC_POLICIES).objects[f"shop/{name}"]

    def condition(self, name: str = "mine") -> dict[str, Any]:
        conditions = (self.stored(name).status or {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "Valid"), {})


def simulate(scenario: Callable[[World], Awaitable[None]], args: str = CONFIG) -> None:
    async def main() -> None:
        world = World(args)
        task = asyncio.ensure_future(world.objects.run())
        try:
            await scenario(world)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_policies_are_in_force_as_they_are_in_the_cluster() -> None:
    async def scenario(world: World) -> None:
        world.create(GOOD)
        await world.objects.wait_for_sync()
        found = world.objects.book.policy_of(pod(policy="mine"))
        assert found is not None
        world.change("{score: [{metric: load, weight: 5}]}")
        await asyncio.sleep(1)
        found = world.objects.book.policy_of(pod(policy="mine"))
        assert found is not None
        assert found[1].score[0].weight == 5
        world.cluster.delete_object(METRIC_POLICIES, "shop/mine")
        await asyncio.sleep(1)
        with pytest.raises(LookupError):
            world.objects.book.policy_of(pod(policy="mine"))

    simulate(scenario)


def test_many_policies_that_are_there_at_the_start_are_one_change() -> None:
    async def scenario(world: World) -> None:
        book = world.objects.book
        reported: list[int] = []
        book.watch(lambda: reported.append(sum(book.states().values())))
        for number in range(1_200):  # more than a page
            world.create(GOOD, f"p{number}")
        await world.objects.wait_for_sync()
        assert (reported, book.version) == ([1_200], 1)
        world.create(GOOD, "late")
        await asyncio.sleep(1)
        assert (reported, book.version) == ([1_200, 1_201], 2)

    simulate(scenario)


def test_without_the_right_to_list_one_kind_the_other_is_in_force_after_a_moment() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.LIST, count=1000, resource=TAS_POLICIES.plural)
        world.create(GOOD)
        await world.objects.wait_for_sync()
        assert world.objects.book.version == 1
        assert world.objects.book.policy_of(pod(policy="mine")) is not None

    simulate(scenario)


def test_the_condition_says_whether_a_policy_is_valid_and_which_field_is_not() -> None:
    async def scenario(world: World) -> None:
        world.create(GOOD)
        await asyncio.sleep(1)
        assert (world.condition()["status"], world.condition()["reason"]) == ("True", "Accepted")
        since = world.condition()["lastTransitionTime"]
        await asyncio.sleep(10)
        world.change(BAD)
        await asyncio.sleep(1)
        condition = world.condition()
        assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
        assert condition["message"] == f"{FAULT} (the last valid version stays in force)"
        assert condition["lastTransitionTime"] > since
        assert world.notes.events == [("MetricPolicy", "InvalidPolicy", condition["message"])]
        world.change(GOOD)
        await asyncio.sleep(1)
        assert world.condition()["status"] == "True"

    simulate(scenario)


def test_writing_a_condition_does_not_lead_to_writing_it_again() -> None:
    async def scenario(world: World) -> None:
        world.create(BAD)
        await asyncio.sleep(60)
        version = world.stored().metadata.resource_version
        await asyncio.sleep(600)
        assert world.stored().metadata.resource_version == version
        assert len(world.notes.events) == 1

    simulate(scenario)


def test_conditions_of_others_stay() -> None:
    async def scenario(world: World) -> None:
        world.create(GOOD)
        other = {"type": "Reviewed", "status": "True"}
        world.cluster.patch_policy_status("shop/mine", "", {"conditions": [other]})
        await asyncio.sleep(1)
        assert [one["type"] for one in world.stored().status["conditions"]] == ["Reviewed", "Valid"]

    simulate(scenario)


def test_a_standby_knows_and_does_not_write_until_it_leads() -> None:
    async def scenario(world: World) -> None:
        world.is_leader = False
        world.create(BAD)
        await asyncio.sleep(60)
        assert world.condition() == {}
        assert world.notes.events == []
        world.is_leader = True
        await asyncio.sleep(10)
        assert world.condition()["message"] == FAULT

    simulate(scenario)


def test_a_new_leader_does_not_repeat_what_the_condition_says() -> None:
    async def scenario(world: World) -> None:
        world.create(BAD)
        await asyncio.sleep(1)
        successor = Notes()
        objects = PolicyObjects(
            world.client,
            [profile_of("ours", CONFIG)],
            clock=world.clock,
            rng=random.Random(2),
            recorder=successor,
            permission=WritePermission(),
        )
        task = asyncio.ensure_future(objects.run())
        await asyncio.sleep(10)
        assert objects.book.states() == {("MetricPolicy", "invalid"): 1}
        assert successor.events == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(scenario)


def test_a_write_that_fails_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_POLICY, count=3)
        world.create(BAD)
        await asyncio.sleep(60)
        assert world.condition()["status"] == "False"
        assert len(world.notes.events) == 1

    simulate(scenario)


def test_what_a_taspolicy_asks_for_in_vain_is_reported_by_an_event() -> None:
    async def scenario(world: World) -> None:
        spec = yaml.safe_load(HOT.replace("NAME", "temperature"))
        spec["strategies"]["labeling"] = {"rules": []}
        world.cluster.create_object(TASPolicyObject(metadata=ObjectMeta(name="hot", namespace="shop"), spec=spec))
        await asyncio.sleep(60)
        note = "strategy labeling is not carried out by this scheduler"
        assert world.notes.events == [("TASPolicy", "PolicyPartlyIgnored", note)]
        assert world.objects.book.policy_of(pod(tas="hot")) is not None

    simulate(scenario)


def test_nothing_is_asked_of_the_cluster_unless_a_profile_wants_it() -> None:
    async def scenario(world: World) -> None:
        assert world.objects.informers == ()
        await world.objects.wait_for_sync()

    simulate(scenario, "policies: []")
    assert book_of()[0].metrics() == ()


# --- kinds that are not installed -----------------------------------------------------------------------------------


def uninstalled(world: World) -> Any:
    return world.cluster._stores.pop(("kscheduler.io", METRIC_POLICIES.plural))


def test_a_kind_that_is_not_installed_is_no_reason_to_wait_and_is_found_later() -> None:
    async def scenario(world: World) -> None:
        store = uninstalled(world)
        before = world.clock.now()
        await world.objects.wait_for_sync()
        assert world.clock.now() - before < 1
        world.cluster._stores["kscheduler.io", METRIC_POLICIES.plural] = store
        world.create(GOOD)
        await asyncio.sleep(60)
        assert world.objects.book.policy_of(pod(policy="mine")) is not None

    simulate(scenario)


def test_a_kind_that_is_removed_takes_its_policies_along() -> None:
    async def scenario(world: World) -> None:
        world.create(GOOD)
        await world.objects.wait_for_sync()
        uninstalled(world)
        await asyncio.sleep(1200)
        assert world.objects.book.states() == {}
        assert all(informer.synced.is_set() for informer in world.objects.informers)

    simulate(scenario)


def test_without_the_right_to_list_a_start_waits_a_moment_only() -> None:
    async def scenario(world: World) -> None:
        world.client.faults.add(FaultKind.SERVER_ERROR, Verb.LIST, count=1000)
        before = world.clock.now()
        await world.objects.wait_for_sync()
        assert world.clock.now() - before == pytest.approx(FIRST_LISTS_S)
        informer: Informer[Any] = world.objects.informers[0]
        assert not informer.synced.is_set()

    simulate(scenario)
